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
		number, code, _ := strings.Cut(amount, " ")
		number = strings.ReplaceAll(number, ",", "")
		var value big.Rat
		if _, ok := value.SetString(number); !ok || !decimal.MatchString(number) {
			without++
			continue
		}
		code = strings.ToUpper(code)
		if sums[code] == nil {
			sums[code] = &sum{}
		}
		s := sums[code]
		s.value.Add(&s.value, &value)
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
