package stakes

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// Bounds of what a field shows, in characters.
const (
	maxText = 120
	maxName = 60
	// maxScanned bounds, in bytes, a text that is looked through for secrets: a longer
	// one is cut first.
	maxScanned = 16 << 10
)

// field adds what a field says.
func (s *draft) field(p piece, args canon.Value) {
	place := strings.Join(p.place, ".")
	v, there := at(args, p.place)
	absent := ""
	switch {
	case !there:
		absent = place + " is missing"
	case v.IsNull():
		absent = place + " is null"
	case v.Kind() == canon.StringKind && strings.TrimSpace(v.Str()) == "":
		absent = place + " is empty"
	case NamesSecret(p.place[len(p.place)-1]):
		absent = place + " is named like a secret, and is in the arguments"
	}
	if absent != "" {
		s.note(place, "", absent)
		return
	}
	if p.target {
		s.aim(spot(args, p.place), v)
	}
	from := len(s.Parts)
	switch p.format {
	case "money", "minor":
		s.money(p, args, v)
	case "count":
		s.count(place, v)
	case "list":
		s.list(place, v)
	case "patch":
		if v.Kind() != canon.StringKind {
			s.note(place, "", place+" is "+kindWords[v.Kind()])
			break
		}
		s.patch(place, v.Str())
	default:
		s.scalar(place, p.format, v)
	}
	for i := range s.Parts[from:] {
		s.Parts[from+i].Target = p.target && s.Parts[from+i].Kind != Note
	}
}

// aim remembers whom or what the call is about.
func (s *draft) aim(place string, v canon.Value) {
	if v.Kind() == canon.StringKind {
		s.Targets = append(s.Targets, Target{Place: place, Value: v.Str()})
	}
	for _, each := range v.Elements() {
		if each.Kind() == canon.StringKind {
			s.Targets = append(s.Targets, Target{Place: place + "[]", Value: each.Str()})
		}
	}
}

// scalar adds a text, a number or a truth.
func (s *draft) scalar(place, format string, v canon.Value) {
	switch v.Kind() {
	case canon.StringKind:
		s.text(place, format, v.Str())
	case canon.NumberKind, canon.BoolKind:
		s.Parts = append(s.Parts, Part{Kind: Exact, Text: string(v.Canonical()), Place: place})
	default:
		s.note(place, "", place+" is "+kindWords[v.Kind()])
	}
}

var kindWords = map[canon.Kind]string{
	canon.NullKind: "null", canon.BoolKind: "true or false", canon.NumberKind: "a number", canon.StringKind: "a text",
	canon.ArrayKind: "a list", canon.ObjectKind: "an object",
}

// text adds a text by its format.
func (s *draft) text(place, format, text string) {
	shown, note := text, ""
	switch format {
	case "account":
		shown, note = account(text)
	case "host":
		shown, note = host(text)
	case "line":
		shown, note = line(text)
	case "path":
		if clean := path.Clean(text); clean != strings.TrimSuffix(text, "/") && strings.Contains(text, "..") {
			note = "that is " + short(clean, maxName)
		}
	}
	more, masked := 0, false
	if format != "account" {
		shown, more, masked = beginning(s.detector, shown, maxText)
	}
	s.Parts = append(s.Parts, Part{Kind: Text, Text: shown, Place: place})
	if masked {
		s.note(place, " ", "what looks like a secret is left out")
	}
	if more > 0 {
		s.note(place, " ", counted(more, "more character", "more characters"))
	}
	if note != "" {
		s.note(place, " ", note)
	}
}

// Beginning is so many first characters of a text, on one line and without what looks
// like a secret in it, and a sign that there are more.
func (w Writer) Beginning(text string, limit int) string {
	shown, more, _ := beginning(w.Detector, text, limit)
	if more > 0 {
		shown += "…"
	}
	return shown
}

