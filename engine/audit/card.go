package audit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A card is what a person is shown of a call before they decide: HTML, from the
// tag that Card.Open writes to the "</div>" that closes it. Its digest (Digest) is
// over exactly these bytes, and is what the events "shown" and "vote" name as
// card_digest. It holds what the decision is about: what would run, why it was
// held, who asks and what they say. It does not hold what changes by itself or
// belongs to the reader alone: the clock, forms, what others have said since.

// Card says which card a card is.
type Card struct {
	ApprovalID string
	// Edition is the approval's, from 1, and CallDigest that of the call as it was
	// then.
	Edition    int
	CallDigest string
	// Salt makes a digest of which nobody can find out the card by trying: 64
	// lower-case hex digits.
	Salt string
}

// Open is the tag that begins the card.
func (c Card) Open() string {
	return fmt.Sprintf(`<div class="seen" data-approval="%s" data-edition="%d" data-digest="%s" data-salt="%s">`, c.ApprovalID, c.Edition, c.CallDigest, c.Salt)
}

// CardEnd is the tag that ends a card.
const CardEnd = "</div>"

var cardOpen = regexp.MustCompile(`\A<div class="seen" data-approval="(apr_[a-z0-9]+)" data-edition="([1-9][0-9]{0,5})" data-digest="(sha256:[0-9a-f]{64})" data-salt="([0-9a-f]{64})">`)

// parseCard reads which card a card says that it is.
func parseCard(card string) (Card, error) {
	m := cardOpen.FindStringSubmatch(card)
	if m == nil || !strings.HasSuffix(card, CardEnd) {
		return Card{}, fmt.Errorf("it is no card")
	}
	edition, err := strconv.Atoi(m[2])
	return Card{ApprovalID: m[1], Edition: edition, CallDigest: m[3], Salt: m[4]}, err
}
