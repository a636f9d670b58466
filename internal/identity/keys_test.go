package identity

import (
	"testing"
	"time"
)

// However many use a key, one of them asks the database again; when nobody has heard from it
// for long enough, everybody does.
func TestOneAsksAgain(t *testing.T) {
	k := &Keys{known: map[string]knownKey{}}
	now := time.Now()
	known := func(age time.Duration) bool {
		_, ok := k.recall("key_a", now.Add(age))
		return ok
	}
	if known(0) {
		t.Error("a key is known of which nothing was ever heard")
	}
	k.known["key_a"] = knownKey{when: now}
	if !known(0) || !known(remembered/2-1) {
		t.Error("a key is forgotten at once")
	}
	if known(remembered / 2) {
		t.Error("nobody asks again")
	}
	if !known(remembered/2) || !known(remembered-1) {
		t.Error("somebody else asks, too")
	}
	for range 2 {
		if known(remembered) {
			t.Error("a key is believed for longer than it is remembered")
		}
	}
}
