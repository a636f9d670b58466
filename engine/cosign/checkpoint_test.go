package cosign

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

const exampleText = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"

func TestParseCheckpoint(t *testing.T) {
	got, err := ParseCheckpoint(exampleText + "one\ntwo words\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Origin != "example.com/behind-the-sofa" || got.Size != 20852163 || got.Root.String() != "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=" ||
		!slices.Equal(got.Extensions, []string{"one", "two words"}) {
		t.Errorf("got %+v", got)
	}
	if got, err := ParseCheckpoint("o\n4611686018427387904\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"); err != nil || got.Size != MaxSize || got.Extensions != nil {
		t.Errorf("the largest tree: %+v, %v", got, err)
	}
}

func TestParseCheckpointRefuses(t *testing.T) {
	with := func(old, replacement string) string {
		if !strings.Contains(exampleText, old) {
			t.Fatalf("the example has no %q", old)
		}
		return strings.Replace(exampleText, old, replacement, 1)
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"one newline":         "\n",
		"two lines":           "o\n1\n",
		"no newline":          strings.TrimSuffix(exampleText, "\n"),
		"a further newline":   exampleText + "\n",
		"an empty extension":  exampleText + "\none\n",
		"no origin":           with("example.com/behind-the-sofa", ""),
		"a control character": with("example", "exa\tmple"),
		"CR LF":               strings.ReplaceAll(exampleText, "\n", "\r\n"),
		"not UTF-8":           with("example", "exa\xffmple"),
		"a leading zero":      with("20852163", "020852163"),
		"00":                  with("20852163", "00"),
		"a plus":              with("20852163", "+20852163"),
		"negative":            with("20852163", "-1"),
		"minus nothing":       with("20852163", "-0"),
		"hexadecimal":         with("20852163", "0x10"),
		"underscores":         with("20852163", "20_852_163"),
		"a space":             with("20852163", "20852163 "),
		"other digits":        with("20852163", "٢"),
		"too large a tree":    with("20852163", "4611686018427387905"),
		"out of range":        with("20852163", "9223372036854775808"),
		"no size":             with("20852163", "many"),
		"a short root":        with("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxqw=="),
		"a root with no pad":  with("q2I=", "q2I"),
		"bits for nothing":    with("q2I=", "q2J="),
		"base64 for URLs":     with("om/X", "om_X"),
		"a root in hex":       with("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", strings.Repeat("0", 64)),
	} {
		if got, err := ParseCheckpoint(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFormatCheckpointRefuses(t *testing.T) {
	for name, c := range map[string]Checkpoint{
		"no origin":            {Size: 1},
		"two lines of origin":  {Origin: "a\nb", Size: 1},
		"a size in the origin": {Origin: "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", Size: 1},
		"negative":             {Origin: "a", Size: -1},
		"too large":            {Origin: "a", Size: MaxSize + 1},
		"an empty extension":   {Origin: "a", Extensions: []string{""}},
		"two extensions in 1":  {Origin: "a", Extensions: []string{"a\nb"}},
		"a control character":  {Origin: "a", Extensions: []string{"\x00"}},
	} {
		if got, err := FormatCheckpoint(c); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// line is any line that a note may have.
var line = rapid.StringMatching(`[ -~äß—\x{2028}\x{85}]{1,20}`)

func TestCheckpointRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Checkpoint{
			Origin:     line.Draw(t, "origin"),
			Size:       rapid.Int64Range(0, MaxSize).Draw(t, "size"),
			Root:       tlog.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "root")),
			Extensions: rapid.SliceOfN(line, 0, 3).Draw(t, "extensions"),
		}
		text, err := FormatCheckpoint(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseCheckpoint(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.Origin != want.Origin || got.Size != want.Size || got.Root != want.Root || !slices.Equal(got.Extensions, want.Extensions) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		// The checksum database's own reader agrees where it reads the format.
		if tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + strings.SplitAfterN(text, "\n", 2)[1])); err != nil || tree.N != want.Size || tree.Hash != want.Root {
			t.Fatalf("tlog reads %+v, %v", tree, err)
		}
	})
}

// FuzzParseCheckpoint: there is one text for a checkpoint, and it is the text of
// a note.
func FuzzParseCheckpoint(f *testing.F) {
	f.Add(exampleText)
	f.Add(exampleText + "extension\n")
	f.Add("o\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
	f.Add("o\n00\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCheckpoint(text)
		if err != nil {
			return
		}
		if again, err := FormatCheckpoint(c); err != nil || again != text {
			t.Errorf("%q is written as %q, %v", text, again, err)
		}
		var unverified *note.UnverifiedNoteError
		if _, err := note.Open([]byte(text+"\n— a AAAAAAA=\n"), nil); !errors.As(err, &unverified) || unverified.Note.Text != text {
			t.Errorf("%q is no text of a note: %v", text, err)
		}
	})
}
