package channel

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

func TestDigest(t *testing.T) {
	at := func(id string, kind engine.NotificationKind, tool, agent string, hours int) Notification {
		n := Notification{ID: "ntf_" + id, Kind: kind, At: noon, Tool: tool, Agent: agent}
		if hours > 0 {
			n.Deadline = noon.Add(time.Duration(hours) * time.Hour)
		}
		return n
	}
	late := at("late", engine.NotifyDecided, "pay", "bot", 0)
	late.At = noon.Add(time.Minute)
	d := Digest("ntf_d", []Notification{
		late, at("b", engine.NotifyOpened, "pay", "bot", 9), at("c", engine.NotifyOpened, "mail", "bot", 2), at("d", engine.NotifyOpened, "mail", "bot", 0),
		at("e", engine.NotifyBreakGlass, "pay", "bot", 0), at("b", engine.NotifyOpened, "pay", "bot", 9),
		{ID: "ntf_x", Kind: engine.NotifyDigest, Items: []Notification{at("f", engine.NotifyEscalated, "mail", "other", 30)}},
	})
	var order []string
	for _, n := range d.Items {
		order = append(order, strings.TrimPrefix(n.ID, "ntf_"))
	}
	if want := []string{"e", "f", "c", "b", "d", "late"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if want := "6 notices about 2 tools, the next deadline is 17 Nov 2026, 14:00 UTC."; d.Message != want {
		t.Errorf("message %q, want %q", d.Message, want)
	}
	if d.Kind != engine.NotifyDigest || d.ID != "ntf_d" || !d.At.Equal(late.At) {
		t.Errorf("%+v", d)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	groups, more := grouped(d.Items)
	var names []string
	for _, g := range groups {
		names = append(names, g.name())
	}
	if want := []string{"pay by bot", "mail by other", "mail by bot"}; !slices.Equal(names, want) || more != 0 {
		t.Errorf("groups %q, %d more, want %q", names, more, want)
	}
	if err := Digest("ntf_d", nil).Check(); err == nil {
		t.Error("a digest of nothing may be sent")
	}
}

func TestDigestDoesNotDependOnOrder(t *testing.T) {
	kinds := engine.NotificationKinds()[:12]
	rapid.Check(t, func(t *rapid.T) {
		var list []Notification
		for i := range rapid.IntRange(0, 70).Draw(t, "n") {
			n := Notification{ID: "ntf_" + thousands(i), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), At: noon, Tool: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tool")}
			if h := rapid.IntRange(0, 3).Draw(t, "hours"); h > 0 {
				n.Deadline = noon.Add(time.Duration(h) * time.Hour)
			}
			list = append(list, n)
		}
		shuffled := rapid.Permutation(list).Draw(t, "shuffled")
		d := Digest("ntf_d", list)
		if !reflect.DeepEqual(d, Digest("ntf_d", shuffled)) || !reflect.DeepEqual(d, Digest("ntf_d", append(list, d))) {
			t.Fatal("the digest depends on the order")
		}
		groups, more := grouped(shuffled)
		shown := 0
		for _, g := range groups {
			shown += len(g.Items)
			for _, n := range g.Items {
				// Nothing that is left out is more urgent than what is shown.
				for _, other := range d.Items[min(len(d.Items), maxItems):] {
					if byUrgency(other, n) < 0 {
						t.Fatalf("%s is left out, %s is shown", other.ID, n.ID)
					}
				}
			}
		}
		if shown > maxItems || shown+more != len(list) {
			t.Fatalf("%d shown and %d more of %d", shown, more, len(list))
		}
	})
}
