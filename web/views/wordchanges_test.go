package views

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// marked is code as text, with what differs in brackets.
func marked(c Code) string {
	var b strings.Builder
	for _, line := range c.Lines {
		for _, part := range line.Parts {
			for _, s := range part.Spans {
				if s.Differs {
					b.WriteString("[" + s.Shown + "]")
				} else {
					b.WriteString(s.Shown)
				}
			}
		}
	}
	return b.String()
}

func unmarked(c Code) string { return strings.NewReplacer("[", "", "]", "").Replace(marked(c)) }

func TestMarkWords(t *testing.T) {
	for _, test := range []struct{ before, after, wantBefore, wantAfter string }{
		{`"Pay the bill of May."`, `"Pay the bill of June."`, `"Pay the bill of [May]."`, `"Pay the bill of [June]."`},
		{`"one two three"`, `"one three"`, `"one [two ]three"`, `"one three"`},
		{`"a b c d"`, `"a x y d"`, `"a [b c] d"`, `"a [x y] d"`},
		{`"first\nsecond line\nthird"`, `"first\nanother line\nthird"`, `"first\n[second] line\nthird"`, `"first\n[another] line\nthird"`},
		{`"1250.00"`, `"1350.00"`, `"[1250].00"`, `"[1350].00"`},
		{`12`, `13`, `12`, `13`},
		{`"a"`, `"b"`, `"a"`, `"b"`},
		{`"to Paul"`, `"to Pаul"`, `"to [Paul]"`, ``},
	} {
		before, after := JSON([]byte(test.before)), JSON([]byte(test.after))
		plainBefore, plainAfter := unmarked(before), unmarked(after)
		NewCompared().Mark(&before, &after)
		if got := marked(before); got != test.wantBefore {
			t.Errorf("%s → %s: before %s, want %s", test.before, test.after, got, test.wantBefore)
		}
		if got := marked(after); test.wantAfter != "" && got != test.wantAfter {
			t.Errorf("%s → %s: after %s, want %s", test.before, test.after, got, test.wantAfter)
		}
		if unmarked(before) != plainBefore || unmarked(after) != plainAfter {
			t.Errorf("%s → %s: the text has changed", test.before, test.after)
		}
		if test.wantAfter == "" && !strings.Contains(marked(after), "CYRILLIC SMALL LETTER A") {
			t.Errorf("the look-alike is not named: %s", marked(after))
		}
	}
}

// TestMarkWordsKeepsTheText: whatever is compared, what is shown stays what it was, and
// what is not marked is the same in both.
func TestMarkWordsKeepsTheText(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("aab c\n\té\u0301ц\u202e\"\\.")), 0, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		code := func(label string) (Code, string) {
			raw, err := json.Marshal(text.Draw(t, label))
			if err != nil {
				t.Fatal(err)
			}
			c := JSON(raw)
			return c, unmarked(c)
		}
		before, was := code("before")
		after, is := code("after")
		NewCompared().Mark(&before, &after)
		if unmarked(before) != was || unmarked(after) != is {
			t.Fatalf("the text has changed: %q, %q", marked(before), marked(after))
		}
	})
}
