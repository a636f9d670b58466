package admin_test

import (
	"encoding/json"
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
		return admin.NewStart(program, "v1", db.Sealer, map[string][]byte{"smtp": []byte(secret), "execution_lease": []byte(lease)})
	}
	record := func(a admin.Start) {
		t.Helper()
		if err := a.Record(t.Context(), s.Starts); err != nil {
			t.Fatal(err)
		}
	}
	told := func() (list []engine.Event) {
		t.Helper()
		events, err := s.Events.List(t.Context(), store.EventFilter{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == engine.Admin && e.Reasons[0].Code == "STARTED_OTHERWISE" {
				list = append(list, e)
			}
		}
		return list
	}
	first, second := start("serve", "hunter2", "15m"), start("serve", "hunter3", "1m")
	record(first)
	record(first)
	record(start("worker", "hunter3", "1m"))
	if got := told(); len(got) != 0 {
		t.Fatalf("the first starts are told of: %+v", got)
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
	record(admin.NewStart("serve", "v2", db.Sealer, map[string][]byte{"smtp": []byte("hunter2"), "execution_lease": []byte("15m"), "new": []byte("1")}))
	if got := told(); len(got) != 2 {
		t.Errorf("another version: %d events", len(got))
	}
}
