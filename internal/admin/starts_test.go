package admin_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// A start with other settings than the last one of the same program is one event, however many processes
// are started with them, and says which settings, never what they are.
func TestStarts(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	s := db.Runtime()
	start := func(program, secret, lease string) admin.Start {
		return admin.NewStart(program, "v1", db.Sealer, map[string][]byte{"smtp": []byte(secret), "execution_lease": []byte(lease)}, map[string][]byte{"execution_lease": []byte("15m")})
	}
	record := func(a admin.Start) {
		t.Helper()
		if err := a.Record(t.Context(), s.Starts); err != nil {
			t.Fatal(err)
		}
	}
	code := func(code string) (list []engine.Event) {
		t.Helper()
		events, err := s.Events.List(t.Context(), store.EventFilter{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == engine.Admin && e.Reasons[0].Code == code {
				list = append(list, e)
			}
		}
		return list
	}
	told := func() []engine.Event { return code("STARTED_OTHERWISE") }
	first, second := start("serve", "hunter2", "15m"), start("serve", "hunter3", "1m")
	record(first)
	record(first)
	record(start("worker", "hunter3", "1m"))
	if got := told(); len(got) != 0 {
		t.Fatalf("the first starts are told of as others: %+v", got)
	}
	firsts := code("STARTED_FIRST")
	var set struct {
		Program, Settings string
		Set               []string
	}
	if len(firsts) != 2 || json.Unmarshal(firsts[0].SafePayload, &set) != nil || set.Program != "serve" || set.Settings != first.Settings() || !slices.Equal(set.Set, []string{"smtp"}) || strings.Contains(string(firsts[0].SafePayload), "hunter") {
		t.Errorf("the first starts: %+v, %+v", firsts, set)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := second.Record(t.Context(), s.Starts); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := told()
	if len(got) != 1 || got[0].Actor.ID != "serve" {
		t.Fatalf("%+v", got)
	}
	var says struct {
		Program, Settings, Former string
		Changed                   []string
	}
	if err := json.Unmarshal(got[0].SafePayload, &says); err != nil || says.Program != "serve" || !slices.Equal(says.Changed, []string{"execution_lease", "smtp"}) ||
		says.Settings != second.Settings() || says.Former != first.Settings() || strings.Contains(string(got[0].SafePayload), "hunter") {
		t.Errorf("%v, %s", err, got[0].SafePayload)
	}
	record(first) // back again, with what somebody has who has not been told
	if got := told(); len(got) != 2 {
		t.Errorf("%d events", len(got))
	}
	// What another version has beside is nothing that somebody has set.
	newer := func(value string) admin.Start {
		return admin.NewStart("serve", "v2", db.Sealer, map[string][]byte{"smtp": []byte("hunter2"), "execution_lease": []byte("15m"), "new": []byte("1"), "newer": []byte(value)}, map[string][]byte{"new": []byte("1"), "newer": []byte("1")})
	}
	last, since, err := s.Starts.Last(t.Context(), "serve")
	if err != nil || since.IsZero() || len(newer("1").Differing(last)) != 0 || !slices.Equal(second.Differing(last), []string{"execution_lease", "smtp"}) {
		t.Errorf("the last start: %v since %s, %v", last, since, err)
	}
	record(newer("1"))
	if got := told(); len(got) != 2 {
		t.Errorf("another version: %d events", len(got))
	}
	if _, _, err := s.Starts.Last(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such program: %v", err)
	}
	// What somebody has set of it is.
	record(first)
	record(newer("2"))
	payloads := func() (all string) {
		for _, e := range told() {
			all += string(e.SafePayload)
		}
		return all
	}
	if got := payloads(); len(told()) != 3 || !strings.Contains(got, `"new":["newer"]`) || strings.Contains(got, "unproved") {
		t.Errorf("a setting that is new: %s", got)
	}
	// Whoever holds the runtime's login takes out what is to change: the next start says that it does not know.
	runtime := db.Connect(db.RuntimeURL)
	for n, emptied := range []string{`'{}'`, `settings - 'smtp'`, `settings - ''`, `jsonb_set(settings, '{smtp}', settings->'newer')`} {
		if _, err := runtime.Exec(t.Context(), `UPDATE starts SET settings = `+emptied+` WHERE program = 'serve'`); err != nil {
			t.Fatal(err)
		}
		record(newer("2"))
		record(newer("2"))
		if got := payloads(); len(told()) != 4+n || strings.Count(got, `"unproved":true`) != 1+n {
			t.Errorf("after %s: %d events, %s", emptied, len(told()), got)
		}
	}
}
