package stakes

import (
	"math/big"
	"slices"
	"strings"
)

// Total adds amounts as sentences have them (Sentence.Amount), each currency on its own,
// exactly: with as many digits behind the point as the longest of them has. without is
// how many of them are no amounts.
func Total(amounts []string) (totals []string, without int) {
	type sum struct {
		value  big.Rat
		digits int
	}
	sums := map[string]*sum{}
	for _, amount := range amounts {
		value, code, ok := amountOf(amount)
		if !ok {
			without++
			continue
		}
		if sums[code] == nil {
			sums[code] = &sum{}
		}
		s := sums[code]
		s.value.Add(&s.value, value)
		number, _, _ := strings.Cut(amount, " ")
		_, fraction, _ := strings.Cut(number, ".")
		s.digits = max(s.digits, len(fraction))
	}
	codes := make([]string, 0, len(sums))
	for code := range sums {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		text := grouped(sums[code].value.FloatString(sums[code].digits))
		totals = append(totals, strings.TrimSuffix(text+" "+code, " "))
	}
	return totals, without
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
	number, code, _ := strings.Cut(text, " ")
	number = strings.ReplaceAll(number, ",", "")
	value = new(big.Rat)
	if _, ok := value.SetString(number); !ok || !decimal.MatchString(number) {
		return nil, "", false
	}
	return value, strings.ToUpper(code), true
}
