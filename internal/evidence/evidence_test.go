package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/evidence"
	"holdpoint/internal/gate"
)

// What an agent, and people, could write to deceive whoever reads a pack.
const (
	hostileTool = `pay</script><script>alert(1)</script>`
	hostileArgs = `{"cmd":"rm \u001b[2K -rf","link":"[click](javascript:alert(2))","memo":"` + "\u202e" + `001 EUR\u003c\/script>\u003c!-- \u003cimg src=https:\/\/evil.example\/x onerror=alert(3)>","note":"a\n\n\n\n\n\nb","zero":"a` + "\u200b" + `b","literal":"\\u003c/script>"}`
	hostileWord = "Fine. </script><script>alert(4)</script> \u202e**bold** [x](javascript:alert(5)) \\u003c/script>"
)

// story is one approval with all that can be told: an edit, two cards, a vote that
// counts no more, a question, two votes of which one came over the API, and a call.
func (h *harness) story() approval.Approval {
	h.t.Helper()
	ctx := context.Background()
	a := h.open(hostileTool, `{"amount":1}`)
	h.look("ada", a.ID)
	h.vote("ada", a, true, "before the edit")
	edited, err := canon.Parse([]byte(hostileArgs))
	must(h.t, err)
	a, err = h.Contributions.Edit(ctx, gate.EditRequest{
		Contribution: gate.Contribution{Person: h.people["cleo"], ApprovalID: a.ID, Comment: "It was too little.", Channel: "console"}, Arguments: edited, Digest: a.Call.Digest, Version: a.Version,
	}, nil)
	must(h.t, err)
	h.look("ada", a.ID)
	must(h.t, second(h.Contributions.Ask(ctx, gate.Contribution{Person: h.people["ada"], ApprovalID: a.ID, Comment: "Which invoice?", Channel: "console"}, nil)))
	must(h.t, second(h.Contributions.Inform(ctx, h.agent, a.ID, "1187", "", nil)))
	h.vote("ada", a, true, hostileWord)
	h.vote("ben", a, true, "over the API")
	h.settle(a.ID)
	v, err := h.Queries.ForAgent(ctx, h.agent, a.ID)
	must(h.t, err)
	must(h.t, second(h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: v.Token, Tool: hostileTool, Arguments: edited}, nil)))
	must(h.t, second(h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: a.ID, Outcome: approval.Succeeded}, nil)))
	return a
}

func TestPackOfAnApproval(t *testing.T) {
	h := newHarness(t)
	a := h.story()
	before := h.exports()
	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	wrong, d := h.verify(pack)
	if len(wrong) > 0 {
		t.Fatalf("a good pack is bad: %q", wrong)
	}
	want := audit.Disclosure{Comments: 6, Cards: 2, Documents: 2, Bound: 1, Pages: d.Pages}
	if d != want || d.Pages == 0 {
		t.Errorf("disclosed %+v, want %+v", d, want)
	}
	selfContained(t, pack)
	text := shownText(t, pack)
	for _, want := range []string{
		"Ada <i>", "Ben <i>", "Bot [U+202E RIGHT-TO-LEFT OVERRIDE]</script>", "Owner <i>", hostileTool, "[U+202E RIGHT-TO-LEFT OVERRIDE]001 EUR", "[U+200B",
		"approved it.", "changed the arguments", "asked the requesting side a question.", "Which invoice?", "It counts no more", "with a one-time code",
		"No card is on record as shown to them before", "Had been shown the card", "took the permission and started the call.", "it succeeded.",
		"version 7", "Money </script> leaves the company.", a.Call.Digest, "Could have, as roles are now: Ada <i>, Ben <i>", "before the edit",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the pack does not say %q", want)
		}
	}
	// One export, told by two events, which say that it was a pack.
	after := h.exports()
	if n := len(after) - len(before); n != 2 || !strings.Contains(after[len(after)-1], `"as": "evidence_pack"`) && !strings.Contains(after[len(after)-1], `"as":"evidence_pack"`) {
		t.Errorf("%d events of the pack's making: %q", n, after)
	}
}

