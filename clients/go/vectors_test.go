package holdpoint

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// vectors reads what the clients of all languages are tested with.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestVectorsOfDigests(t *testing.T) {
	var file struct {
		Cases []struct {
			Name, Tool, Canonical, Digest string
			Arguments                     json.RawMessage
		}
	}
	vectors(t, "digests.json", &file)
	for _, c := range file.Cases {
		form, err := canonical(c.Arguments)
		if err != nil || string(form) != c.Canonical {
			t.Errorf("%s: got %s, %v, want %s", c.Name, form, err, c.Canonical)
		}
		if got, err := Digest(c.Tool, c.Arguments); err != nil || got != c.Digest {
			t.Errorf("%s: got %s, %v, want %s", c.Name, got, err, c.Digest)
		}
	}
	if len(file.Cases) < 10 {
		t.Errorf("%d cases", len(file.Cases))
	}
	for _, text := range []string{`-0`, `9007199254740993`, `1e400`, `1e-400`, `-0.0`, `"\u0000"`} {
		if got, err := Digest("t", json.RawMessage(text)); err == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestVectorsOfStreams(t *testing.T) {
	var file struct {
		Cases []struct {
			Name     string
			Chunks   []string
			Messages []struct{ Event, ID, Data string }
		}
	}
	vectors(t, "streams.json", &file)
	for _, c := range file.Cases {
		var want []message
		for _, m := range c.Messages {
			want = append(want, message{m.Event, m.ID, m.Data})
		}
		text := strings.Join(c.Chunks, "")
		for _, stream := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			var got []message
			if err := readMessages(stream, func(m message) bool { got = append(got, m); return true }); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %q, %v, want %q", c.Name, got, err, want)
			}
		}
	}
}

func TestVectorsOfProblems(t *testing.T) {
	var file struct {
		Now   int64
		Cases []struct {
			Name, Body string
			Status     int
			Headers    map[string]string
			Want       struct {
				Code, Title, Detail, Successor string
				Retryable                      bool
				RetryAfter                     float64 `json:"retry_after"`
				RequestID                      string  `json:"request_id"`
				Errors                         []FieldError
			}
		}
	}
	vectors(t, "problems.json", &file)
	for _, c := range file.Cases {
		header := http.Header{}
		for name, value := range c.Headers {
			header.Set(name, value)
		}
		p, w := problemAt(c.Status, header, []byte(c.Body), time.Unix(file.Now, 0)), c.Want
		if p.Status != c.Status || p.Code != w.Code || w.Title != "" && p.Title != w.Title || p.Detail != w.Detail || p.Successor != w.Successor ||
			p.Retryable() != w.Retryable || p.RetryAfter.Seconds() != w.RetryAfter || p.RequestID != w.RequestID || !slices.Equal(p.Errors, w.Errors) {
			t.Errorf("%s: got %+v, want %+v", c.Name, p, w)
		}
	}
}

