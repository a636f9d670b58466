package report

import (
	"cmp"
	"context"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/stakes"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// AmountsList is the report of how much was approved.
const AmountsList = "amounts"

const approvalsList = "approvals"

// What else is said in place of an amount: see gate.NoAmount.
const (
	noCurrency = "no_currency"
	noKey      = "no_key"
)

const (
	// amountsAtOnce is how many approvals are read at a time, and maxNarrowed after how many a
	// page ends that finds too few of them.
	amountsAtOnce = 500
	maxNarrowed   = 5000
	// maxTotals is how many sums are kept.
	maxTotals = 20_000
)

// amounts fills in how much each of the rows is about.
func (s Reports) amounts(ctx context.Context, rows []map[string]string) error {
	if s.Sealer == nil {
		for _, row := range rows {
			row["amount_note"] = noKey
		}
		return nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row["approval_id"]
	}
	told, err := gate.Amounts(ctx, s.Store, s.Sealer, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		a := told[row["approval_id"]]
		row["amount"], row["currency"], row["amount_note"] = a.Number, a.Currency, string(a.Missing)
		if a.Number != "" && a.Currency == "" {
			row["amount_note"] = noCurrency
		}
	}
	return nil
}

// minimumAmount is an amount; without a currency it is one of every currency.
type minimumAmount struct {
	number   *big.Rat
	currency string
}

var amountPattern = regexp.MustCompile(`\A([0-9.]+)(?: ([A-Za-z]{3}))?\z`)

// atLeast reads ListQuery.AtLeast; nil is none.
func atLeast(l List, text string) (*minimumAmount, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if !l.OfAmounts() {
		return nil, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: "This report has no amounts: leave out the least one."}
	}
	if found := amountPattern.FindStringSubmatch(text); found != nil {
		if number, ok := stakes.ParseNumber(found[1]); ok {
			return &minimumAmount{number, strings.ToUpper(found[2])}, nil
		}
	}
	return nil, &access.Refusal{Kind: access.Invalid, Code: "bad_amount", Detail: "Write the least amount such as 1000, 1000.50 or 1000 EUR: with a point before its fraction, and without commas."}
}

// reached reports whether a row is about as much.
func (l *minimumAmount) reached(row map[string]string) bool {
	number, ok := stakes.ParseNumber(row["amount"])
	return ok && number.Cmp(l.number) >= 0 && (l.currency == "" || l.currency == row["currency"])
}

// narrowed fills in a page of those approvals that are about enough. It looks at maxNarrowed
// at the most, so that a page may have fewer rows than it could, and go on.
func (s Reports) narrowed(ctx context.Context, page *ListPage, wanted store.ListQuery, enough *minimumAmount) error {
	limit, looked := wanted.Limit, 0
	page.Rows, page.Uncounted = []map[string]string{}, true
	for wanted.Limit = amountsAtOnce; ; {
		found, err := s.Store.Reports.List(ctx, wanted)
		if err != nil {
			return err
		}
		rows := rowsOf(found)
		if err := s.amounts(ctx, rows); err != nil {
			return err
		}
		for i, row := range rows {
			if !enough.reached(row) {
				continue
			}
			if page.Rows = append(page.Rows, row); len(page.Rows) == limit {
				if i+1 < len(rows) || found.Next != "" {
					page.NextCursor = found.Places[i]
				}
				return nil
			}
		}
		looked += len(rows)
		if wanted.After = found.Next; wanted.After == "" || looked >= maxNarrowed {
			page.NextCursor = wanted.After
			return nil
		}
	}
}

// totalOf is what a sum is of.
type totalOf struct {
	of, who          string // a role, or a person's id
	status           string
	currency, reason string
}

type total struct {
	approvals int
	sum       stakes.Sum
}

// totals fills in a page of sums. What is not known has rows of its own, without an amount,
// and different currencies are never added, nor are those that are not named.
func (s Reports) totals(ctx context.Context, page *ListPage, wanted store.ListQuery, enough *minimumAmount, count bool) error {
	from, err := strconv.Atoi(cmp.Or(wanted.After, "0"))
	if err != nil || from < 0 || from > maxTotals {
		return errNoPlace
	}
	limit := wanted.Limit
	sums, err := s.sums(ctx, wanted, enough)
	if err != nil {
		return err
	}
	people, err := s.Store.People.List(ctx)
	if err != nil {
		return err
	}
	names, addresses := map[string]string{}, map[string]string{}
	for _, p := range people {
		names[p.ID], addresses[p.ID] = p.Name, p.Email
	}
	keys := make([]totalOf, 0, len(sums))
	for key := range sums {
		keys = append(keys, key)
	}
	order := []string{"all", "role", "person", "approved", "denied", "expired", "cancelled"}
	slices.SortFunc(keys, func(a, b totalOf) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.of), slices.Index(order, b.of)), strings.Compare(names[a.who], names[b.who]), strings.Compare(a.who, b.who),
			cmp.Compare(slices.Index(order, a.status), slices.Index(order, b.status)), strings.Compare(a.reason, b.reason), strings.Compare(a.currency, b.currency))
	})
	page.Rows = []map[string]string{}
	for _, key := range keys[min(from, len(keys)):min(from+limit, len(keys))] {
		t := sums[key]
		row := map[string]string{
			"of": key.of, "role": "", "person": "", "email": "", "person_id": "", "status": key.status, "approvals": strconv.Itoa(t.approvals),
			"amount": "", "currency": key.currency, "amount_note": key.reason,
		}
		switch key.of {
		case "role":
			row["role"] = key.who
		case "person":
			row["person"], row["email"], row["person_id"] = cmp.Or(names[key.who], key.who), addresses[key.who], key.who
		}
		if key.reason == "" {
			row["amount"] = t.sum.String()
		}
		page.Rows = append(page.Rows, row)
	}
	if from+limit < len(keys) {
		page.NextCursor = strconv.Itoa(from + limit)
	}
	if count {
		page.Found = len(keys)
	}
	return nil
}

// sums goes through the approvals of a period, some at a time.
func (s Reports) sums(ctx context.Context, wanted store.ListQuery, enough *minimumAmount) (map[totalOf]*total, error) {
	sums := map[totalOf]*total{}
	wanted.List, wanted.After, wanted.Limit = approvalsList, "", amountsAtOnce
	for {
		found, err := s.Store.Reports.List(ctx, wanted)
		if err != nil {
			return nil, err
		}
		rows := rowsOf(found)
		if err := s.amounts(ctx, rows); err != nil {
			return nil, err
		}
		for _, row := range rows {
			if enough == nil || enough.reached(row) {
				count(sums, row)
			}
		}
		if len(sums) > maxTotals {
			return nil, &access.Refusal{Kind: access.Invalid, Code: "period_too_long", Detail: "The period has amounts of too many roles, people and currencies. Choose a shorter one."}
		}
		if wanted.After = found.Next; wanted.After == "" {
			return sums, nil
		}
	}
}

// count adds an approval to the sums that it belongs to.
func count(sums map[totalOf]*total, row map[string]string) {
	add := func(of, who string) {
		key := totalOf{of: of, who: who, status: row["status"], currency: row["currency"], reason: row["amount_note"]}
		t := sums[key]
		if t == nil {
			t = &total{}
			sums[key] = t
		}
		t.approvals++
		if key.reason == "" {
			t.sum.Add(row["amount"])
		}
	}
	add("all", "")
	for of, list := range map[string]string{"role": row["roles"], "person": row["decided_by_id"]} {
		for _, who := range strings.Split(list, ", ") {
			if who != "" {
				add(of, who)
			}
		}
	}
}