// exports are what the events of exports tell.
func (h *harness) exports() (payloads []string) {
	h.t.Helper()
	events, err := h.Store.Events.List(context.Background(), auditlog.EventFilter{Type: string(engine.Exported), Limit: 1000})
	must(h.t, err)
	for _, e := range events {
		payloads = append(payloads, string(e.SafePayload))
	}
	return payloads
}

// selfContained fails when a page could load, run or send anything.
func selfContained(t *testing.T, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	blocks := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		at := map[string]string{}
		for _, a := range n.Attr {
			at[a.Key] = a.Val
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc", a.Key == "action", a.Key == "formaction", a.Key == "background", a.Key == "ping":
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "src", a.Key == "srcset", a.Key == "data", a.Key == "poster", a.Key == "xlink:href":
				t.Errorf("<%s> loads %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "href" && !strings.HasPrefix(a.Val, "#"):
				t.Errorf("<%s> leads to %q", n.Data, a.Val)
			}
		}
		switch n.Data {
		case "script":
			blocks++
			if kind := at["type"]; kind != "application/jsonl" && kind != "application/json" {
				t.Errorf("a script of type %q runs", kind)
			}
		case "iframe", "object", "embed", "form", "link", "img", "base", "svg", "audio", "video", "template", "input", "button":
			t.Errorf("there is a <%s>", n.Data)
		case "style":
			if text := n.FirstChild.Data; strings.Contains(text, "url(") || strings.Contains(text, "@import") {
				t.Error("the style loads something")
			}
		case "meta":
			if at["http-equiv"] != "" && (at["http-equiv"] != "Content-Security-Policy" || !strings.Contains(at["content"], "default-src 'none'")) {
				t.Errorf("meta %v", at)
			}
		}
	}
	if blocks != 2 {
		t.Errorf("%d blocks, want 2: something has ended one of them", blocks)
	}
}

