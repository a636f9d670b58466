package confusable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"holdpoint/engine/canon"
)

func TestSkeleton(t *testing.T) {
	for _, pair := range [][2]string{
		{"paypal", "pаypаl"},
		{"paypal", "рауpal"},
		{"google", "ɡoogle"},
		{"google", "gօօɡle"},
		{"pay", "pɑy"},
		{"list", "lıst"},
		{"list", "ⅼist"},
		{"file", "ﬁle"},
		{"root", "rᴏᴏt"},
		{"list", "ǀist"},
		{"BUY", "ᗷUY"},
		{"BUY", "ꓐUY"},
		{"pay", "pa\u115fy"},
		{"pay", "pa\u200by"},
		{"pay", "pay\ufe0f"},
		{"modern", "modem"},
		{"Ill", "III"},
		{"O", "0"},
		{"paypal", "𝔭𝒶ỿ𝕡𝕒ℓ"},
	} {
		if a, b := Skeleton(pair[0]), Skeleton(pair[1]); a != b {
			t.Errorf("%q and %q: %q and %q", pair[0], pair[1], a, b)
		}
	}
	for _, pair := range [][2]string{{"pay", "pax"}, {"pay", "Pay"}, {"größe", "grosse"}, {"платеж", "platezh"}, {"支払い", "支払"}} {
		if Skeleton(pair[0]) == Skeleton(pair[1]) {
			t.Errorf("%q and %q share the skeleton %q", pair[0], pair[1], Skeleton(pair[0]))
		}
	}
}

func TestLevelOf(t *testing.T) {
	for name, want := range map[string]Level{
		"": ASCIIOnly, "fs.read-file/2": ASCIIOnly, "größe": SingleScript, "платеж": SingleScript, "東京タワーへ": SingleScript,
		"한국漢字": SingleScript, "漢字ㄅㄆ": SingleScript, "Tシャツ": HighlyRestrictive, "KT전화": HighlyRestrictive, "x漢ㄅ": HighlyRestrictive,
		"PDFشل": ModeratelyRestrictive, "payสวน": ModeratelyRestrictive, "שלpay": ModeratelyRestrictive, "pаy": MinimallyRestrictive,
		"gοοgle": MinimallyRestrictive, "paשل": MinimallyRestrictive, "シャ한": MinimallyRestrictive, "pa\u115fy": Unrestricted,
		"ᗷuy": Unrestricted, "ɡo": Unrestricted, "ⲟk": Unrestricted,
	} {
		if got := levelOf(name); got != want {
			t.Errorf("%q: level %d, want %d", name, got, want)
		}
	}
}

func TestClearName(t *testing.T) {
	for _, name := range []string{
		"send_payment", "fs.read-file/2", "größe_prüfen", "платеж", "платеж_2", "支払い", "run tool", "Tシャツ", "한국어", "מחק", "حذف", "ödeme_yap",
		"αναφορά", "გადახდა", "जलदान", "",
	} {
		if !ClearName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{
		" pay", "pay ", "p\u200bay", "pаy", "pay\u2010now", "pay\u202e", "a\u00a0b", "e\u0301\u0323", "ｐay", "pay\n", "pay\x7f", "pay\xff",
		"pay\u115f", "\u3164", "pay\u1160", "pay\uffa0", "p\u034fay", "pay\u180b", // what cannot be seen
		"ꓑay", "ⲣay", "payן", "payا", "ᗷuy", "ᏢAY", "pαy", "payօ", // Lisu, Coptic, Hebrew, Arabic, syllabics, Cherokee, Greek, Armenian
		"ɡet", "pɑy", "ⅼist", "ﬁle", "rᴏᴏt", "ǀist", "pay٥", "1২", "раура", "ס",
	} {
		if ClearName(name) {
			t.Errorf("%q is let through", name)
		}
	}
}

// marked writes a text with what Lookalikes finds in brackets.
func marked(text string) string {
	var b strings.Builder
	last := 0
	for _, r := range Lookalikes(text) {
		b.WriteString(text[last:r.From] + "[" + text[r.From:r.To] + "]")
		last = r.To
	}
	return b.String() + text[last:]
}

func TestLookalikes(t *testing.T) {
	for _, want := range []string{
		// Those that stood unmarked on cards.
		"[ɡ]oogle", "p[ɑ]ypal", "l[ı]st", "[ⅼ]ist", "[ﬁ]le", "r[ᴏᴏ]t", "[ǀ]ist", "[ᗷ]uy", "[ꓑ]ay", "[ⲟ]k", "pay[ן]", "pay[ا]", "[օ]k", "[ᏢᎪ]Y",
		"[ѕ]udo rm", "pay to: [ꓐꓳꓐ]", "to [ᗷ]", "1[০]00", "[℡]", "a [∣] b", "[ℓ]s", "p[а]ypal", "[раура]l.com", "При[b]ет", "g[οο]gle",
		"[аррӏе].com", "[аррӏе]1[а].com", "па[ρ]оль", "x[⁎]y", "[❨]a[❩]", "A[ノ]B",
		// Prose and names as people write them.
		"Zoë zahlt 5 € an Иван Петров, 東京", "5 µm × 3 µm", "“Don’t” – he said… ‹ja› ‚so‘", "Œuvre, cæsar, smørrebrød, ñandú, größe",
		"Ο γρήγορος αλεπού πηδάει", "Съешь ещё этих мягких французских булок", "זה משפט בעברית, עם סוס ו־5 מילים", "هذه جملة بالعربية، وفيها ٥ كلمات",
		"これは日本語の文章です。ノート PCで Tシャツ を2枚", "这是一个中文句子，用于测试", "यह हिन्दी का वाक्य है।", "โรงแรมHilton", "한국어 문장입니다", "العقد.PDF", "תוכנית PDF",
	} {
		text := strings.NewReplacer("[", "", "]", "").Replace(want)
		if got := marked(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func anything() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`[a-zа-яα-ω ]{0,6}`),
		rapid.Custom(func(t *rapid.T) string {
			return string(prototypes[rapid.IntRange(0, len(prototypes)-1).Draw(t, "prototype")].of)
		}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 8), func(p []string) string { return strings.Join(p, "") })
}

func TestSkeletonIsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkText(t, anything().Draw(t, "text")) })
	for _, p := range prototypes {
		checkText(t, string(p.of))
		if got := Skeleton(p.is); got != Skeleton(string(p.of)) {
			t.Errorf("%q is drawn like %q and has another skeleton, %q", p.of, p.is, got)
		}
	}
}

