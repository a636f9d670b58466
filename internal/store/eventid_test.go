package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

func TestEventIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := NewEventID()
		seen := map[string]bool{former: true}
		for range 1000 {
			time.Sleep(time.Millisecond)
			id := NewEventID()
			if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 4 || parsed.Variant() != uuid.RFC4122 {
				t.Fatalf("%s is no UUID of version 4: %v", id, err)
			}
			if id <= former {
				t.Fatalf("%s comes after %s", id, former)
			}
			former = id
		}
		for range 1000 { // of one millisecond
			id := NewEventID()
			if seen[id] {
				t.Fatalf("%s is there twice", id)
			}
			seen[id] = true
		}
	})
}
