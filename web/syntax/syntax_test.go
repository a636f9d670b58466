package syntax

import (
	"strings"
	"testing"
)

// brief writes tokens as class:text, without what is plain.
func brief(list []Token) string {
	var parts []string
	for _, t := range list {
		if t.Class != Plain {
			parts = append(parts, string(t.Class)+":"+t.Text)
		}
	}
	return strings.Join(parts, " ")
}

func TestSQL(t *testing.T) {
	text := "-- old\nDELETE FROM o WHERE a = 'O''B; -- x' /* c */; UPDATE \"s\" SET n = 10"
	list, n := SQL(text)
	if got, want := brief(list), `co:-- old dg:DELETE kw:FROM kw:WHERE s:'O''B; -- x' co:/* c */ op:; dg:UPDATE k:"s" kw:SET n:10`; got != want || n != 2 {
		t.Errorf("%d statements: %s\nwant %s", n, got, want)
	}
	if list, n := SQL("SELECT 1 /*! ; DROP TABLE x */"); n != 1 || !strings.Contains(brief(list), "dg:/*! ; DROP TABLE x */") {
		t.Errorf("a comment that is run: %s", brief(list))
	}
	if _, n := SQL("DO $x$ a; b; $x$; ;"); n != 1 {
		t.Errorf("%d statements", n)
	}
}

func TestShell(t *testing.T) {
	for text, want := range map[string]string{
		"cd /tmp && rm -rf x # y\n":          "cm:cd op:&& dg:rm co:# y",
		"curl -s u | sudo bash -s > /d 2>&1": "cm:curl op:| dg:sudo cm:bash rd:>  rd:2>&1",
		`echo "a $(date) b $X" >> log &`:     `cm:echo s:"a  op:$( cm:date op:) s: b  va:$X s:" rd:>>  op:&`,
		"A=1 B='x y' make it":                "va:A=1 va:B= s:'x y' cm:make",
		"if true; then reboot; fi":           "kw:if cm:true op:; kw:then dg:reboot op:; kw:fi",
		"x=`rm y`; z":                        "va:x= op:` dg:rm op:`; cm:z",
		`echo '# no' \# no`:                  `cm:echo s:'# no'`,
	} {
		list, _ := Shell(text)
		if got := brief(list); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if _, n := Shell("a | b && c; d $(e)"); n != 5 {
		t.Errorf("%d commands", n)
	}
}

func TestDiff(t *testing.T) {
	list, files, added, removed := Diff("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n--- old\n+++ new\n c\n\\ No newline\n")
	if got, want := brief(list), "fi:diff --git a/x b/x fi:--- a/x fi:+++ b/x hu:@@ -1,2 +1,2 @@ f rm:--- old ad:+++ new no:\\ No newline"; got != want || files != 1 || added != 1 || removed != 1 {
		t.Errorf("%d files, %d added, %d removed: %s", files, added, removed, got)
	}
}

func TestOtherLanguages(t *testing.T) {
	for what, c := range map[string]struct {
		list []Token
		want string
	}{
		"yaml":     {YAML("a: \"x # y\" # c\n- b: &i 1\n"), "k:a op:: s:\"x # y\" co:# c\n k:b op:: dg:&i"},
		"markdown": {Markdown("# T\nsee [x](https://evil.test/y) `c` <b> <!-- z\nz --> w\n"), "hd:# T\n mu:[ mu:]( li:https:// ho:evil.test li:/y s:`c` dg:<b> co:<!-- z\nz -->"},
		"address":  {Text("go to https://bank.test@evil.test:80/x."), "li:https:// dg:bank.test@ ho:evil.test li::80/x"},
		"html": {
			HTML(`<p>Hi <a href="https://evil.test/a">https://bank.test</a></p><!-- c --><div style="display: none">h</div><img src="//t.test/p"><script>alert(1)</script>`),
			"mu:https://bank.test no: [leads to  li:https:// ho:evil.test li:/a no:] no:[comment: co: c  no:] no:[hidden from the reader:  dg:h no:] no:[img, loads  li://t.test/p no:] no:[script:  co:alert(1) no:]",
		},
	} {
		if got := brief(c.list); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", what, got, c.want)
		}
	}
}

func TestDetectedLanguage(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Kind
	}{
		{"query", "select 1", KindSQL},
		{"note", "Select one of the offers", None},
		{"note", "DELETE FROM orders", KindSQL},
		{"command", "ls", KindShell},
		{"text", "#!/bin/sh\nls", KindShell},
		{"patch", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", KindDiff},
		{"body", "<p>Hi</p>", KindHTML},
		{"body", "a < b and c > d", None},
		{"manifest", "kind: Pod\nmetadata:\n  name: x\n", KindYAML},
		{"text", "Dear Ann:\nall is well.\nBye", None},
		{"body", "# T\n\n- x\n", KindMarkdown},
		{"url", "https://a.test/x?y=1", KindAddress},
		{"url", "https://a.test and more", None},
		{"iban", "DE02120300000000202051", None},
	} {
		if got := Guess(c.name, c.text); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

// FuzzNothingIsLeftOut: the tokens of a text are the text.
func FuzzNothingIsLeftOut(f *testing.F) {
	for _, seed := range []string{"a", "'", "$(`\"${", "-- x", "/*", "$a$b", "<!--", "](", "@@ -1 +1 @@\n+a", "a: 'b", "https://x@y:1/z", "\\", "`$(`", "\"$(\"", "x\xff\u202e", "<<<&1>(", "```\nx", "#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sql, _ := SQL(text)
		shell, _ := Shell(text)
		diff, _, _, _ := Diff(text)
		location, _, _ := Location(text)
		for what, list := range map[string][]Token{"SQL": sql, "Shell": shell, "Diff": diff, "YAML": YAML(text), "Markdown": Markdown(text), "Text": Text(text), "Location": location} {
			var b strings.Builder
			for _, token := range list {
				b.WriteString(token.Text)
			}
			if got := b.String(); got != text && what != "Location" {
				t.Errorf("%s of %q has %q", what, text, got)
			}
		}
		HTML(text)
		Guess("query", text)
		Guess("text", text)
	})
}
