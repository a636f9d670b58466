package views

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// big are documents of about size bytes, each made so that its page would be many
// times as long.
func big(size int) map[string]string {
	fill := func(open, piece, end string) string {
		return open + strings.Repeat(piece, (size-len(open)-len(end))/len(piece)) + end
	}
	list := func(piece string) string { return fill("["+piece, ","+piece, "]") }
	keyed := func(key func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-100; i++ {
			fmt.Fprintf(&b, `,"%s":1`, key(i))
		}
		return "{" + b.String()[1:] + "}"
	}
	return map[string]string{
		"look-alikes":              fill(`{"to":"`, "ɡ", `"}`),
		"look-alikes and letters":  fill(`{"to":"`, "aɡ", `"}`),
		"words of two scripts":     fill(`{"to":"`, "pаy ", `"}`),
		"syllables":                fill(`{"to":"`, "ᗷ-", `"}`),
		"what cannot be seen":      fill(`{"to":"`, "a\u200b", `"}`),
		"controls":                 fill(`{"to":"`, `\u0001a`, `"}`),
		"values with look-alikes":  list(`"ɡ"`),
		"keys with look-alikes":    keyed(func(i int) string { return fmt.Sprintf("ɡ%d", i) }),
		"short values":             list("1"),
		"empty lists":              list("[]"),
		"short lines":              fill(`{"to":"`, `a\n`, `"}`),
		"quotes":                   fill(`{"to":"`, `\"`, `"}`),
		"words from right to left": fill(`{"to":"`, "ש ", `"}`),
		"secrets":                  list(`{"token":1}`),
		"secrets, deep": strings.Repeat(`{"`+strings.Repeat("k", 40)+`":`, 50) +
			keyed(func(i int) string { return fmt.Sprintf("token%d", i) }) + strings.Repeat("}", 50),
	}
}

// rawText is all of the text that code holds.
func rawText(c Code) string {
	raw, _ := codeText(c)
	return raw
}

// The largest call has a megabyte: that page is measured where marks are dense,
// the others at a quarter.
func TestAPageIsBounded(t *testing.T) {
	const quarter = 1 << 18
	docs := big(quarter)
	docs["a megabyte of them"] = big(4 * quarter)["look-alikes and letters"]
	for name, doc := range docs {
		card := Approval{Arguments: Arguments{Code: JSON([]byte(doc))}}
		card.Warnings = card.Arguments.Code.Warnings
		html, err := RenderCard(context.Background(), "<div>", card, "</div>")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-25s %7d bytes of JSON, %8d of HTML", name, len(doc), len(html))
		if len(html) > 3_000_000 || len(doc) > quarter*2 && len(html) > 3*len(doc) {
			t.Errorf("%s: %d bytes of JSON are %d bytes of HTML", name, len(doc), len(html))
		}
		if strings.ContainsFunc(html, hidden) {
			t.Errorf("%s: something hidden is shown", name)
		}
		// Nothing is left out: without white space, what is shown is the document.
		squeeze := strings.NewReplacer(" ", "", "\n", "")
		var value any
		if err := json.Unmarshal([]byte(doc), &value); err != nil {
			t.Fatal(err)
		}
		want := doc
		if object, ok := value.(map[string]any); ok && object["to"] != nil {
			want = fmt.Sprintf(`{"to":"%s"}`, object["to"])
		}
		if got := rawText(card.Arguments.Code); squeeze.Replace(got) != squeeze.Replace(want) {
			t.Errorf("%s: the page has %d bytes of the document's %d", name, len(got), len(want))
		}
	}
}

func TestLongTextsEndInEscapes(t *testing.T) {
	text := strings.Repeat("aɡ", maxNamed) + "b" + "ɡ\U0001d41a\x01 \"\\\n"
	spans := MarkDeceptive(text)
	last := spans[len(spans)-1]
	if want := `[3 MORE; FROM HERE ON IN ESCAPES] \u0261\ud835\udc1a\u0001 \"\\\n`; last.Shown != want || last.Mark != Escaped || last.Count != 3 {
		t.Errorf("got %+v", last)
	}
	checkMarked(t, text)
	var ws Warnings
	ws.Add("here", spans)
	if ws.Total() != maxNamed+3 || len(ws) != 2 || ws[0].Count != maxNamed {
		t.Errorf("got %+v", ws)
	}
	code := JSON([]byte(`{"a":["` + strings.Repeat("aɡ", maxNamed) + `","é","ɡ",1],"b":{}}`))
	_, shown := codeText(code)
	if want := "\n[FROM HERE ON WITHOUT LAYOUT, ALL BUT ASCII IN ESCAPES],\"\\u00e9\",\"\\u0261\",1],\"b\":{}}\n"; !strings.HasSuffix(shown, want) {
		t.Errorf("it ends with %q", shown[len(shown)-200:])
	}
	if code.Warnings.Total() != maxNamed+1 {
		t.Errorf("warnings: %+v", code.Warnings)
	}
}

// All the texts of one card share what may be spelt out.
func TestACardSpellsOutAsMuchAsOneText(t *testing.T) {
	v := Approval{Statements: AgentStatements{Intent: strings.Repeat("aɡ", 300)}}
	for range 2000 {
		v.Statements.Facts = append(v.Statements.Facts, Field{Name: "said", Value: strings.Repeat("aɡ", 100)})
	}
	html, err := RenderCard(context.Background(), "<div>", v, "</div>")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(html, "looks like “g”"); n != maxNamed {
		t.Errorf("%d marks are spelt out, want %d", n, maxNamed)
	}
	if strings.Count(html, `\u0261`) != 2000*100+300-maxNamed {
		t.Errorf("%d are written in escapes", strings.Count(html, `\u0261`))
	}
}

func TestTextOfManyLines(t *testing.T) {
	code := Text(strings.Repeat("a\n", maxLines+3))
	if n := len(code.Lines); n != maxLines+1 {
		t.Fatalf("%d lines", n)
	}
	last := code.Lines[maxLines].Parts[0].Spans
	if last[1].Raw != "a\na\na" || last[1].Shown != `a\na\na` {
		t.Errorf("the last line is %+v", last)
	}
}
