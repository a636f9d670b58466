package views

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMarkDeceptive(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		mark             Mark
		count            int
	}{
		{"plain text", "rm -rf /tmp/x", "rm -rf /tmp/x", Plain, 0},
		{"accents and other scripts", "Zoë zahlt 5 € an Иван Петров, 東京", "Zoë zahlt 5 € an Иван Петров, 東京", Plain, 0},
		{"a Latin unit", "5 µm", "5 µm", Plain, 0},
		{"bidi override", "a\u202eb", "a[U+202E RIGHT-TO-LEFT OVERRIDE]b", Direction, 1},
		{"bidi isolate", "\u2067x\u2069", "[U+2067 RIGHT-TO-LEFT ISOLATE]x[U+2069 POP DIRECTIONAL ISOLATE]", Direction, 2},
		{"zero width", "pay\u200bpal", "pay[U+200B ZERO WIDTH SPACE]pal", Invisible, 1},
		{"a run is counted", strings.Repeat("\u200b", 1200), "[1,200 × U+200B ZERO WIDTH SPACE]", Invisible, 1200},
		{"soft hyphen", "a\u00adb", "a[U+00AD SOFT HYPHEN]b", Invisible, 1},
		{"fillers", "\u3164\u115f", "[U+3164 HANGUL FILLER][U+115F HANGUL CHOSEONG FILLER]", Invisible, 2},
		{"tags", "ok\U000E0072\U000E006D!", "ok[2 TAG CHARACTERS U+E00xx, SPELLING “rm”]!", Tag, 2},
		{"variation selector", "a\ufe0f", "a[U+FE0F VARIATION SELECTOR]", Selector, 1},
		{"ideographic variation selector", "a\U000E0101", "a[U+E0101 VARIATION SELECTOR]", Selector, 1},
		{"no-break space", "a\u00a0b", "a[U+00A0 NO-BREAK SPACE]b", Blank, 1},
		{"line separator", "a\u2028b", "a[U+2028 LINE SEPARATOR]b", Blank, 1},
		{"braille blank", "\u2800", "[U+2800 BRAILLE PATTERN BLANK]", Blank, 1},
		{"terminal escape", "\x1b[2Kls", "[U+001B ESCAPE, a terminal command follows][2Kls", Escape, 1},
		{"carriage return", "evil\rgood", "evil[U+000D CARRIAGE RETURN]good", Control, 1},
		{"backspace", "a\bb", "a[U+0008 BACKSPACE]b", Control, 1},
		{"bare C1", "\u0090", "[U+0090 CONTROL]", Control, 1},
		{"ten thousand line breaks", "a" + strings.Repeat("\n", 10000) + "b", "a[10,000 LINE BREAKS]b", Run, 1},
		{"blanks between breaks", "a\n \n \n \n b", "a[4 LINE BREAKS, 4 SPACES]b", Run, 1},
		{"a wide gap", "ls" + strings.Repeat(" ", 200) + "; rm", "ls[200 SPACES]; rm", Run, 1},
		{"indented code", "if x:\n        y()\n", "if x:\n        y()\n", Plain, 0},
		{"Cyrillic in Latin", "pаypal", "pа[U+0430 CYRILLIC SMALL LETTER A, looks like “a”]ypal", Lookalike, 1},
		{"Latin last letter", "раураl.com", "раура[U+0440 U+0430 U+0443 U+0440 U+0430 CYRILLIC]l.com", Lookalike, 5},
		{"Latin in Russian", "Приbет", "Приb[U+0062 LATIN SMALL LETTER B]ет", Lookalike, 1},
		{"a word of twins", "аррӏе.com", "аррӏе[U+0430 U+0440 U+0440 U+04CF U+0435 CYRILLIC].com", Lookalike, 5},
		{"Greek in Latin", "gοοgle", "gοο[U+03BF U+03BF GREEK]gle", Lookalike, 2},
		{"a Latin letter for another", "ɡo", "ɡ[U+0261 LATIN SMALL LETTER SCRIPT G, looks like “g”]o", Lookalike, 1},
		{"another Latin letter", "pɑy", "pɑ[U+0251 LATIN SMALL LETTER ALPHA, looks like “a”]y", Lookalike, 1},
		{"a letter without its dot", "lıst", "lı[U+0131 LATIN SMALL LETTER DOTLESS I, looks like “i”]st", Lookalike, 1},
		{"a numeral for a letter", "ⅼs", "ⅼ[U+217C SMALL ROMAN NUMERAL FIFTY, looks like “l”]s", Lookalike, 1},
		{"a ligature", "ﬁle", "ﬁ[U+FB01 LATIN SMALL LIGATURE FI, looks like “fi”]le", Lookalike, 1},
		{"small capitals", "rᴏᴏt", "rᴏᴏ[U+1D0F U+1D0F LATIN]t", Lookalike, 2},
		{"a click for a letter", "ǀs", "ǀ[U+01C0 LATIN LETTER DENTAL CLICK, looks like “l”]s", Lookalike, 1},
		{"a syllable for a letter", "ᗷuy", "ᗷ[U+15F7 CANADIAN SYLLABICS CARRIER KHE, looks like “B”]uy", Lookalike, 1},
		{"Lisu", "ꓐꓳꓐ", "ꓐꓳꓐ[U+A4D0 U+A4F3 U+A4D0 LISU]", Lookalike, 3},
		{"Coptic in Latin", "ⲟk", "ⲟ[U+2C9F COPTIC SMALL LETTER O, looks like “o”]k", Lookalike, 1},
		{"Hebrew in Latin", "payן", "payן[U+05DF HEBREW LETTER FINAL NUN, looks like “l”]", Lookalike, 1},
		{"a digit of another script", "1০0", "1০[U+09E6 BENGALI DIGIT ZERO, looks like “O”]0", Lookalike, 1},
		{"an operator for a letter", "a ∣ b", "a ∣[U+2223 DIVIDES, looks like “l”] b", Lookalike, 1},
		{"many in a row", strings.Repeat("ɡ", 20), strings.Repeat("ɡ", 20) + "[" + strings.Repeat("U+0261 ", 8) + "and 12 more LATIN]", Lookalike, 20},
		{"Japanese with Latin", "これは ノート PCで Tシャツ を2枚", "これは ノート PCで Tシャツ を2枚", Plain, 0},
		{"Hindi", "यह हिन्दी का वाक्य है।", "यह हिन्दी का वाक्य है।", Plain, 0},
		{"Greek", "Ο γρήγορος αλεπού", "Ο γρήγορος αλεπού", Plain, 0},
		{"typesetting", "“Don’t” – 5 × 3…", "“Don’t” – 5 × 3…", Plain, 0},
		{"fullwidth", "／", "／[U+FF0F FULLWIDTH, looks like “/”]", Lookalike, 1},
		{"mathematical", "𝐚", "𝐚[U+1D41A MATHEMATICAL, looks like an ordinary letter or digit]", Lookalike, 1},
		{"a slash that is none", "a∕b", "a∕[U+2215 looks like “/”]b", Lookalike, 1},
		{"punycode", "https://xn--pple-43d.com/", "https://xn--pple-43d[PUNYCODE, an encoded name].com/", Punycode, 1},
		{"punycode in capitals", "XN--PPLE-43D.com", "XN--PPLE-43D[PUNYCODE, an encoded name].com", Punycode, 1},
		{"private use", "\ue000", "[U+E000 PRIVATE USE]", Unknown, 1},
		{"noncharacter", "\uffff", "[U+FFFF NOT A CHARACTER]", Unknown, 1},
		{"not UTF-8", "a\xff\xffb", "a[2 × BYTE 0xFF]b", Unknown, 2},
		{"a mark without a letter", "\u0301a", "[U+0301 COMBINING MARK]a", Stack, 1},
		{"a pile of marks", "a" + strings.Repeat("\u0301", 7), "a\u0301\u0301\u0301\u0301[3 × U+0301 COMBINING MARK]", Stack, 3},
		{"Hebrew", "שלום ab", "שלום ab", RightToLeft, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ws Warnings
			ws.Add("here", MarkDeceptive(tc.text))
			if got := Visible(tc.text); got != tc.want {
				t.Errorf("Visible:\n got %q\nwant %q", got, tc.want)
			}
			switch {
			case tc.mark == Plain:
				if len(ws) != 0 {
					t.Errorf("warnings for plain text: %+v", ws)
				}
			case len(ws) != 1 || ws[0].Mark != tc.mark || ws[0].Count != tc.count:
				t.Errorf("warnings: got %+v, want mark %d, count %d", ws, tc.mark, tc.count)
			}
		})
	}
}

