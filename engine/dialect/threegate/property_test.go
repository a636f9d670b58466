package threegate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
)

// insert puts text into a document at the first place from offset on where a
// character begins.
func insert(doc string, offset int, text string) string {
	for offset > 0 && doc[offset]&0xc0 == 0x80 {
		offset--
	}
	return doc[:offset] + text + doc[offset:]
}

// TestInvisibleCharacters: one of them anywhere makes a document invalid.
func TestInvisibleCharacters(t *testing.T) {
	hidden := []string{"\t", "\r", "\x00", "\x1b", "\v", "\f", "\x7f", "\u0085", "\u00ad", "\u200b", "\u200d", "\u2028", "\u202e", "\u2066", "\u2060", "\ufeff", "\ufe0f", "\u3164", "\u2800", "\u180e", "\U000e0061", "\U000e0100", "\ue000"}
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.IntRange(0, len(document)-1).Draw(t, "offset")
		doc := insert(document, offset, rapid.SampledFrom(hidden).Draw(t, "character"))
		if check(doc).Valid {
			t.Fatalf("valid: %q", doc)
		}
	})
}

// TestShellCharacters: one of them anywhere in the command makes it invalid.
func TestShellCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.IntRange(0, len(commandText)).Draw(t, "offset")
		bad := rapid.SampledFrom(strings.Split(";&|<>`$(){}\\!#~*?[]^\"'\né", "")).Draw(t, "character")
		if doc := command(t, insert(commandText+" ", offset, bad)); check(doc).Valid && bad != "\n" {
			t.Fatalf("valid: %q", insert(commandText, offset, bad))
		}
	})
}

// TestLostLines: a document that has lost one of its lines of content, or has
// one twice, is not valid.
func TestLostLines(t *testing.T) {
	lines := strings.SplitAfter(document, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		without := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		if check(without).Valid && !strings.HasPrefix(line, "network_allowlist") {
			t.Errorf("valid without %q", line)
		}
		listed := strings.HasPrefix(line, "- /") || line == "  - \"No network\"\n"
		twice := strings.Join(lines[:i+1], "") + strings.Join(lines[i:], "")
		if check(twice).Valid && !listed {
			t.Errorf("valid with a second %q", line)
		}
	}
}

// TestHostileDocuments: the work is bounded by the size of a document.
func TestHostileDocuments(t *testing.T) {
	fill := func(unit string) string {
		return strings.Repeat(unit, (threegate.MaxBytes-len(document)-64)/len(unit))
	}
	deep := ""
	for i := range 300 {
		deep += "\n" + strings.Repeat(" ", i+1) + "a:"
	}
	var many strings.Builder
	for i := 0; many.Len() < threegate.MaxBytes/2; i++ {
		many.WriteString("k" + strings.Repeat("x", i%7) + time.Duration(i).String() + ": 1\n")
	}
	for name, doc := range map[string]string{
		"flow": change(t, "[]", fill("[")), "flow maps": change(t, "[]", fill("{a: ")), "dashes": change(t, "[]", "\n"+fill("- ")), "deep": change(t, "[]", deep),
		"keys": change(t, "[]\n", "[]\n"+many.String()), "quotes": change(t, why, fill(`"'`)), "slashes": change(t, why, fill("a/")), "paths": change(t, why, fill("/in/a ")),
		"words": command(t, "python "+fill("a ")), "equals": command(t, "python "+fill("=")), "paths of inputs": command(t, "python "+fill("/in/a ")), "open": command(t, fill("'")),
		"installs": change(t, why, fill("pip a ")), "install": change(t, why, fill("install ")), "keys of secrets": change(t, why, fill("token ")), "blank lines": change(t, why, fill("\n")),
		"quoted lines": change(t, purpose, "\""+fill("a\n ")+"\""), "headings": change(t, why, fill("\n# a")), "marks": change(t, why, fill("> ")), "plain": change(t, purpose, fill("a\n  ")),
		"hashes": change(t, why, "x") + fill(hashA+" "), "labels": change(t, why, fill("risk level:")), "items": change(t, "[]", "["+fill("a,")+"]"),
		"escapes": change(t, purpose, `"`+fill(`\x41`)+`"`), "inputs": change(t, "- /in/levels.csv sha", fill("- /in/a\n")+"- /in/levels.csv sha"),
	} {
		start := time.Now()
		got := check(doc)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		} else if took > 100*time.Millisecond {
			t.Logf("%s: took %s", name, took)
		}
		wellFormed(t, []byte(doc), got)
	}
}

// TestMessages compares everything that is said of a very bad document with a
// golden file.
func TestMessages(t *testing.T) {
	worst, err := os.ReadFile(filepath.Join("testdata", "worst.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "worst.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, v := range threegate.Judge(worst, now).Violations {
		got.WriteString(v.String() + "\n")
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	for _, secret := range []string{"hunter2", "ghp_", "AKIA"} {
		if strings.Contains(got.String(), secret) {
			t.Errorf("a message quotes %s", secret)
		}
	}
}

// TestDigest: the digest binds every byte of the document.
func TestDigest(t *testing.T) {
	if threegate.Digest([]byte(document)) == threegate.Digest([]byte(document+"\n")) {
		t.Error("two documents have one digest")
	}
	args, err := canon.Parse([]byte(`{"document":"a"}`))
	if err != nil || canon.Digest(threegate.ToolName, args) != canon.Digest(threegate.ToolName, threegate.Arguments([]byte("a"))) {
		t.Errorf("the arguments are not {document: …}: %v", err)
	}
	if got := threegate.Digest([]byte("abc")); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s", got)
	}
	if !threegate.Arguments([]byte("\xff")).IsNull() || !threegate.Arguments([]byte("\x00")).IsNull() {
		t.Error("bytes that are no text have arguments")
	}
	want := threegate.Command{
		Line: commandText, Program: "python",
		Argv: []string{"python", "-u", "/in/code/average.py", "--in", "/in/levels.csv", "--out", "/out/averages.csv"},
	}
	if got := check(document).Request.Command; got.Line != want.Line || got.Program != want.Program || strings.Join(got.Argv, "|") != strings.Join(want.Argv, "|") {
		t.Errorf("got %+v", got)
	}
	if got, ok := threegate.Eval(document, now).(threegate.Verdict); !ok || !got.Valid || got.Violations == nil {
		t.Errorf("got %+v", got)
	}
	if w := check(command(t, "python average.py")).Warnings; len(w) != 1 || w[0].Rule != "I5" || w[0].Line != commandLine {
		t.Errorf("a script without a hash: got %v", w)
	}
}

func BenchmarkCheck(b *testing.B) {
	doc := []byte(document)
	b.ReportAllocs()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if !threegate.Judge(doc, now).Valid {
			b.Fatal("not valid")
		}
	}
}
