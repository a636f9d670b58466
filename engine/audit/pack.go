package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/passkey"
)

// An evidence pack is one HTML file: pages for people, and at the end, each
// between a line that opens it and the line "</script>", two blocks for programs,
// which no browser runs:
//
//	pages
//	<script type="application/jsonl" id="holdpoint-proof">
//	an export (export.go) of what the pack is about
//	</script>
//	<script type="application/json" id="holdpoint-disclosed">
//	[
//	one Item a line, with a comma at the end of all but the last
//	]
//	</script>
//	</body>
//	</html>
//
// In both blocks "<" is written as its escape, so that nothing can end them; see
// Escape. The pages are everything before the first block's opening line. Their
// digest is in the event that records that the pack was made, and that event comes
// with the pack: so the pages can be checked as well as the log.

// The lines of an evidence pack that open and close its blocks, and end it.
const (
	ProofOpens     = `<script type="application/jsonl" id="holdpoint-proof">`
	DisclosedOpens = `<script type="application/json" id="holdpoint-disclosed">`
	BlockCloses    = `</script>`
	PackEnds       = "</body>\n</html>\n"
)

// Escape writes a line of JSON so that no HTML can be in it.
func Escape(line []byte) []byte { return bytes.ReplaceAll(line, []byte("<"), []byte(`\u003c`)) }

// unescape is the line that Escape has written, if it was canonical: there, "<" is
// never escaped.
func unescape(line []byte) []byte {
	if !bytes.Contains(line, []byte(`\u003c`)) {
		return line
	}
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] != '\\':
			out = append(out, line[i])
		case bytes.HasPrefix(line[i:], []byte(`\u003c`)):
			out = append(out, '<')
			i += len(`\u003c`) - 1
		case i+1 < len(line):
			// An escape that stays, and whose second half is the start of none.
			out = append(out, line[i], line[i+1])
			i++
		default:
			out = append(out, line[i])
		}
	}
	return out
}

// The kinds of Item.
const (
	ItemPages     = "pages"     // Digest is the pages'; Event is the event of the pack's making
	ItemCard      = "card"      // Text is what somebody was shown
	ItemComment   = "comment"   // Text and Salt are of the fact
	ItemArguments = "arguments" // Text is canonical JSON, of the approval's last edition
	ItemAnswers   = "answers"   // Text is what was supplied; nothing can be checked of it
	ItemRules     = "rules"     // Text is what decisions under Digest were judged by
	ItemPolicy    = "policy"    // Text is the document whose meaning Digest is
	ItemContracts = "contracts"
	ItemPasskey   = "passkey" // Event tells of a passkey of somebody who has signed
	ItemFact      = "fact"    // only Changed: what somebody contributed
	ItemCall      = "call"    // only Changed: whose call of which tool it is
	ItemAsked     = "asked"   // only Changed: what was asked of whom
	ItemEnd       = "end"     // only Changed: how the approval ended
	ItemRan       = "ran"     // only Changed: what became of the call
)

