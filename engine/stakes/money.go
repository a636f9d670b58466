package stakes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
)

// decimal is an amount as people write one without grouping: an exponent, or digits
// that lead with a zero, are none.
var decimal = regexp.MustCompile(`\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?\z`)

var currencyCode = regexp.MustCompile(`\A[A-Za-z]{3}\z`)

// money adds an amount, digit for digit as the arguments have it, and its currency.
func (s *draft) money(p piece, args, v canon.Value) {
	place := strings.Join(p.place, ".")
	text := v.Str()
	if v.Kind() == canon.NumberKind {
		text = string(v.Canonical())
	} else if v.Kind() != canon.StringKind {
		s.note(place, "", place+" is "+kindWords[v.Kind()])
		return
	}
	if !decimal.MatchString(text) {
		s.text(place, "", text)
		s.note(place, " ", place+" is no plain amount")
		return
	}
	code, wrong := currencyOf(p, args)
	amount, units := grouped(text), p.format == "minor"
	if units && wrong == "" {
		digits, known := minorDigits[strings.ToUpper(code)]
		if !known || strings.Contains(text, ".") {
			wrong = "in the smallest unit of the currency"
		} else {
			amount, units = grouped(shift(text, digits)), false
		}
	}
	if wrong == "" {
		wrong = fractionNote(place, text, code)
	}
	if code != "" {
		amount += " " + code
	}
	s.Parts = append(s.Parts, Part{Kind: Exact, Text: amount, Place: place})
	if wrong != "" {
		s.note(place, " ", wrong)
	}
	if s.Amount == "" {
		s.Amount, s.InUnits = amount, units
	}
}

// fractionNote says that an amount has more digits behind the point than its currency: to
// some readers 1.250 are a thousand and more.
func fractionNote(place, text, code string) string {
	_, fraction, _ := strings.Cut(text, ".")
	digits, known := minorDigits[strings.ToUpper(code)]
	switch {
	case known && len(fraction) > digits:
		return place + " has " + counted(len(fraction), "digit", "digits") + " behind the point, " + strings.ToUpper(code) + " has " + strconv.Itoa(digits)
	case !known && len(fraction) == 3:
		return place + " has 3 digits behind the point"
	}
	return ""
}

// currencyOf is the code of the currency, and what is wrong with it.
func currencyOf(p piece, args canon.Value) (code, wrong string) {
	if p.currency == nil {
		return "", ""
	}
	place := strings.Join(p.currency, ".")
	v, there := at(args, p.currency)
	switch {
	case !there || v.IsNull():
		return "", place + " is missing"
	case !currencyCode.MatchString(v.Str()):
		return "", place + " is no currency’s code"
	}
	return v.Str(), ""
}

// grouped writes a decimal with a comma between thousands.
func grouped(text string) string {
	whole, rest, fraction := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction {
		whole += "." + rest
	}
	return sign + whole
}

// shift moves the point of a whole number to the left.
func shift(text string, digits int) string {
	if digits == 0 {
		return text
	}
	number, negative := strings.CutPrefix(text, "-")
	if missing := digits + 1 - len(number); missing > 0 {
		number = strings.Repeat("0", missing) + number
	}
	at := len(number) - digits
	number = number[:at] + "." + number[at:]
	if negative {
		return "-" + number
	}
	return number
}

// minorDigits is how many digits the smallest unit of a currency has behind the point
// (ISO 4217). An amount in the smallest unit of another one stays as it is.
var minorDigits = func() map[string]int {
	digits := map[string]int{}
	for n, codes := range []string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "AED ARS AUD BRL CAD CHF CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR MAD MXN MYR NGN NOK NZD PEN PHP PKR PLN QAR RON SAR SEK SGD THB TRY TWD UAH USD ZAR",
		3: "BHD IQD JOD KWD LYD OMR TND",
	} {
		for _, code := range slices.Sorted(strings.SplitSeq(codes, " ")) {
			if code != "" {
				digits[code] = n
			}
		}
	}
	return digits
}()
