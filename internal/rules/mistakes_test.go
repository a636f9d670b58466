package rules

import (
	"strings"
	"testing"
)

func TestRepeatedMistakesAreJoined(t *testing.T) {
	const bad = `outcome "ALOW" is no outcome (use one of ALLOW, DENY)`
	lines := []string{`p.yaml:7:14: rule "a \"b\": c": ` + bad, `p.yaml:9:3: a mistake of its own`}
	for _, n := range []string{"20", "30", "40", "50", "60", "70"} {
		lines = append(lines, "p.yaml:"+n+`:14: rule "r`+n+`": `+bad)
	}
	want := strings.Join([]string{
		`p.yaml:7:14: rule "a \"b\": c": ` + bad + ` – and 6 times more, in line 20, 30, 40, 50, 60, …`,
		`p.yaml:9:3: a mistake of its own`,
	}, "\n")
	if got := onceEach(strings.Join(lines, "\n")); got != want {
		t.Errorf("got %s", got)
	}
	for _, same := range []string{"", "policy: no such file", "a\nb"} {
		if got := onceEach(same); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
}
