package audit

import (
	"bytes"
	"testing"
	"time"

	"holdpoint/engine/canon"
)

// FuzzVerifier: whatever it is given, it neither panics nor believes it: only the
// export itself is in order.
func FuzzVerifier(f *testing.F) {
	w := newWorld(f, 12)
	w.approved()
	w.plain()
	l := newLog(f, "log.example.com", w.events)
	whole := bytes.TrimSpace(bytes.Join(l.whole(), nil))
	part := bytes.TrimSpace(bytes.Join(l.export(Filter{Tool: "pay"}, func(r Record) bool { return r.ToolName == "pay" }), nil))
	some := bytes.TrimSpace(bytes.Join(l.export(Filter{Type: "vote"}, func(r Record) bool { return r.Type == "vote" }), nil))
	h := l.header(true, Filter{}).Line()
	for _, seed := range [][]byte{whole, part, some, whole[:len(whole)/2], h, nil, []byte("\n\n"), []byte("{}\n{}"), append(bytes.Clone(h), EndLine(l.header(true, Filter{}), 0)...)} {
		f.Add(seed)
	}
	for _, line := range []string{
		`{"seq":1}`, `{"seq":1e300,"timestamp":"2026-01-01T00:00:00Z"}`, `{"events":1e300,"holdpoint":"end"}`, `{"events":-1,"holdpoint":"end","v":1}`,
		`{"Leaf":1,"leaf":1,"seq":1}`, `{"leaf":{},"proof":[[[[]]]],"seq":1,"timestamp":"2026-01-01T00:00:00Z"}`,
		`{"approval_id":"apr_1","leaf":"","requirements":{},"safe_payload":[],"seq":1,"timestamp":"2026-01-01T00:00:00Z","type":"decision"}`,
	} {
		f.Add(append(bytes.Clone(h), line...))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v := l.verifier()
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			v.Line(line)
		}
		if r := v.Done(); len(r.Problems) == 0 && !sub(text, whole) && !sub(text, part) && !sub(text, some) {
			t.Errorf("it is not what was exported, and in order:\n%s", text)
		} else if len(r.Problems) > maxProblems {
			t.Errorf("%d problems are kept", len(r.Problems))
		}
		// Without a key it is no more believing than that the text agrees with itself.
		again := &Verifier{}
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			again.Line(line)
		}
		again.Done()
	})
}

// sub reports whether the text is an export that was made: what a part leaves out
// nobody can tell, so of a part less lines are one as well.
func sub(text, made []byte) bool {
	have, want := bytes.Split(text, []byte("\n")), bytes.Split(made, []byte("\n"))
	if bytes.Equal(text, made) {
		return true
	}
	if bytes.Contains(want[0], []byte(`"whole":true`)) || !bytes.Equal(have[0], want[0]) {
		return false
	}
	i := 1
	for _, line := range have[1 : len(have)-1] {
		for i < len(want) && !bytes.Equal(want[i], line) {
			i++
		}
		if i == len(want) {
			return false
		}
	}
	return true
}

// FuzzParseHeader: what is read is written again as it was.
func FuzzParseHeader(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	for _, h := range []Header{
		{Checkpoint: "x\n1\ny\n\n— x z\n", Whole: true, Keys: []string{"k+1+a"}},
		{Filter: Filter{Since: at, Until: at, AgentID: "a"}},
		{Filter: Filter{Tool: "t", Outcome: "DENY", Type: "vote", ActorID: "usr_1", ApprovalID: "apr_1"}},
	} {
		f.Add(h.Line())
	}
	f.Add([]byte(`{"checkpoint":"","filter":{"since":"2026-01-01T00:00:00.0Z"},"holdpoint":"export","keys":[],"v":1,"whole":false}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := canon.Parse(text)
		if err != nil {
			return
		}
		h, err := ParseHeader(v)
		if err != nil {
			return
		}
		if want := append(v.Canonical(), '\n'); !bytes.Equal(h.Line(), want) {
			t.Errorf("got %s, want %s", h.Line(), want)
		}
	})
}
