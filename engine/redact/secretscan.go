package redact

import (
	"math"
	"strings"
)

// trigger tries the rules of a bucket at i. It is false when the budget is used up.
func (s *scanner) trigger(i, bucket int) bool {
	for _, b := range s.d.triggers.buckets[bucket] {
		if !hasFolded(s.t[i:], b.text) {
			continue
		}
		r := &s.d.rules[b.rule]
		if len(r.begins) == 0 {
			s.search(b.rule, i)
		} else if !r.word || !wordAt(s.t, i-1) {
			s.match(r, i)
		}
		if s.budget < 0 {
			return false
		}
	}
	return true
}

// match tries a rule at one place.
func (s *scanner) match(r *rule, at int) {
	end := min(at+r.reach, len(s.t))
	s.budget -= end - at
	if m := r.re.FindStringSubmatchIndex(s.t[at:end]); m != nil {
		s.found(r, at, m)
	}
}

// search tries a rule around one of its keywords. Everything within around/2 of
// the keyword is searched, so that the next keyword needs a look only beyond.
func (s *scanner) search(ruleIndex, at int) {
	var seen *searchedTo
	for i := range s.looked {
		if s.looked[i].rule == ruleIndex {
			seen = &s.looked[i]
		}
	}
	if seen == nil {
		s.looked = append(s.looked, searchedTo{rule: ruleIndex})
		seen = &s.looked[len(s.looked)-1]
	} else if at < seen.end {
		return
	}
	seen.end = at + around/2
	start, end := max(at-around, 0), min(at+around, len(s.t))
	s.budget -= end - start
	r := &s.d.rules[ruleIndex]
	for _, m := range r.re.FindAllStringSubmatchIndex(s.t[start:end], -1) {
		s.found(r, start, m)
	}
}

// found judges what a rule's expression matched; m holds offsets from base.
func (s *scanner) found(r *rule, base int, m []int) {
	start, end := m[0], m[1]
	if r.group > 0 {
		start, end = m[2*r.group], m[2*r.group+1]
	} else {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && m[g] < m[g+1] {
				start, end = m[g], m[g+1]
				break
			}
		}
	}
	if start < 0 {
		return
	}
	secret := s.t[base+start : base+end]
	switch {
	case isPlaceholder(secret), mostlyOneByte(secret):
	case r.entropy > 0 && entropy(secret) < r.entropy:
	case r.check != nil && !r.check(secret):
	default:
		s.add(base+start, base+end, r.tag)
	}
}

// entropy is Shannon's, in bits for each byte.
func entropy(s string) float64 {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// mostlyOneByte reports whether more than half of s is one character, as in
// AKIAXXXXXXXXXXXXXXXX.
func mostlyOneByte(s string) bool {
	var counts [256]int
	for i := range len(s) {
		if counts[s[i]]++; counts[s[i]]*2 > len(s) {
			return true
		}
	}
	return false
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// keyLike tells a key from words with dashes between them: some part of it is
// long, or it mixes letters and digits all along.
func keyLike(s string) bool {
	for part := range strings.FieldsFuncSeq(s[len("sk-"):], func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= 16 || len(part) >= 8 && hasDigit(part) {
			return true
		}
	}
	return false
}

const pemBegin = "-----BEGIN "

// pemReach bounds a PEM block; the largest keys in use take a quarter of it.
const pemReach = 32 << 10

// pem finds a private key's block (RFC 7468), be its lines broken really or by
// \n in a string. A block without an end is a secret up to the last byte that
// may be part of one.
func (s *scanner) pem(at int) {
	rest := s.t[at:min(at+pemReach, len(s.t))]
	label := rest[len(pemBegin):]
	stop := strings.Index(label[:min(len(label), 100)], "-----")
	if stop < 0 || !strings.Contains(label[:stop], "PRIVATE KEY") {
		return
	}
	body := len(pemBegin) + stop + len("-----")
	end, least := strings.Index(rest[body:], "-----END "), 40
	if end >= 0 {
		least = 0
		if inside := strings.Trim(strings.NewReplacer(`\r`, "", `\n`, "").Replace(rest[body:body+end]), " \r\n\t\\"); inside == "" || isHole(inside) {
			return // it tells of a key
		}
		end += body + len("-----END ")
		if tail := strings.Index(rest[end:min(len(rest), end+100)], "-----"); tail >= 0 {
			end += tail + len("-----")
		}
	} else {
		end = run(rest, body, len(rest), func(c byte) bool {
			return isAlnum(c) || isSpace(c) || strings.IndexByte(`+/=\-:,`, c) >= 0
		})
	}
	s.pemEnd = at + end
	if end-body > least {
		s.add(at, at+end, "secret.credential.private-key")
	}
}

// databases are the schemes of database and queue URLs.
const databases = " postgres postgresql mysql mariadb mongodb mongodb+srv redis rediss amqp amqps mssql sqlserver oracle clickhouse cockroachdb cassandra neo4j jdbc nats "

// url finds the password of scheme://user:password@host. at is the colon.
func (s *scanner) url(at int) {
	begin := at
	for begin > 0 && at-begin < 20 && (isAlnum(s.t[begin-1]) || strings.IndexByte("+.-", s.t[begin-1]) >= 0) {
		begin--
	}
	start := at + len("://")
	end := run(s.t, start, start+512, func(c byte) bool { return !isSpace(c) && strings.IndexByte("/\"'<>`\\", c) < 0 })
	authority := s.t[start:end]
	host := strings.LastIndexByte(authority, '@')
	if begin == at || host < 0 {
		return
	}
	colon := strings.IndexByte(authority[:host], ':')
	if colon < 0 || strings.ContainsAny(authority[:colon], "?#&=") {
		return
	}
	s.notMail = start + host
	password := authority[colon+1 : host]
	if password == "" || isHole(password) || strings.Trim(password, "*x.") == "" { // here a word is a password
		return
	}
	tag := "secret.credential.url"
	if strings.Contains(databases, " "+strings.ToLower(s.t[begin:at])+" ") {
		tag = "secret.credential.database-url"
	}
	s.add(start+colon+1, start+host, tag)
}
