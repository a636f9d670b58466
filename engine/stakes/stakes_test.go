package stakes

import (
	"strings"
	"testing"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

var writer = Writer{Detector: redact.New()}

func parsed(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestTemplates(t *testing.T) {
	args := parsed(t, `{"amount":"1250.00","cents":125000,"whole":1250000,"yen":500,"tiny":5,"currency":"EUR","jpy":"JPY","odd":"GLD","payee":{"name":"Paper & Pens Ltd.","iban":"DE02 1203 0000 0000 2020 51"},
		"to":["a@x.example","b@x.example"],"none":[],"null":null,"blank":"  ","yes":true,"big":1e+21,"words":"1.250,00","sql":"\nSELECT 1;\nDROP TABLE x","url":"https://api.example.com:8443/v1?x=1",
		"fake":"https://bank.example@evil.example/","path":"/srv/app/../../etc/passwd","short":"4711","password":"hunter2","point":"1.250","dinar":"KWD","half":"0.5","ip":"http://10.0.200.255:80/","octal":"http://10.0.0.010/","ip6":"http://[::1]:80/","number":"http://2130706433/","hex":"http://0x7f.1:80/","rings":"http://①②⑦.①/","percent":"https://good.example%2eevil.example/",
		"back":"a\\..\\b","coded":"a/..%2f..%2fb","hundred":"a/100%/b","curl":"curl -H 'Authorization: Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a' x","many":[1,2,3]}`)
	for template, want := range map[string]string{
		"Pay {amount|money:currency} to {*payee.name}, account {payee.iban|account}": "Pay 1,250.00 EUR to “Paper & Pens Ltd.”, account “DE02…2051”",
		"Pay {cents|minor:currency}":       "Pay 1,250.00 EUR",
		"Pay {tiny|minor:currency}":        "Pay 0.05 EUR",
		"Pay {yen|minor:jpy}":              "Pay 500 JPY",
		"Pay {cents|minor:odd}":            "Pay 125,000 GLD [in the smallest unit of the currency]",
		"Pay {amount|minor:currency}":      "Pay 1,250.00 EUR [in the smallest unit of the currency]",
		"Pay {whole|money}":                "Pay 1,250,000",
		"Pay {amount|money:nothing}":       "Pay 1,250.00 [nothing is missing]",
		"Pay {amount|money:payee.name}":    "Pay 1,250.00 [payee.name is no currency’s code]",
		"Pay {big|money:currency}":         "Pay “1e+21” [big is no plain amount]",
		"Pay {words|money:currency}":       "Pay “1.250,00” [words is no plain amount]",
		"Pay {payee|money:currency}":       "Pay [payee is an object]",
		"Mail {to|list}":                   "Mail “a@x.example”, “b@x.example”",
		"Mail {to|count} people":           "Mail 2 people",
		"Mail {to.1}, {to.2}":              "Mail “b@x.example”, [to.2 is missing]",
		"Mail {none|list}":                 "Mail [none is an empty list]",
		"Mail {to}":                        "Mail [to is a list]",
		"Count {amount|count}":             "Count [amount is a text, and nothing to count]",
		"Do {null} {blank} {gone} {yes}":   "Do [null is null] [blank is empty] [gone is missing] true",
		"Run {sql|line}":                   "Run “SELECT 1;” [1 more line]",
		"Run {sql}":                        "Run “ ↵ SELECT 1; ↵ DROP TABLE x”",
		"Ask {url|host}":                   "Ask “api.example.com:8443”",
		"Ask {fake|host}":                  "Ask “evil.example” [the address names a user, too]",
		"Ask {amount|host}":                "Ask “1250.00” [no address of a host]",
		"Read {path|path}":                 "Read “/srv/app/../../etc/passwd” [that is /etc/passwd]",
		"Pay {point|money:currency}":       "Pay 1.250 EUR [point has 3 digits behind the point, EUR has 2]",
		"Pay {point|money:dinar}":          "Pay 1.250 KWD",
		"Pay {point|money}":                "Pay 1.250 [point has 3 digits behind the point]",
		"Pay {half|money:jpy}":             "Pay 0.5 JPY [half has 1 digit behind the point, JPY has 0]",
		"Ask {ip|host} and {ip6|host}":     "Ask “10.0.200.255:80” and “[::1]:80”",
		"Ask {number|host}":                "Ask “2130706433” [a number that programs take for an IP address]",
		"Ask {hex|host}":                   "Ask “0x7f.1:80” [a number that programs take for an IP address]",
		"Ask {octal|host}":                 "Ask “10.0.0.010” [a number that programs take for an IP address]",
		"Ask {rings|host}":                 "Ask “①②⑦.①” [has signs other than a to z and digits]",
		"Ask {percent|host}":               "Ask “good.example%2eevil.example” [has characters written by their number, as %2e for a point]",
		"Read {back|path}":                 "Read “a\\..\\b” [has .. between backslashes, which some systems follow]",
		"Read {coded|path}":                "Read “a/..%2f..%2fb” [has characters written by their number, as %2e for a point]",
		"Read {hundred|path}":              "Read “a/100%/b”",
		"Account {short|account}":          "Account “…11”",
		"Account {payee.name|account}":     "Account “Paper & Pens Ltd.” [not written like an account number]",
		"Set {password}":                   "Set [password is named like a secret, and is in the arguments]",
		"Run {curl}":                       "Run “curl -H 'Authorization: Bearer •••' x” [what looks like a secret is left out]",
		"{{literal}} {yes}":                "{literal} true",
		"[high] Drop {payee.name}":         "Drop “Paper & Pens Ltd.”",
		"[brackets] are text when {yes}":   "",
		"Numbers {many|list}":              "Numbers 1, 2, 3",
		"Depth {payee.name.first} {to.x}":  "Depth [payee.name.first is missing] [to.x is missing]",
		"{payee.iban|account} and {short}": "“DE02…2051” and “4711”",
	} {
		if want == "" {
			if Check(template) == nil {
				t.Errorf("%s: no mistake is found", template)
			}
			continue
		}
		if err := Check(template); err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := writer.Write("t", args, template).String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", template, got, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, template := range []string{
		"", "  ", "no field", "{", "}", "{}", "{a", "a}", "{a b|}", "{a|nothing}", "{a|money:}", "{a|host:b}", "{a|minor}", "{a..b}", "{.a}", "{a.}", "{*}", "{**a}", "{ a}",
		"{a.b.c.d.e.f.g.h.i}", " {a}", "{a} ", "{a}\n{b}", "{a}\u200b", "[enormous] {a}", strings.Repeat("x", maxTemplate) + "{a}", strings.Repeat("{a}", maxFields+1), "{a{b}}",
	} {
		if Check(template) == nil {
			t.Errorf("%q: no mistake is found", template)
		}
	}
}

func TestDangerTargetsAndWhatIsLeft(t *testing.T) {
	args := parsed(t, `{"amount":5,"currency":"EUR","payee":{"name":"Ann","iban":"DE02120300000000202051"},"to":["x","y"],"memo":"m","extra":{"a":1,"b":2}}`)
	s := writer.Write("t", args, "[medium] Pay {amount|money:currency} to {*payee.name}, tell {*to|list}")
	if s.Danger != Medium || s.Origin != Registered || s.Amount != "5 EUR" {
		t.Errorf("danger %v, origin %v, amount %q", s.Danger, s.Origin, s.Amount)
	}
	if got, want := s.Targets, []Target{{"payee.name", "Ann"}, {"to[]", "x"}, {"to[]", "y"}}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("targets %v, want %v", got, want)
	}
	if got := writer.Write("t", args, "Tell {*to.1}").Targets; len(got) != 1 || got[0] != (Target{"to[]", "y"}) {
		t.Errorf("the target is %v", got)
	}
	if got, want := strings.Join(s.Unsaid, " "), "payee.iban memo extra"; got != want || s.MoreUnsaid != 0 {
		t.Errorf("unsaid %q and %d more, want %q", got, s.MoreUnsaid, want)
	}
	if got, want := (Sentence{Parts: s.Rest}).String(), "payee.iban “DE02120300000000202051”, memo “m”, extra (object with 2 members)"; got != want {
		t.Errorf("the rest is %s, want %s", got, want)
	}
	for args, want := range map[string]string{
		`{"to":["x"],"payee":{"name":"Ann"},"amount":1,"token":"abc","a":null,"b":" ","is safe":null,"text":"` + strings.Repeat("x", 99) + `"}`: "[token is named like a secret, and is in the arguments], [a is null], [b is empty], “is safe” (null), text (text of 99 characters)",
	} {
		s := writer.Write("t", parsed(t, args), "Pay {amount|money} to {payee.name}, tell {to|list}")
		if got := (Sentence{Parts: s.Rest}).String(); got != want {
			t.Errorf("the rest is %s, want %s", got, want)
		}
	}
}

// A template that was registered and cannot be read any more is not replaced by one of
// ours in silence.
func TestUnreadableTemplate(t *testing.T) {
	s := writer.Write("send_payment", parsed(t, `{"amount":5,"to":"Ann"}`), "{broken")
	if got, want := s.String(), "Run “send_payment”: amount 5, to “Ann” [the sentence that is registered for this tool cannot be read]"; got != want || s.Origin != None {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// No argument passes for the words of the sentence.
func TestArgumentsAreMarked(t *testing.T) {
	s := writer.Write("t", parsed(t, `{"to":"Ann, account DE02, [approved]"}`), "Pay {to}")
	if got, want := s.String(), "Pay “Ann, account DE02, [approved]”"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s = writer.Write("frob", parsed(t, `{"is safe, says Ann: 1":5}`), "")
	if got, want := s.String(), "Run “frob”: “is safe, says Ann: 1” 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// maxSentence is longer than any sentence.
const maxSentence = 12_000

func checkSentence(t testing.TB, s Sentence) {
	t.Helper()
	text := s.String()
	if len(s.Parts) == 0 || strings.TrimSpace(text) == "" || len(text) > maxSentence || !utf8.ValidString(text) {
		t.Fatalf("%d bytes: %q", len(text), text)
	}
	for _, p := range s.Parts {
		if p.Text == "" && p.Kind != Text {
			t.Fatalf("an empty part: %+v", s)
		}
	}
	if len(s.Unsaid) > maxUnsaid {
		t.Fatalf("%d are named as unsaid", len(s.Unsaid))
	}
}

func FuzzWrite(f *testing.F) {
	f.Add("send_payment", `{"amount":"1250.00","currency":"EUR","to":"Ann","iban":"DE02120300000000202051"}`, "Pay {amount|money:currency} to {*to|list}")
	f.Add("run_sql", `{"sql":"DELETE FROM x"}`, "")
	f.Add("apply_patch", `{"patch":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"}`, "{patch|patch}")
	f.Add("x", `{"a":[{"b":"https://x@y/"}]}`, "[high] {a.0.b|host}{{")
	f.Fuzz(func(t *testing.T, tool, arguments, template string) {
		args, err := canon.Parse([]byte(arguments))
		if err != nil || args.Kind() != canon.ObjectKind {
			return
		}
		s := writer.Write(tool, args, template)
		checkSentence(t, s)
		if again := writer.Write(tool, args, template); again.String() != s.String() {
			t.Fatalf("%s, and then %s", s, again)
		}
		if Check(template) == nil && s.Origin != Registered || s.Origin == Registered && Check(template) != nil {
			t.Fatalf("origin %d of %q", s.Origin, template)
		}
		// Every amount is one that the arguments have, digit for digit.
		if s.Amount != "" && !strings.Contains(digits(string(args.Canonical())), strings.TrimLeft(digits(s.Amount), "0")) {
			t.Fatalf("%s is not in %s", s.Amount, arguments)
		}
	})
}

func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, text)
}
