package holdpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTellsWhatAReviewerAsks: once for each question, from the stream and where a proxy keeps that back.
func TestTellsWhatAReviewerAsks(t *testing.T) {
	asks := func(text, at string) string {
		return fmt.Sprintf(`{"id":"apr_1","status":"pending","tool_name":"t","question":{"text":%q,"at":%q}}`, text, at)
	}
	first, same, third := asks("Which invoice?", "2026-01-01T00:00:00Z"), asks("Which invoice?", "2026-01-02T00:00:00Z"), asks("Why?", "2026-01-03T00:00:00Z")
	want := []string{"Which invoice?", "Which invoice?", "Why?"}
	for name, steps := range map[string][]step{
		"stream": {streams(pending, first, first, pending, same), streams(same, third, wanted)},
		"asking": {answer(200, pending), answer(200, pending), answer(200, first, "ETag", "1"), answer(200, first, "ETag", "2"), answer(304, "", "ETag", "2"), answer(200, same, "ETag", "3"), answer(200, third, "ETag", "4"), answer(200, wanted)},
	} {
		_, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), slices.Concat([]step{answer(202, waiting)}, steps, []step{answer(200, redeemed), answer(200, `{}`)})...)
		var told []string
		tool.Client.OnWait, tool.Client.OnQuestion = func(Approval) {}, func(a Approval) { told = append(told, a.Question.Text) }
		if _, err := tool.Call(ctx, numbered{1}); err != nil || !slices.Equal(told, want) {
			t.Errorf("%s: told %q, %v", name, told, err)
		}
	}
	a := Approval{ToolName: "p\x1bay", Token: "TOKEN", Links: Links{Review: "http://h/approvals/apr_1"}, Question: &Question{Text: "Which\u202e one?"}}
	if got, want := asksFor(a), "holdpoint: a reviewer of p?ay asks: “Which? one?” It waits for the answer: of the program, by Inform, or of the agent's owner: http://h/approvals/apr_1"; got != want {
		t.Errorf("got %q", got)
	}
}

// TestGuardTells: who guards by a function learns of it, too.
func TestGuardTells(t *testing.T) {
	_, c := newWire(t, answer(202, waiting), answer(200, `{"id":"apr_1","status":"pending","question":{"text":"Why?"}}`, "ETag", "1"), answer(200, `{"id":"apr_1","status":"denied"}`))
	var told []string
	c.OnWait, c.OnQuestion = func(a Approval) { told = append(told, a.ID) }, func(a Approval) { told = append(told, a.Question.Text) }
	var refused *Refused
	if err := c.Guard(ctx, Event{ToolName: "t"}, func(context.Context) error { return nil }); !errors.As(err, &refused) || !slices.Equal(told, []string{"apr_1", "Why?"}) {
		t.Errorf("told %q, %v", told, err)
	}
}

// TestSilentServer: what gave no answer is told by its address, without a password in it, and how long it was waited for.
func TestSilentServer(t *testing.T) {
	release := make(chan struct{})
	_, c := newWire(t, func(http.ResponseWriter, *http.Request, string) { <-release })
	t.Cleanup(func() { close(release) })
	at := strings.TrimSuffix(c.URL, "/")
	c.URL = strings.Replace(c.URL, "http://", "http://me:hp_secret@", 1) + "gate"
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := c.Check(short, Event{ToolName: "t"})
	if err == nil || !strings.HasPrefix(err.Error(), "check t: the server at "+at+" gave no answer in 0.") || !strings.HasSuffix(err.Error(), " seconds") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := (&Unreachable{Err: context.DeadlineExceeded, Server: "http://h", After: 61400 * time.Millisecond, Tries: 4}).Error(); got != "the server at http://h gave no answer in 61.4 seconds and 4 tries" {
		t.Errorf("got %s", got)
	}
	if got := (&Unreachable{Err: errors.New("refused"), Server: "http://h", Tries: 4}).Error(); got != "the server at http://h cannot be reached: refused" {
		t.Errorf("got %s", got)
	}
}
