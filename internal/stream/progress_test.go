package stream

import (
	"strings"
	"testing"
	"time"

	"holdpoint/internal/store"
)

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		at   store.StreamPosition
		want string // part of what is wrong; "" for nothing
	}{
		"caught up":       {store.StreamPosition{Leaf: 7, Size: 7}, ""},
		"a little behind": {store.StreamPosition{Leaf: 7, Size: 9, Oldest: time.Second}, ""},
		"far behind":      {store.StreamPosition{Leaf: 7, Size: 9, Oldest: time.Hour}, "1h0m0s ago"},
		"failing":         {store.StreamPosition{Leaf: 7, Size: 9, Error: "the receiver answers 500", FailingAt: time.Unix(0, 0).UTC()}, "since 1970-01-01T00:00:00Z: the receiver answers 500"},
		"set wrongly":     {store.StreamPosition{Leaf: 9, Size: 7}, "behind the end"},
	} {
		test.at.Name = "siem"
		what, err := Progress("siem", map[string]store.StreamPosition{"siem": test.at})
		if !strings.Contains(what, "siem, taken up to seq") || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s: %v", name, what, err)
		}
	}
	if _, err := Progress("siem", nil); err == nil {
		t.Error("a stream that has never run is well")
	}
}
