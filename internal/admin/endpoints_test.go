package admin_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/store/storetest"
)

// Of changes of an endpoint at once, each is given what the one before has made.
func TestEndpointChangesAtOnce(t *testing.T) {
	endpoints := admin.New(admin.Config{Store: storetest.New(t).Owner(), Owner: true}).Endpoints
	id, _, err := endpoints.Add(t.Context(), command, admin.NewEndpoint{Kind: notify.Email, Name: "desk", Settings: notify.Settings{To: []string{notify.Reviewers}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{notify.Reviewers}
	var all sync.WaitGroup
	for i := range 8 {
		address := fmt.Sprintf("desk%d@example.com", i)
		want = append(want, address)
		all.Go(func() {
			add := func(s *notify.Settings) { s.To = append(s.To, address) }
			if err := endpoints.Change(t.Context(), command, id, admin.EndpointChange{Settings: add}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, _, err := endpoints.Overview(t.Context(), 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if got := slices.Sorted(slices.Values(list[0].Settings.To)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("it tells %v, want %v", got, want)
	}
}
