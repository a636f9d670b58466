package redact_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// This file fills the holes of shapes with values that are made up: every
// example comes from a seeded generator, and none was ever anybody's.

const (
	lower    = "abcdefghijklmnopqrstuvwxyz"
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits10 = "0123456789"
)

var (
	words   = strings.Fields("orchid lantern harbour copper meadow violet pepper granite willow saffron ember juniper cobalt thistle maple quartz")
	firsts  = strings.Fields("Alice Boris Chidi Dana Emre Fatima Goran Hanna Ines Jonas Kofi Lena")
	lasts   = strings.Fields("Adler Brandt Costa Diallo Evans Fischer Garcia Haddad Ito Jansen")
	domains = strings.Fields("example.com example.org mail.example.net corp.example.co post.example.de uni-x.edu shop24.io")
	hole    = regexp.MustCompile(`«(\w+)(?::(\w+))?»`)
)

// fill puts values into the holes of a shape.
func fill(r *rand.Rand, text string) string {
	return hole.ReplaceAllStringFunc(text, func(h string) string {
		m := hole.FindStringSubmatch(h)
		n, _ := strconv.Atoi(m[2])
		return value(r, m[1], m[2], n)
	})
}

func value(r *rand.Rand, kind, arg string, n int) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	switch kind {
	case "word":
		return pick(words)
	case "Word":
		w := pick(words)
		return strings.ToUpper(w[:1]) + w[1:]
	case "WORD":
		return strings.ToUpper(pick(words))
	case "First":
		return pick(firsts)
	case "Last":
		return pick(lasts)
	case "domain":
		return pick(domains)
	case "local", "LOCAL":
		local := strings.ToLower(pick(firsts))
		switch r.IntN(4) {
		case 0:
			local += "." + strings.ToLower(pick(lasts))
		case 1:
			local += strconv.Itoa(r.IntN(99))
		case 2:
			local = local[:1] + "_" + strings.ToLower(pick(lasts))
		}
		if kind == "LOCAL" {
			return strings.ToUpper(local)
		}
		return local
	case "pw":
		// Passwords as people choose them.
		w := pick(words)
		switch r.IntN(5) {
		case 0:
			return w + strconv.Itoa(10+r.IntN(90))
		case 1:
			return strings.ToUpper(w[:1]) + w[1:] + "!" + strconv.Itoa(r.IntN(999))
		case 2:
			return chars(r, 14, lower+upper+digits10)
		case 3:
			return strings.NewReplacer("e", "3", "a", "4", "o", "0", "i", "1").Replace(w) + "#" + pick(words)
		}
		return "Zz9" + chars(r, 8, lower+digits10+"-_.%!")
	case "d2", "d3", "d4":
		size := int(kind[1] - '0')
		return strconv.Itoa(2+r.IntN(8)) + chars(r, size-1, digits10)
	case "digits":
		return chars(r, n, digits10)
	case "n":
		return strconv.Itoa(r.IntN(n + 1))
	case "n1":
		return strconv.Itoa(1 + r.IntN(n))
	case "hex":
		return chars(r, n, "0123456789abcdef")
	case "b32":
		return chars(r, n, upper+"234567")
	case "b62":
		return chars(r, n, lower+upper+digits10)
	case "b64":
		return chars(r, n, lower+upper+digits10+"+/")
	case "alpha":
		return chars(r, n, lower+upper)
	case "uuid":
		x := chars(r, 32, "0123456789abcdef")
		return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-a" + x[17:20] + "-" + x[20:]
	case "ssn", "ssnspaced", "ssnbare":
		sep := map[string]string{"ssn": "-", "ssnspaced": " "}[kind]
		return fmt.Sprintf("%03d%s%02d%s%04d", 101+r.IntN(500), sep, 1+r.IntN(99), sep, 1+r.IntN(9999))
	case "badluhn":
		return luhn(r, strconv.Itoa(2+r.IntN(8)), n, 1+r.IntN(9))
	case "isbn13":
		return "978-" + chars(r, 1, digits10) + "-" + chars(r, 2, digits10) + "-" + chars(r, 6, digits10) + "-" + chars(r, 1, digits10)
	case "iban", "ibanspaced", "badiban":
		return bankAccount(r, arg, kind)
	}
	return cardNumber(r, kind)
}

func chars(r *rand.Rand, n int, set string) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = set[r.IntN(len(set))]
	}
	return string(out)
}

// luhn is a number of n digits whose Luhn sum is off by off.
func luhn(r *rand.Rand, prefix string, n, off int) string {
	body := prefix + chars(r, n-len(prefix)-1, digits10)
	sum := 0
	for i := range len(body) {
		d := int(body[len(body)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return body + strconv.Itoa((10-sum%10+off)%10)
}

func cardNumber(r *rand.Rand, kind string) string {
	group := func(number, sep string, sizes ...int) string {
		var parts []string
		for _, size := range sizes {
			parts, number = append(parts, number[:size]), number[size:]
		}
		return strings.Join(parts, sep)
	}
	switch kind {
	case "visa":
		return luhn(r, "4", 16, 0)
	case "visa4":
		return group(luhn(r, "4", 16, 0), " ", 4, 4, 4, 4)
	case "visadash":
		return group(luhn(r, "4", 16, 0), "-", 4, 4, 4, 4)
	case "mc":
		return luhn(r, "5"+strconv.Itoa(1+r.IntN(5)), 16, 0)
	case "mcdash":
		return group(luhn(r, "5"+strconv.Itoa(1+r.IntN(5)), 16, 0), "-", 4, 4, 4, 4)
	case "discover":
		return luhn(r, "6011", 16, 0)
	case "imei":
		return luhn(r, "35", 15, 0)
	case "amex":
		return luhn(r, "37", 15, 0)
	case "amex465":
		return group(luhn(r, "37", 15, 0), " ", 4, 6, 5)
	}
	panic("no such hole: " + kind)
}

// bankAccount is an IBAN of a country; the bad one has wrong check digits.
func bankAccount(r *rand.Rand, country, kind string) string {
	length := map[string]int{"DE": 22, "FR": 27, "GB": 22, "NL": 18, "ES": 24, "CH": 21}[country]
	body := ""
	switch country {
	case "GB", "NL":
		body = chars(r, 4, upper)
	}
	body += chars(r, length-4-len(body), digits10)
	sum := 0
	for _, c := range body + country + "00" {
		if c >= 'A' {
			sum = (sum*100 + int(c-'A') + 10) % 97
		} else {
			sum = (sum*10 + int(c-'0')) % 97
		}
	}
	check := 98 - sum
	if kind == "badiban" {
		check = 2 + (check-2+1+r.IntN(90))%97
	}
	out := fmt.Sprintf("%s%02d%s", country, check, body)
	if kind != "ibanspaced" {
		return out
	}
	var parts []string
	for len(out) > 4 {
		parts, out = append(parts, out[:4]), out[4:]
	}
	return strings.Join(append(parts, out), " ")
}
