package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
	"holdpoint/engine/stakes"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
)

// MaskText stands in the place of what looks like a secret, however long that is.
const MaskText = "••••••••"

// maxSecrets is how many places of secrets are named.
const maxSecrets = 20

// Masked is what a card shows of a call with what looks like a secret left out.
type Masked struct {
	// Places are where it is: the first of them, and More how many others there are.
	Places []string
	More   int
	// Arguments, Document, Answers, Former and First are those of the card.
	Arguments, Document, Answers, Former, First []byte
}

// Concealed is the card without what looks like a secret; itself where there is none.
func (c Card) Concealed() Card {
	if m := c.Masked; m != nil {
		c.Arguments, c.Document, c.Answers, c.Former, c.First = m.Arguments, m.Document, m.Answers, m.Former, m.First
	}
	return c
}

// maskedOf masks a card's texts; nil where nothing in them looks like a secret.
func maskedOf(c Card) (*Masked, error) {
	m := &Masked{}
	inArguments := 0
	for i, part := range []struct {
		from  []byte
		to    *[]byte
		name  string
		words bool // words in names count: they are the tool's, and not the document's
	}{
		{c.Arguments, &m.Arguments, "", true},
		{c.Document, &m.Document, "what the agent says", false},
		{c.Answers, &m.Answers, "what was supplied", true},
		{c.Former, &m.Former, "what it was before", true},
		{c.First, &m.First, "what was asked first", true},
	} {
		if *part.to = part.from; part.from == nil {
			continue
		}
		v, err := canon.Parse(part.from)
		if err != nil {
			return nil, err
		}
		found := secretFinder{words: part.words}
		if masked := found.mask("", "", v); len(found.places) > 0 {
			*part.to = masked.Canonical()
		}
		switch {
		case i == 0:
			inArguments = len(found.places)
			for _, place := range found.places {
				m.add(place)
			}
		case len(found.places) > 0 && (part.words || len(found.places) > inArguments): // a document has the arguments, too
			m.add(part.name)
		}
	}
	if len(m.Places) == 0 {
		return nil, nil
	}
	return m, nil
}

func (m *Masked) add(place string) {
	for _, other := range m.Places {
		if other == place {
			return
		}
	}
	if len(m.Places) == maxSecrets {
		m.More++
		return
	}
	m.Places = append(m.Places, place)
}

// Mask is a value, such as arguments, with what looks like a secret masked.
func Mask(v canon.Value) canon.Value {
	return (&secretFinder{words: true}).mask("", "", v)
}

// secretFinder looks through values.
type secretFinder struct {
	words  bool // names of members count: they are the tool's, and not those of a document, such as its session
	under  bool // a name above says that all of it is secret
	places []string
}

// argumentMembers are the members of documents that hold the call's arguments, whose
// names are the tool's.
var argumentMembers = []string{"proposed_arguments", "toolArgs", "tool_args", "arguments"}

// mask is a value with what looks like a secret masked. name is what announces it.
func (s *secretFinder) mask(place, name string, v canon.Value) canon.Value {
	switch v.Kind() {
	case canon.StringKind:
		masked := s.text(name, v.Str())
		if masked == v.Str() {
			return v
		}
		s.places = append(s.places, place)
		return canon.String(masked)
	case canon.NumberKind:
		counts := !s.under && strings.Contains(strings.ToLower(name), "tokens") // as max_tokens does
		if text := string(v.Canonical()); !counts && s.text(name, text) != text {
			s.places = append(s.places, place)
			return canon.String(MaskText)
		}
		return v
	case canon.ArrayKind:
		list := make([]canon.Value, 0, v.Len())
		for i, each := range v.Elements() {
			list = append(list, s.mask(place+"["+strconv.Itoa(i)+"]", name, each))
		}
		return canon.Array(list...)
	case canon.ObjectKind:
		list := make([]canon.Member, 0, v.Len())
		for member, each := range v.All() {
			at := member
			if place != "" {
				at = place + "." + member
			}
			before := *s
			s.words = s.words || slices.Contains(argumentMembers, member)
			s.under = s.under || s.words && each.Kind() == canon.ObjectKind && stakes.NamesSecret(member)
			list = append(list, canon.Member{Name: member, Value: s.mask(at, announced(v, member), each)})
			s.words, s.under = before.words, before.under
		}
		return canon.Object(list...)
	default:
		return v
	}
}