// shownText is the text of a page that a browser shows.
func shownText(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "head") {
			return
		}
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestPackIsTamperEvident changes one thing of a pack in every part of it.
func TestPackIsTamperEvident(t *testing.T) {
	h := newHarness(t)
	a := h.story()
	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	other := h.pack(evidence.Request{ApprovalID: h.open("other", `{}`).ID})
	if wrong, _ := h.verify(pack); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	pages, rest, _ := strings.Cut(pack, audit.ProofOpens+"\n")
	proof, rest, _ := strings.Cut(rest, audit.BlockCloses+"\n"+audit.DisclosedOpens+"\n")
	disclosed, end, _ := strings.Cut(rest, audit.BlockCloses)
	join := func(pages, proof, disclosed, end string) string {
		return pages + audit.ProofOpens + "\n" + proof + audit.BlockCloses + "\n" + audit.DisclosedOpens + "\n" + disclosed + audit.BlockCloses + end
	}
	if join(pages, proof, disclosed, end) != pack {
		t.Fatal("the pack is not made of its parts")
	}
	once := func(text, old, with string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("there is no %q to change", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	items := strings.Split(strings.TrimSuffix(strings.TrimPrefix(disclosed, "[\n"), "\n]\n"), ",\n")
	change := func(kind string, edit func(i *audit.Item)) string {
		t.Helper()
		changed := slices.Clone(items)
		for n, line := range changed {
			var i audit.Item
			must(t, json.Unmarshal([]byte(line), &i))
			if i.Kind != kind {
				continue
			}
			edit(&i)
			encoded, err := json.Marshal(i)
			must(t, err)
			changed[n] = string(encoded)
			return "[\n" + strings.Join(changed, ",\n") + "\n]\n"
		}
		t.Fatalf("nothing of kind %s is disclosed", kind)
		return ""
	}
	without := func(kind string) string {
		kept := slices.DeleteFunc(slices.Clone(items), func(line string) bool { return strings.Contains(line, `"kind":"`+kind+`"`) })
		return "[\n" + strings.Join(kept, ",\n") + "\n]\n"
	}
	list := func(items ...string) string { return "[\n" + strings.Join(items, ",\n") + "\n]\n" }
	place := slices.IndexFunc(items, func(line string) bool { return strings.Contains(line, `"kind":"arguments"`) })
	var others audit.Item
	must(t, json.Unmarshal([]byte(items[place]), &others))
	others.Text = once(others.Text, "001 EUR", "901 EUR")
	altered, err := canon.Parse([]byte(others.Text))
	must(t, err)
	others.Digest = canon.Digest(others.Tool, altered)
	otherArguments, err := json.Marshal(others)
	must(t, err)
	otherFirst := list(append([]string{items[0], string(otherArguments)}, slices.Delete(slices.Clone(items[1:]), place-1, place)...)...)
	lines := strings.SplitAfter(proof, "\n")
	otherLines := strings.SplitAfter(strings.SplitAfter(other, audit.ProofOpens+"\n")[1], "\n")
	for name, tc := range map[string]struct{ pack, want string }{
		"a word on a page":              {join(once(pages, "approved it.", "rejected it."), proof, disclosed, end), "the pages were changed"},
		"a digit in the card on a page": {join(once(pages, "001 EUR", "901 EUR"), proof, disclosed, end), "the pages were changed"},
		"the style":                     {join(once(pages, "--ink: #16202b", "--ink: #ffffff"), proof, disclosed, end), "the pages were changed"},
		"the pages of another pack":     {strings.SplitAfter(other, audit.ProofOpens)[0] + "\n" + proof + audit.BlockCloses + "\n" + audit.DisclosedOpens + "\n" + disclosed + audit.BlockCloses + end, "the pages were changed"},
		"no digest of the pages":        {join(pages, proof, without("pages"), end), "nothing shows that the pages"},
		"another digest of the pages":   {join(pages, proof, change("pages", func(i *audit.Item) { i.Digest = audit.Digest([]byte(pages + "x")) }), end), "another digest"},
		"another making":                {join(pages, proof, change("pages", func(i *audit.Item) { i.Event = once(i.Event, `"as":"evidence_pack"`, `"as":"evidence_pock"`) }), end), "does not have the event"},
		"an event's member":             {join(pages, once(proof, `"outcome":"APPROVED"`, `"outcome":"REJECTED"`), disclosed, end), "not the event that the log has"},
		"an event's escape":             {join(pages, once(proof, `\u003c/script>`, `\u003e/script>`), disclosed, end), "not the event that the log has"},
		"an event less":                 {join(pages, strings.Join(slices.Delete(slices.Clone(lines), 3, 4), ""), disclosed, end), "the export says that it has"},
		"events in another order":       {join(pages, strings.Join(append([]string{lines[0], lines[2], lines[1]}, lines[3:]...), ""), disclosed, end), "comes after event"},
		"an event of another pack":      {join(pages, once(proof, lines[2], otherLines[1]), disclosed, end), "not what was asked for"},
		"a checkpoint":                  {join(pages, once(proof, `— evidence.example.com`, `— evidense.example.com`), disclosed, end), "not to be believed"},
		"no end of the proof":           {join(pages, strings.Join(lines[:len(lines)-2], ""), disclosed, end), "cut off"},
		"a comment":                     {join(pages, proof, change("comment", func(i *audit.Item) { i.Text += "!" }), end), "is another one"},
		"a comment with its digest":     {join(pages, proof, change("comment", func(i *audit.Item) { i.Text += "!"; i.Digest = approval.CommentDigest(i.Salt, i.Text) }), end), "does not name it"},
		"a comment's salt":              {join(pages, proof, change("comment", func(i *audit.Item) { i.Salt += "A" }), end), "is another one"},
		"whose comment it is":           {join(pages, proof, change("comment", func(i *audit.Item) { i.Fact++ }), end), "does not name it"},
		"a card":                        {join(pages, proof, change("card", func(i *audit.Item) { i.Text = once(i.Text, "finance", "marketing") }), end), "is another one"},
		"a card with its digest": {join(pages, proof, change("card", func(i *audit.Item) {
			i.Text = once(i.Text, "finance", "marketing")
			i.Digest = audit.Digest([]byte(i.Text))
		}), end), "does not name it"},
		"a card's approval": {join(pages, proof, change("card", func(i *audit.Item) { i.ApprovalID = "apr_other" }), end), "does not name it"},
		"arguments":         {join(pages, proof, change("arguments", func(i *audit.Item) { i.Text = once(i.Text, "001 EUR", "901 EUR") }), end), "they are others"},
		"arguments with their digest": {join(pages, proof, change("arguments", func(i *audit.Item) {
			i.Text = once(i.Text, "001 EUR", "901 EUR")
			v, err := canon.Parse([]byte(i.Text))
			must(t, err)
			i.Digest = canon.Digest(i.Tool, v)
		}), end), "not what the card shows"},
		"other arguments before their card": {join(pages, proof, otherFirst, end), "not what the card shows"},
		"arguments twice":                   {join(pages, proof, list(append(slices.Clone(items), items[place])...), end), "there twice"},
		"answers twice":                     {join(pages, proof, list(append(slices.Clone(items), `{"kind":"answers","digest":"","text":"a"}`, `{"kind":"answers","digest":"","text":"b"}`)...), end), "there twice"},
		"no list":                           {join(pages, proof, once(disclosed, "[\n", ""), end), "not one list"},
		"a list that goes on":               {join(pages, proof, once(disclosed, "\n]\n", "\n]\n"+items[place]+"\n"), end), "not one list"},
		"a comma less":                      {join(pages, proof, once(disclosed, ",\n", "\n"), end), "not one list"},
		"a comma more":                      {join(pages, proof, once(disclosed, "\n]\n", ",\n]\n"), end), "not one list"},
		"arguments of another edition":      {join(pages, proof, change("arguments", func(i *audit.Item) { i.Edition = 1 }), end), "edition"},
		"arguments of another tool":         {join(pages, proof, change("arguments", func(i *audit.Item) { i.Tool = "x" }), end), "they are others"},
		"how arguments are written":         {join(pages, proof, change("arguments", func(i *audit.Item) { i.Text = " " + i.Text }), end), "not written"},
		"the rules":                         {join(pages, proof, change("rules", func(i *audit.Item) { i.Text = once(i.Text, `"needed":2`, `"needed":1`) }), end), "is another one"},
		"the rules with their digest": {join(pages, proof, change("rules", func(i *audit.Item) {
			i.Text = once(i.Text, `"needed":2`, `"needed":1`)
			i.Digest = audit.Digest([]byte(i.Text))
		}), end), "does not name it"},
		"the policy":                 {join(pages, proof, change("policy", func(i *audit.Item) { i.Text = once(i.Text, "outcome: ALLOW}", "outcome: DENY}") }), end), "is another one"},
		"an item's kind":             {join(pages, proof, change("rules", func(i *audit.Item) { i.Kind = "ruler" }), end), "nothing of that kind"},
		"an unknown member":          {join(pages, proof, once(disclosed, `"kind":"comment"`, `"kind":"comment","x":1`), end), "cannot be read"},
		"an item's member twice":     {join(pages, proof, once(disclosed, `"kind":"comment"`, `"kind":"card","kind":"comment"`), end), "not written as packs are"},
		"HTML in the proof":          {join(pages, once(proof, `\u003c/script>`, `</script>`), disclosed, end), "not escaped"},
		"HTML in a comment":          {join(pages, proof, once(disclosed, `\u003c/script\u003e`, `</script>`), end), "not escaped"},
		"HTML in answers":            {join(pages, proof, once(disclosed, "[\n", "[\n"+`{"kind":"answers","digest":"","text":"</script><h1>Denied.</h1>"},`+"\n"), end), "not escaped"},
		"a cut":                      {pack[:len(pack)-10], "not end with"},
		"a cut in what is disclosed": {pack[:strings.Index(pack, `"kind":"comment"`)], "cut off"},
		"something after it":         {pack + "<script>alert(1)</script>", "not end with"},
		"a second block":             {join(pages, proof, disclosed, "\n"+audit.DisclosedOpens+"\n[\n]\n"+audit.BlockCloses+end), "not end with"},
		"something between":          {strings.Replace(pack, audit.BlockCloses+"\n"+audit.DisclosedOpens, audit.BlockCloses+"\n<p>It was denied.</p>\n"+audit.DisclosedOpens, 1), "does not follow"},
		"no proof":                   {pages, "not checked"},
		"something before":           {"<p>Denied.</p>" + pack, "the pages were changed"},
	} {
		wrong, _ := h.verify(tc.pack)
		if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, tc.want) }) {
			t.Errorf("%s: got %q, want %q", name, wrong, tc.want)
		}
	}
}