// hidden reports whether a rune must never reach a page as it is.
func hidden(c rune) bool {
	switch {
	case c == '\n' || c == '\t' || c == ' ':
		return false
	case unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control):
		return true
	}
	return c >= 0xE0000 && c <= 0xE0FFF
}

func checkMarked(t interface{ Fatalf(string, ...any) }, text string) {
	var raw strings.Builder
	for _, s := range MarkDeceptive(text) {
		if s.Raw == "" {
			t.Fatalf("empty span in %q", text)
		}
		raw.WriteString(s.Raw)
		if s.Mark == Plain && (s.Shown != s.Raw || s.Count != 0) {
			t.Fatalf("plain span changed: %+v", s)
		}
		if s.Mark != Plain && s.Count < 1 {
			t.Fatalf("mark without a count: %+v", s)
		}
		if !utf8.ValidString(s.Shown) || strings.ContainsFunc(s.Shown, hidden) {
			t.Fatalf("%q shows something hidden: %q", text, s.Shown)
		}
	}
	if raw.String() != text {
		t.Fatalf("dropped or changed:\n got %q\nwant %q", raw.String(), text)
	}
}

// nasty draws text that is made to trip MarkDeceptive.
func nasty() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-zа-я ]{0,8}`),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.Rune().Draw(t, "rune")) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"\u202e", "\u200b", "\U000E0041", "\n\n\n\n\n", "xn--", "\x1b[0m", "\u0301", "\"", `\`, "<script>", "а", "ש", "\r\n", "                    "}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 12), func(p []string) string { return strings.Join(p, "") })
}

func TestMarksAccountsForEveryRune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkMarked(t, nasty().Draw(t, "text")) })
}

func TestMarksEveryRuneThereIs(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if empty := c >= 0x40000 && c < 0xE0000 || c >= 0xF0000; empty && c%251 != 0 {
			continue // planes without a character, or of private ones only: a sample will do
		}
		if utf8.ValidRune(c) {
			checkMarked(t, "a"+string(c)+"b")
		}
	}
}

func FuzzMarkDeceptive(f *testing.F) {
	f.Add("plain")
	f.Add("a\u202eb\u200b\xff\U000E0041xn--a ра")
	f.Fuzz(func(t *testing.T, text string) { checkMarked(t, text) })
}

// codeText is what a reader of the page would copy.
func codeText(c Code) (raw, shown string) {
	var r, s strings.Builder
	for _, line := range c.Lines {
		for _, part := range line.Parts {
			for _, span := range part.Spans {
				r.WriteString(span.Raw)
				s.WriteString(span.Shown)
			}
		}
		s.WriteString("\n")
	}
	return r.String(), s.String()
}

func TestJSONKeepsEveryString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, text := strings.ToValidUTF8(nasty().Draw(t, "key"), "?"), strings.ToValidUTF8(nasty().Draw(t, "text"), "?")
		in, err := json.Marshal(map[string]any{key: []any{text, 1.5, nil, true, map[string]any{}}})
		if err != nil {
			t.Fatal(err)
		}
		code := JSON(in)
		raw, shown := codeText(code)
		if want := `{"` + key + `": ["` + text + `",1.5,null,true,{}]}`; raw != want || code.Broken {
			t.Fatalf("raw:\n got %q\nwant %q", raw, want)
		}
		if strings.ContainsFunc(shown, hidden) {
			t.Fatalf("something hidden is shown: %q", shown)
		}
		_, moreLines, moreRunes := code.Preview(3, 50)
		cut, _, _ := code.Preview(3, 50)
		_, part := codeText(cut)
		lost := utf8.RuneCountInString(strings.ReplaceAll(shown, "\n", "")) - utf8.RuneCountInString(strings.ReplaceAll(part, "\n", ""))
		if lost != moreRunes || len(cut.Lines)+moreLines != len(code.Lines) {
			t.Fatalf("preview leaves out %d characters and says %d; %d of %d lines, says %d more", lost, moreRunes, len(cut.Lines), len(code.Lines), moreLines)
		}
	})
}

func TestJSONLayout(t *testing.T) {
	code := JSON([]byte(`{"a":[1e+21,{"token":"x\ty"}],"b":"one\ntwo \"three\" \\n","c":[],"ключ":"\u001b"}`))
	var got strings.Builder
	if err := codeBlock(code).Render(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	_, shown := codeText(code)
	want := "{\n\"a\": [\n1e+21,\n{\n\"token\": \"x\\ty\"\n}\n],\n\"b\": \"one\\n\ntwo \\\"three\\\" \\\\n\",\n\"c\": [],\n\"ключ\": \"[U+001B ESCAPE]\"\n}\n"
	if shown != want {
		t.Errorf("shown:\n got %q\nwant %q", shown, want)
	}
	if code.Warnings.Total() != 1 || code.Warnings[0].Where() != "ключ" {
		t.Errorf("warnings: got %+v", code.Warnings)
	}
	if n := strings.Count(got.String(), `class="line cont"`); n != 1 {
		t.Errorf("continued lines: got %d, want 1", n)
	}
}

func TestJSONThatIsNone(t *testing.T) {
	for _, in := range []string{"", "{", `{"a":1} x`, "nope\u202e", `{"a" 1}`} {
		code := JSON([]byte(in))
		if raw, _ := codeText(code); !code.Broken || raw != in {
			t.Errorf("%q: got broken %v, raw %q", in, code.Broken, raw)
		}
	}
}