// Item is one thing that a pack discloses beyond the log, which has only its digest.
type Item struct {
	Kind       string `json:"kind"`
	ApprovalID string `json:"approval_id,omitempty"`
	Digest     string `json:"digest"`
	Fact       int64  `json:"fact,omitempty"`
	// Seq is the place of the event whose comment it is, where that is no fact's.
	Seq     int64  `json:"seq,omitempty"`
	Salt    string `json:"salt,omitempty"`
	Edition int    `json:"edition,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Text    string `json:"text,omitempty"`
	// Event is a line as exports have it, with its proof.
	Event string `json:"event,omitempty"`
	// Changed says that whoever made the pack found something else in the database than
	// what the log names, or nothing where it names something: the pages show a record
	// that was changed. The item has no text.
	Changed bool `json:"changed,omitempty"`
}

// Disclosure is what a PackVerifier has found of what a pack discloses.
type Disclosure struct {
	// Comments, Cards and Documents are those that are what the log names; Documents
	// are rules, policies and contracts.
	Comments, Cards, Documents int
	// Bound is how many calls' arguments are those of a card that the log names;
	// Unbound how many the log has only a keyed digest of.
	Bound, Unbound int
	// Unchecked is how much there is that the log knows nothing of.
	Unchecked int
	// NoArguments is how many calls' arguments the pack does not have.
	NoArguments int
	// NoComments and NoCards are how many the log names that the pack does not have:
	// they were erased, or left out.
	NoComments, NoCards int
	// Pages is the place of the event that has the pages' digest.
	Pages int64
}

// PackVerifier checks an evidence pack, in memory that does not grow with it but by
// the digests that its events have: Read it, then ask Done.
type PackVerifier struct {
	Verifier
	// Means computes what documents mean, by kind: the digest that rulesets name.
	Means map[string]func(text []byte) (digest string, err error)

	found    Disclosure
	named    map[string]map[string]bool // approval → digests of cards, and those with who was shown them
	comments map[commentID]string
	given    map[commentID]bool
	came     map[string]map[string]bool // cards that are here
	calls    map[callID]string          // by cards: the call's digest
	subject  map[string]*subject
	rules    map[string]bool // policy digests of events
	means    map[string]bool // digests that rules name
	pages    string
	loose    []looseArguments
	has      map[string]bool // what an approval has once: kind and approval
	altered  int             // things of the record that the pack says were changed
	toAlter  int             // those that the event of the pack's making says there are
	unknown  []engine.Event  // signed, by passkeys that the events do not tell of
	passkeys []engine.Event  // that tell of passkeys
}

// commentID says whose comment it is: a fact's, or of the event in this place.
type commentID struct {
	approval  string
	fact, seq int64
}

type callID struct {
	approval string
	edition  int
}

// subject is what the events say of an approval's call.
type subject struct {
	tool     string
	editions int
}

// proof checks a line of the pack's first block.
func (p *PackVerifier) proof(data []byte) {
	line := unescape(data)
	p.Line(line)
	if p.named == nil {
		p.replay.unknown = func(e engine.Event) { p.unknown = append(p.unknown, e) }
		p.named, p.came = map[string]map[string]bool{}, map[string]map[string]bool{}
		p.comments, p.given = map[commentID]string{}, map[commentID]bool{}
		p.calls, p.subject = map[callID]string{}, map[string]*subject{}
		p.rules, p.means, p.has = map[string]bool{}, map[string]bool{}, map[string]bool{}
		return // the header
	}
	var e engine.Event
	if json.Unmarshal(line, &e) != nil || e.ID == "" {
		return // has been said
	}
	if e.PolicyDigest != "" {
		p.rules[e.PolicyDigest] = true
	}
	if e.ApprovalID == "" || e.Outcome == engine.Deny {
		return
	}
	var told struct {
		approval.FactPayload
		approval.CommentPayload
		Card string `json:"card_digest"`
	}
	if json.Unmarshal(e.SafePayload, &told) != nil {
		return
	}
	if e.Type == engine.Decided && len(e.Requirements) > 0 {
		p.subject[e.ApprovalID] = &subject{tool: e.ToolName, editions: 1}
	}
	if told.Fact != nil && told.Asked != nil && p.subject[e.ApprovalID] != nil {
		p.subject[e.ApprovalID].editions++
	}
	if told.Fact != nil && told.Fact.CommentDigest != "" {
		p.comments[commentID{e.ApprovalID, told.Fact.Seq, 0}] = told.Fact.CommentDigest
	}
	if told.CommentDigest != "" && e.Actor.Kind == engine.HumanActor && (e.Type == engine.Executed || e.Type == engine.Afterward) {
		p.comments[commentID{e.ApprovalID, 0, e.Seq}] = told.CommentDigest
	}
	switch {
	case told.Card == "":
	case e.Type == engine.Shown:
		if p.named[e.ApprovalID] == nil {
			p.named[e.ApprovalID] = map[string]bool{}
		}
		p.named[e.ApprovalID][told.Card] = true
		p.named[e.ApprovalID][told.Card+" "+e.Actor.ID] = true
	case p.entire(e.ApprovalID) && !p.named[e.ApprovalID][told.Card+" "+e.Actor.ID]:
		p.say(Problem{Seq: e.Seq, EventID: e.ID, What: "it names a card that its actor was not shown before"})
	}
}

// entire reports whether the export claims all events of the approval.
func (p *PackVerifier) entire(approvalID string) bool {
	return p.header.Whole || p.header.Filter == Filter{ApprovalID: approvalID}
}

// item checks a line of the pack's second block, without brackets and commas.
func (p *PackVerifier) item(data []byte) {
	var item Item
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&item); err != nil || d.More() {
		p.bad("something disclosed cannot be read")
		return
	}
	if again, err := json.Marshal(item); err != nil || !bytes.Equal(again, data) {
		p.bad("something disclosed is not written as packs are: other programs could read something else in it")
		return
	}
	if item.Changed {
		p.changed(item)
		return
	}
	if err := p.check(item); err != nil {
		what := "what is disclosed"
		if item.ApprovalID != "" {
			what += " of " + item.ApprovalID
		}
		p.bad("%s: the %.20s %.80s: %v", what, item.Kind, item.Digest, err)
	}
}

// changed says what of the record was changed before the pack was made, and does not
// count it among what was erased or left out.
func (p *PackVerifier) changed(item Item) {
	p.altered++
	what := item.Kind
	switch {
	case item.Kind == ItemFact:
		what = fmt.Sprintf("fact %d", item.Fact)
	case item.Kind == ItemComment && item.Fact != 0:
		what = fmt.Sprintf("the comment of fact %d", item.Fact)
	case item.Kind == ItemComment:
		what = fmt.Sprintf("the comment of event %d", item.Seq)
	case item.Kind == ItemCard:
		what = "the card " + item.Digest
	case item.Kind == ItemCall:
		what = "whose call of which tool it is"
	case item.Kind == ItemAsked:
		what = "what was asked of whom"
	case item.Kind == ItemRan:
		what = "what became of the call"
	case item.ApprovalID == "":
		what = "the text of the " + item.Kind + " " + item.Digest
	}
	if item.Kind == ItemComment {
		p.given[commentID{item.ApprovalID, item.Fact, item.Seq}] = true
	}
	if item.Kind == ItemCard {
		if p.came[item.ApprovalID] == nil {
			p.came[item.ApprovalID] = map[string]bool{}
		}
		p.came[item.ApprovalID][item.Digest] = true
	}
	of := ""
	if item.ApprovalID != "" {
		of = " of " + item.ApprovalID
	}
	p.bad("the record%.80s was changed before the pack was made: %.120s is not what the log has", of, what)
}

func (p *PackVerifier) bad(format string, args ...any) {
	p.say(Problem{Line: -1, What: fmt.Sprintf(format, args...)})
}

var errNotNamed = errors.New("the log does not name it")

func (p *PackVerifier) check(item Item) error {
	switch item.Kind {
	case ItemPages:
		return p.checkPages(item)
	case ItemPasskey:
		e, err := p.proven(item)
		if err != nil || e.Type != engine.Admin {
			return errors.New("the log does not have the event of a passkey")
		}
		p.passkeys = append(p.passkeys, e)
		return nil
	case ItemCard:
		return p.checkCard(item)
	case ItemComment:
		id, of := commentID{item.ApprovalID, item.Fact, item.Seq}, fmt.Sprintf("fact %d", item.Fact)
		if item.Fact == 0 {
			of = fmt.Sprintf("event %d", item.Seq)
		}
		if item.Text == "" || approval.CommentDigest(item.Salt, item.Text) != item.Digest {
			return fmt.Errorf("the comment of %s was changed: it is another one", of)
		}
		if p.comments[id] != item.Digest {
			return fmt.Errorf("%s: %w", of, errNotNamed)
		}
		if !p.given[id] {
			p.given[id] = true
			p.found.Comments++
		}
		return nil
	case ItemArguments:
		return p.checkArguments(item)
	case ItemAnswers:
		p.found.Unchecked++
		return p.once(item)
	case ItemRules:
		if Digest([]byte(item.Text)) != item.Digest {
			return errors.New("it is another one")
		}
		if !p.rules[item.Digest] {
			return errNotNamed
		}
		v, err := canon.Parse([]byte(item.Text))
		if err != nil {
			return errors.New("it cannot be read")
		}
		p.means[ItemPolicy+textOf(v, "policy")], p.means[ItemContracts+textOf(v, "tool_contracts")] = true, true
		p.found.Documents++
		return nil
	case ItemPolicy, ItemContracts:
		means := p.Means[item.Kind]
		if means == nil {
			return errors.New("this program does not know how to read it")
		}
		if digest, err := means([]byte(item.Text)); err != nil || digest != item.Digest {
			return errors.New("it is another one")
		}
		if !p.means[item.Kind+item.Digest] {
			return errors.New("no rules that the log names have it")
		}
		p.found.Documents++
		return nil
	}
	return errors.New("there is nothing of that kind")
}

func textOf(v canon.Value, name string) string {
	member, _ := v.Get(name)
	return member.Str()
}

func (p *PackVerifier) checkCard(item Item) error {
	if Digest([]byte(item.Text)) != item.Digest {
		return errors.New("it was changed: it is another one")
	}
	if !p.named[item.ApprovalID][item.Digest] {
		return errNotNamed
	}
	card, err := parseCard(item.Text)
	if err != nil {
		return err
	}
	if card.ApprovalID != item.ApprovalID {
		return errors.New("it is of another approval")
	}
	id := callID{card.ApprovalID, card.Edition}
	if call, ok := p.calls[id]; ok && call != card.CallDigest {
		return fmt.Errorf("another card of edition %d shows another call", card.Edition)
	}
	p.calls[id] = card.CallDigest
	if p.came[item.ApprovalID] == nil {
		p.came[item.ApprovalID] = map[string]bool{}
	}
	if !p.came[item.ApprovalID][item.Digest] {
		p.came[item.ApprovalID][item.Digest] = true
		p.found.Cards++
	}
	return nil
}

// checkPages checks that the pages are those that were written, by the event that
// says so.
func (p *PackVerifier) checkPages(item Item) error {
	if p.header.Checkpoint == "" || p.dead {
		return nil // has been said
	}
	e, err := p.proven(item)
	if err != nil || e.Type != engine.Exported {
		return errors.New("the log does not have the event of the pack's making")
	}
	var told struct {
		Pages   string          `json:"pages"`
		Filter  json.RawMessage `json:"filter"`
		Changed int             `json:"changed"`
	}
	if err := json.Unmarshal(e.SafePayload, &told); err != nil || told.Pages != item.Digest {
		return errors.New("the event of the pack's making has another digest")
	}
	if !bytes.Equal(told.Filter, p.header.Filter.JSON()) {
		return errors.New("the event of the pack's making is that of another pack")
	}
	if p.pages != item.Digest {
		return errors.New("the pages were changed after they were written")
	}
	p.found.Pages, p.toAlter = e.Seq, told.Changed
	return nil
}

// proven is the event of an item, which the log has.
func (p *PackVerifier) proven(item Item) (e engine.Event, err error) {
	line := []byte(item.Event)
	v, err := canon.Parse(line)
	if err != nil || !bytes.Equal(v.Canonical(), line) {
		return e, errors.New("the event cannot be read")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, errors.New("the event cannot be read")
	}
	members := v.Members()
	document := members[:0]
	for _, m := range members {
		if m.Name != "leaf" && m.Name != "proof" {
			document = append(document, m)
		}
	}
	leaf := LeafHash(NewEntry(e.Seq, e.Timestamp, Digest(canon.Object(document...).Canonical())))
	member, _ := v.Get("proof")
	proof, err := parseProof(member)
	if err == nil {
		err = tlog.CheckRecord(proof, p.point.Size, p.point.Root, e.Seq-1, leaf)
	}
	return e, err
}

// signed verifies what the events could not: the signatures of passkeys that are told
// of beside them.
func (p *PackVerifier) signed() {
	if p.header.Checkpoint == "" || p.dead {
		return // has been said
	}
	var keys passkey.Keys
	slices.SortStableFunc(p.passkeys, func(a, b engine.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	next := 0
	for _, e := range p.unknown {
		for ; next < len(p.passkeys) && p.passkeys[next].Seq < e.Seq; next++ {
			if err := keys.Event(p.passkeys[next]); err != nil {
				p.say(Problem{Line: -1, Seq: p.passkeys[next].Seq, EventID: p.passkeys[next].ID, What: err.Error()})
			}
		}
		switch err := approval.VerifySigned(e, &keys); {
		case errors.Is(err, passkey.ErrUnknown):
		case err != nil:
			p.say(Problem{Line: -1, Seq: e.Seq, EventID: e.ID, What: fmt.Sprintf("its signature is none: %v", err)})
		default:
			p.replay.Count.SignedUnknown--
			p.replay.Count.Signed++
			p.replay.signer(e)
		}
	}
}

// Done says what was found.
func (p *PackVerifier) Done() (Report, Disclosure) {
	p.signed()
	p.bind()
	if p.altered < p.toAlter {
		p.bad("whoever made the pack found %d things of the record changed, and it names %d of them: what it says of the others was taken out", p.toAlter, p.altered)
	}
	for id := range p.comments {
		if !p.given[id] {
			p.found.NoComments++
		}
	}
	for id, cards := range p.named {
		for digest := range cards {
			if len(digest) == len("sha256:")+64 && !p.came[id][digest] {
				p.found.NoCards++
			}
		}
	}
	if p.found.Pages == 0 && len(p.problems) == 0 && !p.dead {
		p.bad("nothing shows that the pages are those that were written")
	}
	return p.Verifier.Done(), p.found
}