func TestSpellingsShareASkeleton(t *testing.T) {
	twins := map[byte][]rune{}
	for _, p := range prototypes {
		if len(p.is) == 1 && p.of >= utf8.RuneSelf {
			twins[p.is[0]] = append(twins[p.is[0]], p.of)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z_]{1,12}`).Draw(t, "name")
		var b strings.Builder
		for i := range len(name) {
			b.WriteString(rapid.SampledFrom([]string{"", "", "\u200b", "\u115f"}).Draw(t, "hidden"))
			if others := twins[name[i]]; len(others) > 0 && rapid.Bool().Draw(t, "swap") {
				b.WriteRune(rapid.SampledFrom(others).Draw(t, "twin"))
			} else {
				b.WriteByte(name[i])
			}
		}
		if spelt := b.String(); Skeleton(spelt) != Skeleton(name) {
			t.Fatalf("%q and %q: %q and %q", name, spelt, Skeleton(name), Skeleton(spelt))
		}
	})
}

func checkText(t interface{ Fatalf(string, ...any) }, text string) {
	skeleton := Skeleton(text)
	if again := Skeleton(skeleton); again != skeleton {
		t.Fatalf("%q: skeleton %q, of which the skeleton is %q", text, skeleton, again)
	}
	if !norm.NFD.IsNormalString(skeleton) {
		t.Fatalf("%q: skeleton %q is not NFD", text, skeleton)
	}
	if canon.IsASCII(text) && (len(Lookalikes(text)) > 0 || levelOf(text) != ASCIIOnly) {
		t.Fatalf("%q is ASCII and is marked", text)
	}
	if ClearName(text) && (levelOf(text) > HighlyRestrictive || strings.ContainsFunc(text, ignorable)) {
		t.Fatalf("%q is a clear name", text)
	}
	last := 0
	for _, r := range Lookalikes(text) {
		if r.From < last || r.To <= r.From || r.To > len(text) || !utf8.ValidString(text[r.From:r.To]) {
			t.Fatalf("%q: range %+v", text, r)
		}
		last = r.To
	}
}

func FuzzLookalikes(f *testing.F) {
	for _, text := range []string{"plain", "pаypal", "раура.com", "Tシャツ", "शब्द\u115f", "a\xffɡ", "р\xb00", "\xf5š", "１２ ٥٠"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkText(t, text) })
}

// Go's own tables know the scripts, too: those of one version agree.
func TestTablesAreOfGosUnicode(t *testing.T) {
	for c := rune(0); c < 0x30000; c++ {
		for name, table := range map[string]*unicode.RangeTable{
			"LATIN": unicode.Latin, "GREEK": unicode.Greek, "CYRILLIC": unicode.Cyrillic, "HEBREW": unicode.Hebrew, "HAN": unicode.Han, "LISU": unicode.Lisu,
		} {
			if unicode.Is(table, c) && !scriptsOf(c).meets(setOf(name)) {
				t.Fatalf("%#x is %s for Go, %s here", c, name, Script(c))
			}
		}
		if Allowed(c) && !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Cf) {
			t.Fatalf("%#x is allowed in names", c)
		}
	}
}

func setOf(name string) scriptSet {
	for i, n := range scriptNames {
		if n == name {
			return scriptsNamed(script(i))
		}
	}
	return scriptSet{}
}

// Of ASCII a few are drawn like something else, and all others are their own skeletons.
func TestSkeletonOfASCII(t *testing.T) {
	var all, want strings.Builder
	for c := rune(0); c < 0x80; c++ {
		is, ok := prototypeOf(c)
		if !ok {
			is = string(c)
		}
		if got := Skeleton(string(c)); got != is {
			t.Errorf("%q: %q, want %q", c, got, is)
		}
		all.WriteRune(c)
		want.WriteString(is)
	}
	if got := Skeleton(all.String()); got != want.String() {
		t.Errorf("all of them: %q, want %q", got, want.String())
	}
}

func BenchmarkSkeletonOfAName(b *testing.B) {
	for b.Loop() {
		Skeleton("payments.create_transfer")
	}
}

func BenchmarkLookalikes(b *testing.B) {
	for name, text := range map[string]string{
		"ascii": strings.Repeat("plain words ", 1<<13), "russian": strings.Repeat("обычный текст ", 1<<12), "twins": strings.Repeat("aɡ", 1<<15),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Lookalikes(text)
			}
		})
	}
}
