package evidence_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/internal/evidence"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/passkeytest"
)

// signed is an approval with a vote that Ada's passkey has signed, having seen the card.
func (h *harness) signed() string {
	h.t.Helper()
	ctx := h.t.Context()
	var err error
	h.Factors, err = identity.NewFactors(h.Store, "https://console.example.com")
	must(h.t, err)
	ada := h.people["ada"]
	ada.VerifiedBy, ada.VerifiedAt = identity.Password, time.Now()
	key := passkeytest.New(h.t, "console.example.com")
	c, err := h.Factors.BeginPasskey(ctx, ada)
	must(h.t, err)
	must(h.t, h.Factors.FinishPasskey(ctx, ada, "laptop", c.ChallengeID, key.Create(c.PublicKey)))
	a := h.open("pay", `{"amount":"1 EUR"}`)
	h.look("ada", a.ID)
	v := gate.VoteRequest{
		Person: ada, ApprovalID: a.ID, Approve: true, Comment: "as agreed: 100 €", Digest: a.Call.Digest, Version: a.Version, Channel: "console",
		Constraints: json.RawMessage(`{"max_amount":100}`), ValidFor: time.Minute,
	}
	c, err = h.Contributions.SignVote(ctx, v)
	must(h.t, err)
	v.Signed = identity.Proof{ChallengeID: c.ChallengeID, Assertion: key.Get(c.PublicKey)}
	must(h.t, second(h.Contributions.Vote(ctx, v, nil)))
	return a.ID
}

func (h *harness) reports(pack string) audit.Report {
	h.t.Helper()
	report, _, err := evidence.Verify(strings.NewReader(pack), &audit.Verifier{Verifiers: []note.Verifier{h.verifier}})
	must(h.t, err)
	return report
}

// A pack has the passkeys of those who signed, and their signatures are verified by them.
func TestPackOfSignedVotes(t *testing.T) {
	h := newHarness(t)
	pack := h.pack(evidence.Request{ApprovalID: h.signed()})
	r := h.reports(pack)
	if got := r.Approvals; len(r.Problems) > 0 || got.Signed != 1 || got.SignedUnknown != 0 || len(r.Signed) != 1 {
		t.Fatalf("%v, %+v, %v", r.Problems, got, r.Signed)
	}
	if !strings.Contains(pack, "Signed with their passkey") {
		t.Error("the pages do not say who has signed")
	}
	lines := strings.SplitAfter(pack, "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"kind":"passkey"`) })
	if at < 0 {
		t.Fatal("no passkey is disclosed")
	}
	without := h.reports(strings.Join(slices.Delete(slices.Clone(lines), at, at+1), ""))
	if got := without.Approvals; len(without.Problems) > 0 || got.Signed != 0 || got.SignedUnknown != 1 {
		t.Errorf("without the passkey: %v, %+v", without.Problems, got)
	}
	lines[at] = strings.Replace(lines[at], `\"alg\":\"ES256\"`, `\"alg\":\"ES384\"`, 1)
	if r := h.reports(strings.Join(lines, "")); len(r.Problems) == 0 || !strings.Contains(r.Problems[0].What, "does not have the event of a passkey") {
		t.Errorf("with another passkey: %v", r.Problems)
	}
}

// needsCryptography ends a test for which Python lacks its package: as failed where CI says
// that all is there, else as skipped.
func needsCryptography(t *testing.T) {
	t.Helper()
	err := exec.CommandContext(t.Context(), "python3", "-c", "import cryptography").Run()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("python3 has no cryptography (.ci/run installs it): %v", err)
	default:
		t.Skipf("python3 has no cryptography: %v", err)
	}
}

// What docs/audit-verify.md says of signatures, a program of nobody's here computes.
func TestStrangersVerifySignatures(t *testing.T) {
	needsCryptography(t)
	page, err := os.ReadFile("../../docs/audit-verify.md")
	must(t, err)
	_, program, found := strings.Cut(string(page), "```python\nimport base64, hashlib, json\nfrom cryptography")
	program, _, ended := strings.Cut(program, "```\n")
	if !found || !ended {
		t.Fatal("the page has no such program")
	}
	h := newHarness(t)
	pack := h.pack(evidence.Request{ApprovalID: h.signed()})
	var vote, added string
	for line := range strings.Lines(pack) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		var item audit.Item
		switch {
		case strings.Contains(line, `"type":"vote"`) && strings.HasPrefix(line, "{"):
			vote = line
		case json.Unmarshal([]byte(line), &item) == nil && item.Kind == audit.ItemPasskey:
			added = item.Event
		}
	}
	file := filepath.Join(t.TempDir(), "verify.py")
	program = "import base64, hashlib, json\nfrom cryptography" + program + "\nimport sys\nvote, added = [json.loads(line) for line in sys.stdin]\nverify(vote, added)\n" +
		"vote['safe_payload']['fact']['yes'] = False\ntry:\n    verify(vote, added)\nexcept AssertionError:\n    print('verified')\n"
	must(t, os.WriteFile(file, []byte(program), 0o600))
	cmd := exec.CommandContext(t.Context(), "python3", file)
	cmd.Stdin = strings.NewReader(vote + "\n" + added + "\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "verified\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestStrangersVerifyPacks: so does what docs/evidence.md says of packs, and it finds what was changed.
func TestStrangersVerifyPacks(t *testing.T) {
	needsCryptography(t)
	page, err := os.ReadFile("../../docs/evidence.md")
	must(t, err)
	_, program, found := strings.Cut(string(page), "```python\n")
	program, _, ended := strings.Cut(program, "```\n")
	if !found || !ended {
		t.Fatal("the page has no such program")
	}
	h := newHarness(t)
	pack := h.pack(evidence.Request{ApprovalID: h.signed()})
	key, file := filepath.Join(t.TempDir(), "log-key.pub"), filepath.Join(t.TempDir(), "evidence.html")
	must(t, os.WriteFile(key, []byte(h.key), 0o600))
	for _, c := range []struct{ was, is, want string }{
		{"", "", "pages, 1 cards and"},
		{"<h1>", "<h1>No ", "the pages are not those that were written"},
		{`"type":"vote"`, `"type":"cote"`, "is not in the signed log"},
		{`\u003cdiv class=\"seen\"`, `\u003cdiv class=\"sean\"`, "a card is not one that the log names"},
		{"</body>", "<p>More</p></body>", "this is no evidence pack"},
	} {
		must(t, os.WriteFile(file, []byte(strings.Replace(pack, c.was, c.is, 1)), 0o600))
		out, err := exec.CommandContext(t.Context(), "python3", "-c", program, file, key).CombinedOutput()
		if good := c.was == ""; good != (err == nil) || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v: %s", c.is, err, out)
		}
	}
}
