package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// laid is a card's page whose call has these arguments.
func laid(t *testing.T, args map[string]any) answer {
	t.Helper()
	c := start(t, nil).signIn("ada@example.com")
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	c.m.add("apr_1", "act", string(text), nil)
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK)
	return page
}

// TestArgumentsAreLaidOut: what is read easily is shown so, in what is kept as shown, and
// is said to be a guess. Nothing of it is markup of the page, or a link.
func TestArgumentsAreLaidOut(t *testing.T) {
	for name, c := range map[string]struct {
		args  map[string]any
		wants []string
	}{
		"sql":   {map[string]any{"query": "DELETE FROM a; -- all\nSELECT 1"}, []string{`data-form="SQL"`, "SQL, 2 statements", `<span class="dg">DELETE</span>`, `<span class="co">-- all</span>`, "a guess, by what it looks like"}},
		"shell": {map[string]any{"command": "cat a | sudo tee b > c"}, []string{"Shell, 2 commands", `<span class="op">|</span>`, `<span class="dg">sudo</span>`, `<span class="rd">&gt; </span>`}},
		"diff":  {map[string]any{"patch": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"}, []string{"Diff, 1 file, 1 added, 1 removed", `<span class="line is-rm">`, `<span class="line is-ad">`}},
		"mail": {
			map[string]any{"to": []string{"a@x.test", "b@x.test"}, "bcc": "eve@y.test", "subject": "Hi", "body": `<p>See <a href="https://evil.test/x">bank.test</a></p><!-- psst -->`},
			[]string{`data-form="Mail"`, "Hidden copy", "eve@y.test", "its HTML as text", "[leads to ", `<span class="ho">evil.test</span>`, "[comment:", " psst "},
		},
		"markdown": {map[string]any{"body": "# T\n\n- see [this](https://evil.test/x)\n<img src=x onerror=alert(1)>"}, []string{`data-form="Markdown"`, `<span class="ho">evil.test</span>`, "&lt;img src=x onerror=alert(1)&gt;"}},
		"yaml":     {map[string]any{"manifest": "kind: Pod # x\nname: y\n"}, []string{`data-form="YAML"`, `<span class="k">kind</span>`, `<span class="co"># x</span>`}},
		"address":  {map[string]any{"url": "https://bank.test@xn--pypal-4ve.com/x"}, []string{`data-form="Address"`, `<span class="dg">bank.test@</span>`, "is shown elsewhere as p<mark", "What stands before the @ is no part of the host."}},
		"table":    {map[string]any{"rows": []map[string]any{{"a": 1, "b": "x"}, {"a": 2, "b": "y"}}}, []string{"Table, 2 rows", `<th scope="col">b</th>`, `<td data-label="b"><span class="v s">y</span></td>`, "As a table", "As a tree"}},
		"rows":     {map[string]any{"rows": make([]struct{ A int }, 250)}, []string{"Table, 250 rows", "150 more rows are only in the exact arguments below."}},
		"marks":    {map[string]any{"query": "SELECT * FROM \u202eusers"}, []string{`FROM</span><span class="t"> </span><span class="t"><mark class="chip">[U+202E RIGHT-TO-LEFT OVERRIDE]</mark></span>`}},
	} {
		t.Run(name, func(t *testing.T) {
			page := laid(t, c.args)
			seen := page.body[strings.Index(page.body, `<div class="seen"`):strings.Index(page.body, `id="decidebar"`)]
			for _, want := range c.wants {
				if !strings.Contains(seen, want) {
					t.Errorf("%q is not in\n%s", want, seen)
				}
			}
			for _, bad := range []string{"<a ", "<img", "<script", "<input", "\u202e", " id="} {
				if strings.Contains(seen, bad) {
					t.Errorf("%q is in what is kept as shown", bad)
				}
			}
			if forms := strings.Index(seen, `data-testid="forms"`); forms > strings.Index(seen, `data-testid="args"`) {
				t.Error("the exact arguments come first")
			}
		})
	}
}

// TestWhatIsLaidOutIsBounded: what stands beside the exact arguments is no more than a few
// times as long as the longest arguments that are laid out.
func TestWhatIsLaidOutIsBounded(t *testing.T) {
	for name, piece := range map[string]string{"commands": "a;", "quotes": "'", "marks": "aɡ ", "tags": "<b>", "addresses": "a://b ", "lines": "+\n", "nested": "$("} {
		for _, argument := range []string{"query", "command", "body", "manifest"} {
			text, _ := json.Marshal(strings.Repeat(piece, (maxLaidOut-100)/len(piece)/2))
			forms, tree := layOut(fmt.Appendf(nil, `{%q:%s}`, argument, text), views.NewBudget())
			html, err := views.RenderCard(t.Context(), "<div>", views.Approval{Arguments: views.Arguments{Forms: forms, Tree: tree}}, "</div>")
			if err != nil || len(html) > 1_500_000 {
				t.Errorf("%s of %s: %d bytes, %v", name, argument, len(html), err)
			}
		}
	}
	for name, doc := range map[string]string{
		"values": "[" + strings.Repeat("1,", 15_000) + "1]", "rows": "[" + strings.Repeat(`{"a":"ɡɡ","b":1},`, 1500) + `{"a":1,"b":2}]`,
		"deep": strings.Repeat(`{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":`, 60) + "1" + strings.Repeat("}", 60), "addresses": "[" + strings.Repeat(`"https://xn--pypal-4ve.com/ɡ",`, 800) + "1]",
	} {
		forms, tree := layOut([]byte(doc), views.NewBudget())
		html, err := views.RenderCard(t.Context(), "<div>", views.Approval{Arguments: views.Arguments{Forms: forms, Tree: tree}}, "</div>")
		if err != nil || len(html) > 1_500_000 {
			t.Errorf("%s: %d bytes, %v", name, len(html), err)
		}
		if n := strings.Count(html, "looks like “g”"); n > 1100 {
			t.Errorf("%s: %d marks are spelt out", name, n)
		}
	}
	if forms, tree := layOut([]byte(`{"query":"SELECT 1`+strings.Repeat(" ", maxLaidOut)+`"}`), views.NewBudget()); forms != nil || tree != nil {
		t.Error("long arguments are laid out")
	}
}

// TestExactBytes: who has been shown all of the arguments gets exactly them.
func TestExactBytes(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	args := `{"memo":"ɡ ` + "\u202e" + `\n\"x\""}`
	c.m.add("apr_1", "act", args, nil)
	c.get("/approvals/apr_1/arguments").want(t, http.StatusConflict, "card first")
	c.get("/approvals/apr_1").want(t, http.StatusOK, `data-exact="/approvals/apr_1/arguments"`)
	got := c.get("/approvals/apr_1/arguments")
	if got.body != args || got.Header.Get("Content-Disposition") != `attachment; filename="arguments-apr_1.json"` || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %q", got.Header, got.body)
	}
	c.m.add("apr_long", "act", args, func(c *gate.Card) { c.Long = true })
	if page := c.get("/approvals/apr_long"); strings.Contains(page.body, "/approvals/apr_long/arguments") {
		t.Error("somebody who has not read it all is offered all of it")
	}
	c.m.add("apr_gone", "act", args, func(c *gate.Card) { c.Arguments = nil })
	c.get("/approvals/apr_gone")
	c.get("/approvals/apr_gone/arguments").want(t, http.StatusConflict)
}
