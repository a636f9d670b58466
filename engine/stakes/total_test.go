package stakes

import (
	"slices"
	"testing"

	"holdpoint/engine/canon"
)

func TestLarger(t *testing.T) {
	for _, tc := range []struct {
		amount string
		former []string
		want   bool
	}{
		{"4,600.00 EUR", []string{"40 EUR", "49.00 eur", "9 EUR", "9,000 USD"}, true},
		{"49 EUR", []string{"40 EUR", "49.00 EUR", "9 EUR"}, false},
		{"4,600.00 EUR", []string{"40 EUR", "49.00 EUR"}, false}, // of two nobody can say what is usual
		{"50 USD", []string{"40 EUR", "49.00 EUR", "9 EUR"}, false},
		{"5", []string{"1", "4", "2"}, true},
		{"", []string{"1", "4", "2"}, false},
	} {
		if got := Larger(tc.amount, tc.former); got != tc.want {
			t.Errorf("%s beside %v: %v", tc.amount, tc.former, got)
		}
	}
}

func TestTotal(t *testing.T) {
	for _, test := range []struct {
		amounts          []string
		want             []string
		without, unnamed int
	}{
		{nil, nil, 0, 0},
		{[]string{"", ""}, nil, 2, 0},
		{[]string{"0.10 EUR", "0.20 EUR"}, []string{"0.30 EUR"}, 0, 0},
		{[]string{"1,250.00 EUR", "12 eur", "3 USD", ""}, []string{"1,262.00 EUR", "3 USD"}, 1, 0},
		{[]string{"-5.25 EUR", "5 EUR"}, []string{"-0.25 EUR"}, 0, 0},
		{[]string{"12", "8"}, nil, 0, 2}, // perhaps of two currencies
		{[]string{"12", "8 EUR", "", "1,000"}, []string{"8 EUR"}, 1, 2},
		{[]string{"1e9 EUR", "1/2 EUR", "0x10 EUR", "1_0 EUR", "0x10"}, nil, 5, 0},
		{[]string{"99,999,999,999,999,999,999.99 EUR", "0.01 EUR"}, []string{"100,000,000,000,000,000,000.00 EUR"}, 0, 0},
	} {
		got, without, unnamed := Total(test.amounts)
		if !slices.Equal(got, test.want) || without != test.without || unnamed != test.unnamed {
			t.Errorf("%q: %q, %d without and %d unnamed, want %q, %d and %d", test.amounts, got, without, unnamed, test.want, test.without, test.unnamed)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, test := range []struct{ amounts, want []string }{
		{nil, nil},
		{[]string{"", "x"}, nil},
		{[]string{"49 EUR", "4,600.00 eur", "12.50 EUR"}, []string{"12.50 – 4,600.00 EUR"}},
		{[]string{"10 EUR", "10.00 EUR"}, []string{"10 EUR"}},
		{[]string{"9", "10", "-1 USD"}, []string{"9 – 10", "-1 USD"}},
	} {
		if got := Ranges(test.amounts); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.amounts, got, test.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for amount, want := range map[string][2]string{
		"1,250.00 eur": {"1250.00", "EUR"}, "-5": {"-5", ""}, "99,999,999,999,999,999,999.99 JPY": {"99999999999999999999.99", "JPY"}, "": {"", ""},
	} {
		if number, currency := Split(amount); number != want[0] || currency != want[1] {
			t.Errorf("%s: %q, %q", amount, number, currency)
		}
	}
	var s Sum
	for _, number := range []string{"0.1", "0.20", "100000000000000000000", "x", "1e5", "1,000"} {
		s.Add(number)
	}
	if s.String() != "100000000000000000000.30" {
		t.Errorf("got %s", s.String())
	}
}

// TestInUnits: an amount in the smallest unit of a currency that is not known is said to be so.
func TestInUnits(t *testing.T) {
	for text, want := range map[string]bool{
		`{"n":125000,"c":"EUR"}`: false, `{"n":125000,"c":"GLD"}`: true, `{"n":"12.5","c":"EUR"}`: true, `{"n":125000}`: true, `{"n":125000,"c":"euro"}`: true,
	} {
		args, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if s := (Writer{}).Write("t", args, "Pay {n|minor:c}"); s.Amount == "" || s.InUnits != want {
			t.Errorf("%s: %q, in units %t", text, s.Amount, s.InUnits)
		}
	}
}
