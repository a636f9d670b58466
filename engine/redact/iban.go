package redact

// ibanLengths gives the length of each country's IBAN (SWIFT's IBAN registry),
// as the country followed by two digits.
const ibanLengths = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23" +
	"GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15" +
	"OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30"

func ibanLength(country string) int {
	for i := 0; i < len(ibanLengths); i += 4 {
		if ibanLengths[i:i+2] == country {
			return int(ibanLengths[i+2]-'0')*10 + int(ibanLengths[i+3]-'0')
		}
	}
	return 0
}

// iban finds an international bank account number (ISO 13616) that begins at
// start: a country that has them, its length, and check digits that are right.
// One blank or dash may stand between any two characters.
func (s *scanner) iban(start int) {
	t := s.t
	country := string([]byte{t[start] &^ 0x20, t[start+1] &^ 0x20})
	length := ibanLength(country)
	if length == 0 {
		return
	}
	var number [40]byte
	n, i := 0, start
	for ; i < len(t) && n < length; i++ {
		switch c := t[i]; {
		case isAlnum(c):
			if isLetter(c) {
				c &^= 0x20
			}
			number[n] = c
			n++
		case (c == ' ' || c == '-') && n >= 4 && isAlnum(t[i-1]):
		default:
			return
		}
	}
	if n < length || wordAt(t, i) || !isDigit(number[3]) {
		return
	}
	// ISO 7064, MOD 97-10: the first four characters go to the end.
	sum := 0
	for k := range length {
		c := number[(k+4)%length]
		if isDigit(c) {
			sum = (sum*10 + int(c-'0')) % 97
		} else {
			sum = (sum*100 + int(c-'A') + 10) % 97
		}
	}
	if sum == 1 {
		s.add(start, i, IBAN)
		s.digits = max(s.digits, i)
	}
}