func TestLongArguments(t *testing.T) {
	h := newHarness(t)
	a := h.open("run", `{"script":"`+strings.Repeat(`line of it <b> \n`, 20_000)+`needle"}`)
	h.look("ada", a.ID)
	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	if wrong, d := h.verify(pack); len(wrong) > 0 || d.Bound != 1 || d.Cards != 1 {
		t.Errorf("wrong %q, disclosed %+v", wrong, d)
	}
	selfContained(t, pack)
	if n := strings.Count(pack, "needle"); n != 4 { // the chapter, the card, and both again in the block
		t.Errorf("the end of the arguments is there %d times, want 4", n)
	}
}

func TestWhatCannotBePacked(t *testing.T) {
	h := newHarness(t)
	a := h.open("pay", `{}`)
	h.open("pay", `{"a":1}`)
	now := time.Now()
	day := evidence.Request{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	for name, tc := range map[string]struct {
		r    evidence.Request
		edit func(p *evidence.Packer)
		want error
	}{
		"nothing":           {evidence.Request{}, nil, evidence.ErrRequest},
		"half a period":     {evidence.Request{Since: now}, nil, evidence.ErrRequest},
		"backwards":         {evidence.Request{Since: now, Until: now.Add(-1)}, nil, evidence.ErrRequest},
		"both":              {evidence.Request{ApprovalID: a.ID, Since: day.Since, Until: day.Until}, nil, evidence.ErrRequest},
		"nobody's":          {evidence.Request{ApprovalID: "apr_nothing"}, nil, evidence.ErrNotFound},
		"no id":             {evidence.Request{ApprovalID: "apr_1\r\nX: y"}, nil, evidence.ErrNotFound},
		"many approvals":    {day, func(p *evidence.Packer) { p.MostApprovals = 1 }, evidence.ErrTooMuch},
		"many events":       {day, func(p *evidence.Packer) { p.MostEvents = 3 }, evidence.ErrTooMuch},
		"exactly that many": {day, func(p *evidence.Packer) { p.MostApprovals = 2 }, nil},
	} {
		p := h.packer()
		if tc.edit != nil {
			tc.edit(p)
		}
		var out bytes.Buffer
		_, err := p.Write(context.Background(), &out, tc.r)
		if !errors.Is(err, tc.want) || tc.want != nil && out.Len() > 0 {
			t.Errorf("%s: %v after %d bytes, want %v", name, err, out.Len(), tc.want)
		}
	}
}

// TestPackOfAPeriod: chapters for all that were opened in it, in memory that does
// not grow with them, and nothing of outside it in the proof.
func TestPackOfAPeriod(t *testing.T) {
	h := newHarness(t)
	before := h.open("before", `{}`)
	since := time.Now()
	filler := strings.Repeat("0123456789abcdef", 1200)
	var ids []string
	for i := range 200 {
		a := h.open("pay", fmt.Sprintf(`{"filler":"%s","n":%d}`, filler, i))
		h.look("ada", a.ID)
		if i%4 == 0 {
			h.vote("ada", a, false, "no")
			h.settle(a.ID)
		}
		ids = append(ids, a.ID)
	}
	must(t, second(h.Store.Log.CatchUp(context.Background(), 10*time.Second)))
	until := time.Now()
	late := h.open("after", `{}`)
	h.vote("ada", approvalOf(h, ids[1]), true, "after the period")

	var peak uint64
	size := &counting{}
	measure := func() error {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		return nil
	}
	must(t, measure())
	base := peak
	chapters := 0
	r := evidence.Request{Since: since, Until: until, Flush: func() error {
		if chapters++; chapters%20 == 0 {
			return measure()
		}
		return nil
	}}
	done, err := h.packer().Write(context.Background(), size, r)
	must(t, err)
	if done.Approvals != 200 || size.n < 12<<20 {
		t.Fatalf("%d approvals in %d bytes", done.Approvals, size.n)
	}
	if grown := int64(peak) - int64(base); grown > 8<<20 {
		t.Errorf("a pack of %d MiB takes %d MiB of memory", size.n>>20, grown>>20)
	}
	pack := h.pack(evidence.Request{Since: since, Until: until})
	wrong, d := h.verify(pack)
	if len(wrong) > 0 || d.Cards != 200 || d.Bound != 200 || d.Comments != 50 {
		t.Errorf("wrong %q, disclosed %+v", wrong, d)
	}
	for _, id := range ids {
		if strings.Count(pack, `id="a-`+id+`"`) != 1 || strings.Count(pack, `href="#a-`+id+`"`) != 1 {
			t.Fatalf("%s has not one chapter and one line in the index", id)
		}
	}
	if strings.Contains(pack, before.ID) || strings.Contains(pack, late.ID) {
		t.Error("the pack has approvals of outside the period")
	}
	if !strings.Contains(shownText(t, pack), "Some of it happened outside the period") {
		t.Error("the pack does not say that a vote came after the period")
	}
	selfContained(t, pack)
}

func approvalOf(h *harness, id string) approval.Approval {
	r, err := h.Store.Approvals.Get(context.Background(), id)
	must(h.t, err)
	return r.Approval
}

type counting struct{ n int64 }

func (c *counting) Write(data []byte) (int, error) {
	c.n += int64(len(data))
	return io.Discard.Write(data)
}

// Whoever is turned away is on record each time: that takes nothing of what happened out of a pack, and none of
// what it finds changed.
func TestRefusalsTakeNothingOutOfAPack(t *testing.T) {
	h := newHarness(t)
	ctx := context.Background()
	a := h.open("pay", `{"amount":1}`)
	if _, err := h.Contributions.Cancel(ctx, access.Principal{KeyID: "key_x", AgentID: "another", Kind: access.AgentKey}, a.ID, "", nil); err == nil {
		t.Fatal("another agent cancels it")
	}
	h.db.Exec(`SELECT append_events(array_agg(gen_random_uuid()), array_agg(e.type), array_agg('DENY'::text), array_agg(e.agent_id), array_agg(e.tool_name), array_agg(e.approval_id), array_agg(e.body))
		FROM events e, generate_series(1, 2500) WHERE e.approval_id = $1 AND e.outcome = 'DENY'`, a.ID)
	h.look("ada", a.ID)
	h.vote("ada", a, true, "an ordinary invoice")
	h.vote("ben", a, true, "")
	h.settle(a.ID)
	text := shownText(t, h.pack(evidence.Request{ApprovalID: a.ID}))
	for _, want := range []string{"approved it.", "an ordinary invoice", "More of it was refused than a chapter tells"} {
		if !strings.Contains(text, want) {
			t.Errorf("the pack does not say %q", want)
		}
	}
	if strings.Contains(text, "It has more events than a chapter tells") {
		t.Error("the pack leaves out what happened")
	}
}
