package stakes

import (
	"math/big"
	"slices"
	"strings"
)

// Sum is a sum of amounts of one currency, exact, with as many digits behind the point as
// the longest of them has.
type Sum struct {
	value  big.Rat
	digits int
}

// Add adds a number as ParseNumber takes it; ok is false, and nothing is added, where it
// does not.
func (s *Sum) Add(number string) (ok bool) {
	value, ok := ParseNumber(number)
	if ok {
		s.value.Add(&s.value, value)
		_, fraction, _ := strings.Cut(number, ".")
		s.digits = max(s.digits, len(fraction))
	}
	return ok
}

// String is the sum without grouping: "4600.50".
func (s *Sum) String() string { return s.value.FloatString(s.digits) }

// ParseNumber reads an amount without its currency, as people write one without grouping:
// "1250.00".
func ParseNumber(text string) (value *big.Rat, ok bool) {
	if !decimal.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// Split takes an amount apart as sentences have it (Sentence.Amount): its number without
// grouping, and its currency's code in capitals, "" where it has none.
func Split(amount string) (number, currency string) {
	number, code, _ := strings.Cut(amount, " ")
	return strings.ReplaceAll(number, ",", ""), strings.ToUpper(code)
}

// Grouped writes a number with a comma between thousands.
func Grouped(number string) string { return grouped(number) }

// Total adds amounts as sentences have them (Sentence.Amount), each currency on its own,
// exactly. without is how many of them are no amounts, unnamed how many name no currency:
// those may be of several, and are added to nothing.
func Total(amounts []string) (totals []string, without, unnamed int) {
	sums := map[string]*Sum{}
	var codes []string
	for _, amount := range amounts {
		number, code := Split(amount)
		if _, ok := ParseNumber(number); !ok {
			without++
			continue
		}
		if code == "" {
			unnamed++
			continue
		}
		if sums[code] == nil {
			sums[code], codes = &Sum{}, append(codes, code)
		}
		sums[code].Add(number)
	}
	slices.Sort(codes)
	for _, code := range codes {
		totals = append(totals, grouped(sums[code].String())+" "+code)
	}
	return totals, without, unnamed
}

// Ranges are the least and the largest of amounts as sentences have them, each currency on its
// own: "12.50 – 4,600.00 EUR", or the amount, where all are the same.
func Ranges(amounts []string) (ranges []string) {
	type span struct {
		least, most         *big.Rat
		leastText, mostText string
	}
	spans := map[string]*span{}
	var codes []string
	for _, amount := range amounts {
		value, code, ok := amountOf(amount)
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(amount, " ")
		s := spans[code]
		if s == nil {
			s = &span{value, value, number, number}
			spans[code], codes = s, append(codes, code)
		}
		if value.Cmp(s.least) < 0 {
			s.least, s.leastText = value, number
		}
		if value.Cmp(s.most) > 0 {
			s.most, s.mostText = value, number
		}
	}
	slices.Sort(codes)
	for _, code := range codes {
		s := spans[code]
		text := s.leastText
		if s.least.Cmp(s.most) != 0 {
			text += " – " + s.mostText
		}
		ranges = append(ranges, strings.TrimSuffix(text+" "+code, " "))
	}
	return ranges
}

// minFormer is how many former amounts tell what is usual.
const minFormer = 3

// Larger reports whether an amount is larger than all of the former ones in the same
// currency, of which there are some.
func Larger(amount string, former []string) bool {
	value, code, ok := amountOf(amount)
	if !ok {
		return false
	}
	n := 0
	for _, f := range former {
		v, c, ok := amountOf(f)
		switch {
		case !ok || c != code:
		case v.Cmp(value) >= 0:
			return false
		default:
			n++
		}
	}
	return n >= minFormer
}

// amountOf reads an amount as sentences have it.
func amountOf(text string) (value *big.Rat, currency string, ok bool) {
	number, code := Split(text)
	value, ok = ParseNumber(number)
	return value, code, ok
}
