package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/approval"
)

// A text that is drawn like one that people have approved at the same place of the same
// tool, and is another one, is named on the card; what is the same, what is at another
// place, and what nobody has approved is not.
func TestResemblingNames(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	call := func(tool, arguments string) string {
		return strings.Replace(strings.Replace(deferred, args, arguments, 1), `"tool_name":"pay"`, `"tool_name":"`+tool+`"`, 1)
	}
	end := func(yes bool, doc string) approval.Approval {
		t.Helper()
		a := h.decided(doc)
		if err := h.vote("ada", a, yes); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		return h.get(a.ID).Approval
	}
	const genuine, twin = "Paper & Pens", "Pаper & Pens" // the second has a Cyrillic а
	if genuine == twin {
		t.Fatal("the two are one")
	}
	known := end(true, call("pay", fmt.Sprintf(`{"payee":{"name":%q},"lines":[{"to":"abc"},{"to":%q}]}`, genuine, genuine)))
	h.want("the first call", known, approval.Approved)
	h.want("a denied one", end(false, call("pay", `{"payee":{"name":"\u041E2"}}`)), approval.Denied) // a Cyrillic О
	for name, c := range map[string]struct {
		tool, arguments string
		want            []string
	}{
		"the same name":                {"pay", fmt.Sprintf(`{"payee":{"name":%q}}`, genuine), nil},
		"its twin":                     {"pay", fmt.Sprintf(`{"payee":{"name":%q}}`, twin), []string{"payee.name"}},
		"its twin in an array":         {"pay", fmt.Sprintf(`{"lines":[{"to":"x"},{"to":"y"},{"to":%q}]}`, twin), []string{"lines[].to"}},
		"both, one of them known":      {"pay", fmt.Sprintf(`{"payee":{"name":%q},"lines":[{"to":%q}]}`, twin, genuine), []string{"payee.name"}},
		"its twin somewhere else":      {"pay", fmt.Sprintf(`{"note":%q}`, twin), nil},
		"its twin of another tool":     {"send", fmt.Sprintf(`{"payee":{"name":%q}}`, twin), nil},
		"like what nobody has allowed": {"pay", `{"payee":{"name":"O2"}}`, nil},
		"another name":                 {"pay", `{"payee":{"name":"Stones"}}`, nil},
		"no texts":                     {"pay", `{"amount":7}`, nil},
	} {
		var places []string
		for _, r := range h.card("ada", h.open(call(c.tool, c.arguments)).ID).Resembles {
			places = append(places, r.Place)
			if r.Here != twin || r.Known != genuine {
				t.Errorf("%s: %q resembles %q", name, r.Here, r.Known)
			}
			if !r.At.Equal(known.EndedAt) {
				t.Errorf("%s: approved at %s, want %s", name, r.At, known.EndedAt)
			}
		}
		if !slices.Equal(places, c.want) {
			t.Errorf("%s: %q, want %q", name, places, c.want)
		}
	}
	// Once it has been approved as well it is known.
	h.want("the twin", end(true, call("pay", fmt.Sprintf(`{"payee":{"name":%q}}`, twin))), approval.Approved)
	if found := h.card("ada", h.open(call("pay", fmt.Sprintf(`{"n":1,"payee":{"name":%q}}`, twin))).ID).Resembles; len(found) != 0 {
		t.Errorf("what has been approved resembles %v", found)
	}
}
