package gate

import (
	"context"
	"math"
	"slices"
	"time"

	"holdpoint/engine/stakes"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Amount is how much money a call is about, by its sentence: the first amount in it.
type Amount struct {
	// Number is the amount digit for digit, such as "1250.00"; "" for none, and Missing says why.
	Number string
	// Currency is its code in capitals; "" where the call does not name one.
	Currency string
	Missing  NoAmount
}

// NoAmount is why nothing is known of how much a call is about.
type NoAmount string

// The reasons. A call without a sentence of its own names no amount, whatever its arguments
// are: nobody has said which of them is one.
const (
	AmountErased     NoAmount = "erased"
	AmountUnreadable NoAmount = "unreadable"
	AmountUntold     NoAmount = "no_template"
	AmountNone       NoAmount = "no_amount"
	AmountInUnits    NoAmount = "smallest_unit"
)

// callsAtOnce is how many calls are read at a time, each of at most rowBytes; longer ones are
// read one by one.
const callsAtOnce = 250

// Amounts reads the exact arguments of approvals and says how much each is about, by id. What
// it holds at a time does not grow with how many there are.
func Amounts(ctx context.Context, s *store.Store, sealer *seal.Sealer, ids []string) (map[string]Amount, error) {
	told := make(map[string]Amount, len(ids))
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, callsAtOnce) {
		list, err := s.Reports.SealedCalls(ctx, some, rowBytes)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.Size > rowBytes && !d.Erased {
				whole, err := s.Reports.SealedCalls(ctx, []string{d.Approval.ID}, math.MaxInt32)
				if err != nil {
					return nil, err
				}
				if len(whole) == 1 {
					d = whole[0]
				}
			}
			told[d.Approval.ID] = amountOf(sealer, d, now)
		}
	}
	return told, nil
}

// amountOf is how much a call is about. It is written without a detector: no part of an
// amount is ever left out.
func amountOf(sealer *seal.Sealer, d store.SealedCall, now time.Time) Amount {
	if d.Erased {
		return Amount{Missing: AmountErased}
	}
	document, err := sealer.Open(d.Approval.ID, d.Box)
	if err != nil {
		return Amount{Missing: AmountUnreadable}
	}
	p, err := proposalOf(d.Approval, document, now)
	if err != nil {
		return Amount{Missing: AmountUnreadable}
	}
	template := ""
	if t := d.Approval.Plan.Stakes; t != nil {
		template = t.Template
	}
	said := (stakes.Writer{}).Write(d.Approval.Call.Tool, p.Arguments, template)
	switch {
	case said.Origin == stakes.None:
		return Amount{Missing: AmountUntold}
	case said.Amount == "":
		return Amount{Missing: AmountNone}
	case said.InUnits:
		return Amount{Missing: AmountInUnits}
	}
	number, currency := stakes.Split(said.Amount)
	return Amount{Number: number, Currency: currency}
}
