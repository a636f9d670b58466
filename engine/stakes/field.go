package stakes

import (
	"path"
	"regexp"
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
		s.addTarget(placeName(args, p.place), v)
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

// addTarget remembers whom or what the call is about.
func (s *draft) addTarget(place string, v canon.Value) {
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
		note = pathNote(text)
	}
	if format == "account" {
		s.Parts = append(s.Parts, Part{Kind: Text, Text: shown, Place: place})
	} else {
		s.addText(place, shown)
	}
	if note != "" {
		s.note(place, " ", note)
	}
}

// Bounds of a text that is too long, in characters: how much of its beginning and of its end
// is shown, and what a run of blanks counts.
const (
	maxHead = 80
	maxTail = maxText - maxHead
	maxRun  = 10
)

// blanks are a run of them behind which something may hide.
var blanks = regexp.MustCompile(`[ \t\r\n]{8,}`)

// run is a text, and the blanks behind it.
type run struct {
	text   string
	blanks int
}

// addText adds a text on one line, without what looks like a secret in it. A run of blanks is
// told by its length, and of a long text both ends are shown: nothing hides behind the
// one, nor at the other.
func (s *draft) addText(place, text string) {
	text, rest, masked := clean(s.detector, text)
	var runs []run
	from, cost, length := 0, 0, rest
	for _, at := range append(blanks.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		r := run{oneLine.Replace(text[from:at[0]]), at[1] - at[0]}
		runs, from = append(runs, r), at[1]
		length += utf8.RuneCountInString(r.text) + r.blanks
		cost += utf8.RuneCountInString(r.text) + min(r.blanks, maxRun)
	}
	if cost <= maxText && rest == 0 {
		s.runs(place, runs)
	} else {
		s.ends(place, runs, length, rest == 0)
	}
	if masked {
		s.note(place, " ", "what looks like a secret is left out")
	}
}

// runs adds a text as it is.
func (s *draft) runs(place string, runs []run) {
	for i, r := range runs {
		if r.text != "" || len(runs) == 1 {
			if i > 0 {
				s.Parts = append(s.Parts, Part{Text: " "})
			}
			s.Parts = append(s.Parts, Part{Kind: Text, Text: r.text, Place: place})
		}
		if r.blanks > 0 {
			s.note(place, " ", counted(r.blanks, "blank", "blanks"))
		}
	}
}

// ends adds the beginning of a long text, and its end, where that is known, and says how
// much is between them.
func (s *draft) ends(place string, runs []run, length int, known bool) {
	var head, tail []run
	room, shown := maxHead, 0
	for i := 0; i < len(runs) && room > 0; i++ {
		text, more := cut(runs[i].text, room)
		r := run{text, 0}
		shown += utf8.RuneCountInString(text)
		if room -= utf8.RuneCountInString(text); more == 0 && room > maxRun {
			r.blanks = runs[i].blanks
			shown, room = shown+r.blanks, room-min(r.blanks, maxRun)
		} else {
			room = 0
		}
		head = append(head, r)
	}
	if last := []rune(runs[len(runs)-1].text); known && length-shown > maxTail {
		text := string(last[max(0, len(last)-maxTail):])
		tail, shown = []run{{text: text}}, shown+utf8.RuneCountInString(text)
	}
	s.runs(place, head)
	s.note(place, " ", counted(length-shown, "more character", "more characters"))
	if len(tail) > 0 && tail[0].text != "" {
		s.Parts = append(s.Parts, Part{Text: " "})
		s.runs(place, tail)
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
	text, rest, masked := clean(detector, text)
	shown, more = cut(text, limit)
	return oneLine.Replace(shown), more + rest, masked
}

// clean is a text without what looks like a secret in it, and how many characters come
// behind it that nobody has looked through.
func clean(detector *redact.Detector, text string) (shown string, rest int, masked bool) {
	head := text
	if len(text) > maxScanned {
		head = strings.ToValidUTF8(text[:maxScanned], "")
		rest = utf8.RuneCountInString(text[len(head):])
	}
	var found []redact.Span
	if detector != nil {
		found = slices.DeleteFunc(detector.Find(head), func(f redact.Span) bool { return !redact.Secret(f.Tag) })
	}
	for _, f := range slices.Backward(redact.Merge(head, found)) {
		head = head[:f.Start] + "•••" + head[f.End:]
	}
	return head, rest, len(found) > 0
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

// escaped is a character that is written by its number, as in addresses.
var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// pathNote is what is to be said of a path: where it leads, or that programs differ about that.
func pathNote(text string) string {
	switch clean := path.Clean(text); {
	case escaped.MatchString(text):
		return "has characters written by their number, as %2e for a point"
	case strings.Contains(text, `..\`) || strings.Contains(text, `\..`):
		return "has .. between backslashes, which some systems follow"
	case clean != strings.TrimSuffix(text, "/") && strings.Contains(text, ".."):
		return "that is " + short(clean, maxName)
	}
	return ""
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
		return name, hostNote(name)
	}
}

// quad is an IPv4 address as everybody writes it.
var quad = regexp.MustCompile(`\A(?:(?:[1-9]?[0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])(?:\.|\z)){4}\z`)

// numeric is the last label of a host that programs take for an IPv4 address, however it is
// written: 2130706433, 0x7f.1 and 127.0.0.1 are one.
var numeric = regexp.MustCompile(`(?i)(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\.?\z`)

// hostNote is what is to be said of a host, with or without its port, that is not what it
// looks like to everybody.
func hostNote(host string) string {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	switch {
	case strings.Contains(name, "%") && !strings.HasPrefix(name, "["):
		return "has characters written by their number, as %2e for a point"
	case strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "has signs other than a to z and digits"
	case numeric.MatchString(name) && !quad.MatchString(name):
		return "a number that programs take for an IP address"
	}
	return ""
}

// line is the first line that is not blank, and how many more there are.
func line(text string) (shown, note string) {
	lines := strings.Split(strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n \t"), "\n")
	if n := len(lines) - 1; n > 0 {
		note = counted(n, "more line", "more lines")
	}
	return strings.TrimSpace(lines[0]), note
}