func TestVectorsOfRedemptions(t *testing.T) {
	var file struct {
		Answers []struct {
			Name, Verdict string
			Body          json.RawMessage
		}
		Problems []struct {
			Name, Code, Verdict string
			Status              int
		}
	}
	vectors(t, "redeem.json", &file)
	for _, c := range file.Answers {
		var answer redemptionAnswer
		err := json.Unmarshal(c.Body, &answer)
		if err == nil {
			err = answer.valid()
		}
		if (err == nil) != (c.Verdict == "run") {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	for _, c := range file.Problems {
		if got := verdictOf(&Problem{Status: c.Status, Code: c.Code}); got != c.Verdict {
			t.Errorf("%s: got %s, want %s", c.Name, got, c.Verdict)
		}
	}
}

func TestVectorsOfDecisions(t *testing.T) {
	var file struct {
		Cases []struct {
			Name     string
			Decision json.RawMessage
			Accepted bool
		}
	}
	vectors(t, "decisions.json", &file)
	for _, c := range file.Cases {
		var d Decision
		if got := json.Unmarshal(c.Decision, &d) == nil && ShouldExecute(d); got != c.Accepted {
			t.Errorf("%s: accepted %v", c.Name, got)
		}
	}
}

func TestVectorsOfJournals(t *testing.T) {
	var file struct {
		Cases []struct {
			Name, Text string
			Want       map[string]map[string]string
		}
	}
	vectors(t, "journals.json", &file)
	for _, c := range file.Cases {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(c.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.entries) != len(c.Want) {
			t.Errorf("%s: %d calls", c.Name, len(j.entries))
		}
		for call, want := range c.Want {
			e := j.entries[call]
			if e == nil {
				t.Errorf("%s: %s is not there", c.Name, call)
				continue
			}
			got := map[string]string{
				"step": e.step, "tool": e.tool, "key": e.key, "body": e.body, "approval": e.approval, "redeem_key": e.redeemKey,
				"by": e.by, "outcome": string(e.outcome), "why": e.why,
			}
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s: %s of %s is %q, want %q", c.Name, name, call, got[name], value)
				}
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestVectorsOfTokens(t *testing.T) {
	type expectation struct{ Issuer, Audience, Subject, Digest string }
	type vector struct {
		Name     string
		Token    json.RawMessage
		JWKSText string `json:"jwks_text"`
		Expect   *expectation
		Claims   struct {
			ApprovalID  string `json:"approval_id"`
			Subject     string
			Expires     int64
			Constraints json.RawMessage
		}
	}
	var file struct {
		Now       int64
		Expect    expectation
		JWKSText  string `json:"jwks_text"`
		Good, Bad []vector
	}
	vectors(t, "tokens.json", &file)
	var first string
	verify := func(v vector) (Claims, error) {
		var token string
		if json.Unmarshal(v.Token, &token) != nil {
			var long struct {
				Letters int `json:"good_and_letters"`
			}
			if err := json.Unmarshal(v.Token, &long); err != nil {
				t.Fatal(err)
			}
			token = first + strings.Repeat("A", long.Letters)
		} else if first == "" {
			first = token
		}
		want, set := file.Expect, file.JWKSText
		if v.Expect != nil {
			want = *v.Expect
		}
		if v.JWKSText != "" {
			set = v.JWKSText
		}
		return VerifyToken([]byte(set), token, Expect{want.Issuer, want.Audience, want.Subject, want.Digest, time.Unix(file.Now, 0)})
	}
	for _, v := range file.Good {
		c, err := verify(v)
		if err != nil || c.ApprovalID != v.Claims.ApprovalID || c.Subject != v.Claims.Subject || c.Expires != v.Claims.Expires || Constrained(c.Constraints) != Constrained(v.Claims.Constraints) {
			t.Errorf("%s: %+v, %v", v.Name, c, err)
		}
	}
	for _, v := range file.Bad {
		if c, err := verify(v); err == nil {
			t.Errorf("%s: believed as %+v", v.Name, c)
		} else if strings.HasPrefix(v.Name, "set: ") == errors.Is(err, ErrToken) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if len(file.Bad) < 45 {
		t.Errorf("%d bad tokens", len(file.Bad))
	}
}

func TestWebhooks(t *testing.T) {
	type vector struct {
		Name, Secret, Body string
		Headers            map[string]string
		Want               struct {
			Type, Status string
			ApprovalID   string `json:"approval_id"`
		}
	}
	var file struct {
		Now       int64
		Secret    string
		Good, Bad []vector
	}
	vectors(t, "webhooks.json", &file)
	verify := func(v vector, more ...string) (Webhook, error) {
		secret, header := file.Secret, http.Header{}
		if v.Secret != "" || v.Name == "no secret" {
			secret = v.Secret
		}
		for name, value := range v.Headers {
			header.Set(name, value)
		}
		for _, id := range more {
			header.Add("Webhook-Id", id)
		}
		return VerifyWebhook(secret, header, []byte(v.Body), time.Unix(file.Now, 0))
	}
	for _, v := range file.Good {
		w, err := verify(v)
		if err != nil || w.ID != v.Headers["webhook-id"] || w.Type != v.Want.Type || w.ApprovalID != v.Want.ApprovalID || string(w.Status) != v.Want.Status {
			t.Errorf("%s: %+v, %v", v.Name, w, err)
		}
	}
	for _, v := range file.Bad {
		if w, err := verify(v); !errors.Is(err, ErrWebhook) {
			t.Errorf("%s: believed as %+v, %v", v.Name, w, err)
		}
	}
	if _, err := verify(file.Good[0], "ntf_2"); !errors.Is(err, ErrWebhook) {
		t.Errorf("a header twice: %v", err)
	}
	if len(file.Bad) < 40 {
		t.Errorf("%d bad webhooks", len(file.Bad))
	}
}

func TestGoesOn(t *testing.T) {
	var file struct {
		Cases []struct {
			Name, Text, Body, Want string
			Headers                map[string]string
			Live                   []string
		}
	}
	vectors(t, "goes_on.json", &file)
	for _, v := range file.Cases {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(v.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range v.Live {
			if err := j.enter(call); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := j.enterAs(identity(v.Body, v.Headers)); err != nil || got.call != v.Want {
			t.Errorf("%s: goes on as %q, %v, want %q", v.Name, got.call, err, v.Want)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(file.Cases) < 30 {
		t.Errorf("%d cases", len(file.Cases))
	}
}
