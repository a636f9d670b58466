package channel

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"holdpoint/web/views"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"issue_refund":                       "issue_refund",
		"Überweisung größer 5":               "Überweisung größer 5",
		"перевод средств":                    "перевод средств",
		"日本語 العربية עברית":                  "日本語 العربية עברית",
		"\U0001F600 \U0001F1E9\U0001F1EA ok": "\U0001F600 \U0001F1E9\U0001F1EA ok",
		"a\r\nb":                             "a‹U+000D›‹U+000A›b",
		"a\u202Eb":                           "a‹U+202E›b",
		"\u200B\u200B\u200B":                 "‹3 × U+200B›",
		"p\u0430ypal":                        "p‹U+0430›ypal",
		"\u0440\u0430\u0443":                 "‹U+0440›‹U+0430›‹U+0443›",
		"\uFF52":                             "‹U+FF52›",
		"ɡo, pɑy, lıst, ﬁle":                 "‹U+0261›o, p‹U+0251›y, l‹U+0131›st, ‹U+FB01›le",
		"ᗷuy ꓐꓳꓐ":                            "‹U+15F7›uy ‹U+A4D0›‹U+A4F3›‹U+A4D0›",
		"\xff\xfe":                           "‹0xFF›‹0xFE›",
		"a    b":                             "a‹4 × U+0020›b",
		"a   b":                              "a   b",
		" a ":                                "‹U+0020›a‹U+0020›",
		"e\u0301":                            "e\u0301",
		"\u0301e":                            "‹U+0301›e",
		" \u0301e":                           "‹U+0020›‹U+0301›e",
		"https://x":                          "https:‹//›x",
		"XN--pypal-4ve":                      "‹XN--›pypal-4ve",
		"‹U+202E›":                           "‹U+2039›U+202E‹U+203A›",
		"\U000E0041":                         "‹U+E0041›",
		"":                                   "",
	} {
		if got := visible(text, 100); got != want {
			t.Errorf("%+q: got %q, want %q", text, got, want)
		}
	}
	if got, want := visible(strings.Repeat("x", 1005), 5), "xxxxx … 1,000 more characters"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := visible("xxxxxé", 5), "xxxxx … 1 more character"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// marked says whether the console would mark anything in a text.
func marked(text string) bool {
	for _, s := range views.MarkDeceptive(text) {
		if s.Mark != views.Plain && s.Mark != views.RightToLeft {
			return true
		}
	}
	return false
}

// TestMarksWhatTheConsoleMarks keeps the two readings of what is deceptive
// together, character by character.
func TestMarksWhatTheConsoleMarks(t *testing.T) {
	n := 0
	for c := rune(0); c <= utf8.MaxRune; c++ {
		if c == 0x40000 {
			c = 0xDFFF0 // nothing is assigned in between
		}
		text := "a" + string(c) + "b"
		if c >= 0xD800 && c <= 0xDFFF || !marked(text) {
			continue
		}
		n++
		if got := visible(text, 10); got == text {
			t.Errorf("%U is shown as it is", c)
		}
	}
	if n < 1000 {
		t.Errorf("the console marks %d characters only", n)
	}
}

func TestVisibleIsOneCleanLine(t *testing.T) {
	pieces := []string{
		"a", "paypal", "р", "а", "не", "да", "ρ", "Ω", "\u0301", "\u200B", "\u202E", " ", "    ", "\n", "\t", "://", "xn--", "XN--",
		"‹", "›", "\xff", "\xed\xa0", "\U0001F600", "\uFE0F", "ע", "١", "1", "_", ".", "<b>", "\U000E0041", "１",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		got := visible(text, limit)
		if strings.ContainsFunc(got, hidden) || !utf8.ValidString(got) || strings.Contains(got, "://") {
			t.Fatalf("%q is shown as %q", text, got)
		}
		if utf8.RuneCountInString(got) > 10*limit+40 {
			t.Fatalf("%d characters for a limit of %d", utf8.RuneCountInString(got), limit)
		}
		if marked(text) && got == text {
			t.Fatalf("the console marks %q, and here it is shown as it is", text)
		}
	})
}

// TestVisibleTellsTextsApart: two texts are never shown alike, so that nobody can
// write what looks like a mark.
func TestVisibleTellsTextsApart(t *testing.T) {
	pieces := []string{"a", "‹", "›", "U+202E", "\u202E", "2 × U+200B", "\u200B", " ", "://", ":", "/", "0xFF", "\xff", "xn--", "U+0020"}
	gen := rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		a, b := strings.Join(gen.Draw(t, "a"), ""), strings.Join(gen.Draw(t, "b"), "")
		if a != b && visible(a, 1000) == visible(b, 1000) {
			t.Fatalf("%q and %q are both %q", a, b, visible(a, 1000))
		}
	})
}