// announced is what announces a member's value: its name, or what stands beside it in a
// pair such as {"name": "API_KEY", "value": "…"}.
func announced(v canon.Value, member string) string {
	if !strings.EqualFold(member, "value") && !strings.EqualFold(member, "val") {
		return member
	}
	for _, beside := range []string{"name", "key", "Name", "Key"} {
		if name, there := v.Get(beside); there && name.Kind() == canon.StringKind && name.Str() != "" {
			return name.Str()
		}
	}
	return member
}

// text is a text with what looks like a secret masked.
func (s *secretFinder) text(name, text string) string {
	if (s.under || s.words && stakes.NamesSecret(name)) && text != "" {
		return MaskText
	}
	detector := sentences().Detector
	if s.words && name != "" && len(name) <= 100 {
		before := `"` + name + `": "`
		for _, f := range detector.Find(before + text + `"`) {
			if redact.Secret(f.Tag) && f.Start <= len(before) && f.End > len(before) {
				return MaskText // by its name
			}
		}
	}
	var spans []redact.Span
	for _, f := range detector.Find(text) {
		if redact.Secret(f.Tag) {
			spans = append(spans, f)
		}
	}
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, f := range redact.Merge(text, spans) {
		b.WriteString(text[at:f.Start] + MaskText)
		at = f.End
	}
	return b.String() + text[at:]
}

// The refusals of a yes by somebody who has not been shown all of the arguments. Reading
// what is short needs nothing but the card.
var (
	notShown    = &access.Refusal{Kind: access.Conflict, Code: "arguments_not_shown", Detail: "The arguments are long. Have all of them shown before you approve."}
	notRevealed = &access.Refusal{Kind: access.Conflict, Code: "arguments_not_shown", Detail: "Values of this call look like secrets and are masked. Reveal them on its card before you approve; that goes on record."}
	notReadable = &access.Refusal{Kind: access.Conflict, Code: "arguments_unreadable", Detail: "The call cannot be decrypted, so nobody can know what they would approve. It can be denied or withdrawn."}
)

// unseen refuses the yes of a person who has not been shown all of the arguments, where it
// takes more than opening the card: where they are long, or hold what looks like a
// secret. Nobody can have been shown what cannot be read. wasRead is the person's WasRead.
func (g *core) unseen(ctx context.Context, a approval.Approval, sealed, answers seal.Box, size int, digest string, wasRead func(key string) (bool, error)) error {
	document, err := g.Sealer.Open(a.ID, sealed)
	switch {
	case errors.Is(err, seal.ErrErased):
		return nil // there is nothing to show; what becomes of it is not decided here
	case err != nil:
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", a.ID, "error", err)
		return notReadable
	}
	shown, err := wasRead(readKey(digest, answers))
	switch {
	case err != nil || shown:
		return err
	case size > longArguments:
		return notShown
	case a.Call.Digest != digest:
		return nil // another call than the person means: the page is old, and refused as that
	}
	args, err := arguments(a, document, a.Plan.OpenedAt)
	if err != nil {
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", a.ID, "error", err)
		return notReadable
	}
	supplied, err := g.answers(a.ID, answers)
	if err != nil {
		g.Logger.ErrorContext(ctx, "answers not read", "approval", a.ID, "error", err)
		return notReadable
	}
	m, err := maskedOf(Card{Arguments: args.Canonical(), Document: document, Answers: supplied})
	if err == nil && m != nil {
		return notRevealed
	}
	return err
}

// readKey is under which it is kept that somebody has been shown all of a call: its
// digest, and which values were supplied by then.
func readKey(digest string, answers seal.Box) string {
	if len(answers.Data) == 0 {
		return digest
	}
	sum := sha256.Sum256(answers.Data)
	return digest + "+" + hex.EncodeToString(sum[:8])
}

// Conceal fills in Masked.
func (c *Card) Conceal() error {
	var err error
	c.Masked, err = maskedOf(*c)
	return err
}
