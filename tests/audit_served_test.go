package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tiled is a log that is served from memory: what an export holds, as C2SP
// tlog-tiles has it.
func tiled(t *testing.T, export []byte) map[string][]byte {
	t.Helper()
	var head struct{ Checkpoint string }
	lines := bytes.Split(bytes.TrimSpace(export), []byte("\n"))
	if err := json.Unmarshal(lines[0], &head); err != nil {
		t.Fatal(err)
	}
	served := map[string][]byte{"checkpoint": []byte(head.Checkpoint)}
	events := lines[1 : len(lines)-1]
	for from := 0; from < len(events); from += 256 {
		page := events[from:min(from+256, len(events))]
		var tile, bundle []byte
		for _, line := range page {
			var e struct {
				Seq             int
				Timestamp, Leaf string
			}
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			hash, err := base64.StdEncoding.DecodeString(e.Leaf)
			if err != nil {
				t.Fatal(err)
			}
			document := bytes.Replace(line, []byte(`,"leaf":"`+e.Leaf+`"`), nil, 1)
			entry := fmt.Appendf(nil, `{"digest":"sha256:%x","seq":%d,"time":"%s","v":1}`, sha256.Sum256(document), e.Seq, e.Timestamp)
			tile, bundle = append(tile, hash...), append(append(bundle, byte(len(entry)>>8), byte(len(entry))), entry...)
		}
		name := fmt.Sprintf("%03d", from/256)
		if len(page) < 256 {
			name += fmt.Sprintf(".p/%d", len(page))
		}
		served["tile/0/"+name], served["tile/entries/"+name] = tile, bundle
	}
	return served
}

// upTo is an export of the whole log as it was when a part of it was exported.
func upTo(t *testing.T, part, later []byte) []byte {
	t.Helper()
	head, end, _ := bytes.Cut(part, []byte("\n"))
	var header struct{ Checkpoint string }
	if err := json.Unmarshal(head, &header); err != nil {
		t.Fatal(err)
	}
	size, err := strconv.Atoi(strings.Split(header.Checkpoint, "\n")[1])
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(later, []byte("\n"))
	return slices.Concat(head, []byte("\n"), bytes.Join(lines[1:size+1], nil), end)
}

// TestAuditServed verifies a log over HTTP, in order and not.
func TestAuditServed(t *testing.T) {
	d := onShared(t)
	whole, err := os.ReadFile(d.exported(t))
	if err != nil {
		t.Fatal(err)
	}
	part, err := os.ReadFile(d.exported(t, "--agent", "nobody"))
	if err != nil {
		t.Fatal(err)
	}
	later, err := os.ReadFile(d.exported(t))
	if err != nil {
		t.Fatal(err)
	}
	served, export := tiled(t, whole), later
	elsewhere, asked := "", false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/audit/export" && elsewhere != "" {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
			return
		}
		if r.URL.Path == "/v1/audit/export" {
			if r.Header.Get("Authorization") != "Bearer right" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write(export)
			return
		}
		data, there := served[strings.TrimPrefix(r.URL.Path, "/log/")]
		if !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	state := filepath.Join(t.TempDir(), "seen")
	check := func(what string, code int, want string, env []string, args ...string) {
		t.Helper()
		got := cli(t, env, "", append([]string{"audit", "verify"}, args...)...)
		if got.code != code || !strings.Contains(got.out+got.err, want) {
			t.Errorf("%s: exit %d, want %d and %q in\n%s%s", what, got.code, code, want, got.out, got.err)
		}
	}
	key := []string{"--key", filepath.Join(d.dir, "log-key.pub"), "--url", server.URL}
	with := func(args ...string) []string { return append(append([]string{}, key...), args...) }
	entitled := []string{"HOLDPOINT_API_KEY=right"}

	check("the entries", 0, "note the entries were checked, not what happened", nil, key...)
	check("by its prefix", 0, "none missing", nil, "--key", key[1], "--url", server.URL+"/log/")
	check("to be remembered", 0, "", nil, with("--state", state, "-q")...)
	check("remembered", 0, "", nil, with("--state", state, "-q")...)
	check("the events", 0, "approvals ended by the rules", entitled, with("--state", state)...)
	check("an older log than was seen", 1, "its tail was cut", nil, with("--state", state)...)
	check("without a key", 2, "a served log is verified with --key only", nil, "--url", server.URL)
	check("by whoever may not read events", 2, "the server answers 403", []string{"HOLDPOINT_API_KEY=wrong"}, key...)
	elsewhere = other.URL + "/v1/audit/export"
	check("events that are elsewhere", 2, "where HOLDPOINT_API_KEY does not go", entitled, key...)
	if elsewhere = ""; asked {
		t.Error("the key went to another server of the same host")
	}
	export = whole[:len(whole)/2]
	check("events that are cut off", 1, "BAD ", entitled, key...)
	export = bytes.Replace(later, []byte(`"type":"export"`), []byte(`"type":"exposé"`), 1)
	check("events that are others", 1, "it was changed after it was logged", entitled, key...)
	export = []byte("<html>sign in</html>")
	check("something else", 2, "gives a page", entitled, key...)
	// Of the very log that is served: nothing else is wrong with it.
	served, export = tiled(t, upTo(t, part, later)), part
	check("a part that leaves out everything", 1, "gives a part of it", entitled, key...)

	served = tiled(t, bytes.Replace(whole, []byte(`"type":"export"`), []byte(`"type":"exposé"`), 1))
	check("an entry that is another", 1, "it is not the event that the log has in this place", nil, key...)
	served = tiled(t, whole)
	delete(served, "checkpoint")
	check("no log", 2, "it answers 404", nil, key...)
	served["checkpoint"] = []byte("<html>welcome</html>")
	check("a page", 1, "the checkpoint is not to be believed", nil, key...)
	server.Close()
	check("nobody there", 2, "ask the log for checkpoint", nil, key...)
}