// beginning is the beginning of a text on one line, without what looks like a secret
// in it, and how many characters are behind it.
func beginning(detector *redact.Detector, text string, limit int) (shown string, more int, masked bool) {
	head, rest := text, ""
	if len(text) > maxScanned {
		head = strings.ToValidUTF8(text[:maxScanned], "")
		rest = text[len(head):]
	}
	var found []redact.Span
	if detector != nil {
		found = slices.DeleteFunc(detector.Find(head), func(f redact.Span) bool { return !redact.Secret(f.Tag) })
	}
	for _, f := range slices.Backward(redact.Merge(head, found)) {
		head = head[:f.Start] + "•••" + head[f.End:]
	}
	shown, more = cut(head, limit)
	return oneLine.Replace(shown), more + utf8.RuneCountInString(rest), len(found) > 0
}

var oneLine = strings.NewReplacer("\r\n", " ↵ ", "\n", " ↵ ", "\t", " ")

// secretNames are the words that say, in a member's name, that its value is a secret.
var secretNames = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "credential", "authorization", "cookie"}

// NamesSecret reports whether a member's name says that its value is a secret.
func NamesSecret(name string) bool {
	bare := strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(secretNames, func(word string) bool { return strings.Contains(bare, word) })
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(strconv.Itoa(n)) + " " + many
}

// count adds how many elements or members there are.
func (s *draft) count(place string, v canon.Value) {
	if v.Kind() != canon.ArrayKind && v.Kind() != canon.ObjectKind {
		s.note(place, "", place+" is "+kindWords[v.Kind()]+", and nothing to count")
		return
	}
	s.Parts = append(s.Parts, Part{Kind: Exact, Text: grouped(strconv.Itoa(v.Len())), Place: place})
}

// list adds the first elements of an array, as many as there is room for. A single
// text or number is a list of one.
func (s *draft) list(place string, v canon.Value) {
	switch {
	case v.Kind() == canon.ObjectKind:
		s.note(place, "", place+" is an object")
		return
	case v.Kind() != canon.ArrayKind:
		s.scalar(place, "", v)
		return
	case v.Len() == 0:
		s.note(place, "", place+" is an empty list")
		return
	}
	room := maxText
	for i, each := range v.Elements() {
		if i > 0 && room <= 0 {
			s.note(place, " ", counted(v.Len()-i, "more", "more"))
			return
		}
		if i > 0 {
			s.Parts = append(s.Parts, Part{Text: ", "})
		}
		from := len(s.Parts)
		s.scalar(place+"."+strconv.Itoa(i), "", each)
		for _, p := range s.Parts[from:] {
			room -= len(p.Text) + 2
		}
	}
}

// account is an account number without its middle. What is written in other signs
// than those of account numbers stays as it is.
func account(text string) (shown, note string) {
	bare := strings.NewReplacer(" ", "", "-", "").Replace(text)
	other := strings.ContainsFunc(bare, func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') })
	switch n := len(bare); {
	case other || n > 40:
		return short(text, maxText), "not written like an account number"
	case n >= 12:
		return bare[:4] + "…" + bare[n-4:], ""
	case n >= 8:
		return "…" + bare[n-4:], ""
	}
	return "…" + bare[len(bare)-min(2, len(bare)):], ""
}

// host is the host of an address, with its port.
func host(text string) (shown, note string) {
	scheme, rest, found := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	switch name := rest[at+1 : end]; {
	case !found || name == "" || strings.ContainsAny(scheme, "/?#@:") || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' }):
		return text, "no address of a host"
	case at >= 0:
		return name, "the address names a user, too"
	default:
		return name, ""
	}
}

// line is the first line that is not blank, and how many more there are.
func line(text string) (shown, note string) {
	lines := strings.Split(strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n \t"), "\n")
	if n := len(lines) - 1; n > 0 {
		note = counted(n, "more line", "more lines")
	}
	return strings.TrimSpace(lines[0]), note
}
