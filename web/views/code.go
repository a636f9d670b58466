package views

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Part classes: what a part of a line of code is.
const (
	keyPart     = "k" // an object's key
	stringPart  = "s" // a string value
	literalPart = "n" // number, true, false, null
	signPart    = "p" // brackets, quotes, colons, commas
	escapePart  = "e" // an escape that stands for a line break or a tab
)

// Part is a piece of a line, of one class.
type Part struct {
	Class string
	Spans []Span
}

// Line is a line of code. A Continued line goes on with the string that the
// line before it did not finish; its break is part of the string's value.
type Line struct {
	Indent    int
	Continued bool
	Class     string // of the line as a whole, or ""
	Parts     []Part
}

// Code is JSON laid out for reading: everything in it is shown, and shown as
// what it is.
type Code struct {
	Lines    []Line
	Warnings Warnings
	// Broken says that the input was not JSON and is shown as plain text.
	Broken bool
}

// maxLines is how many lines are laid out: the markup of one is many times as
// long as the shortest text on it.
const maxLines = 10_000

// JSON lays out canonical JSON, two spaces a level, with the strings
// visible. Keys keep their order and numbers their spelling. What cannot be
// read as JSON is shown as one text, with Broken set. After maxLines lines, or
// maxNamed marks, the rest of the JSON is its own text, on one line and in ASCII.
func JSON(canonical []byte) Code {
	left := maxNamed
	return jsonWithin(canonical, &left, maxLines)
}

// jsonWithin is JSON with at most *left marks spelt out, which it takes off, and at most
// so many lines.
func jsonWithin(canonical []byte, left *int, lines int) Code {
	l := &printer{dec: json.NewDecoder(bytes.NewReader(canonical)), left: left, lines: lines}
	l.dec.UseNumber()
	l.line(false)
	err := l.value("")
	if err == nil {
		if _, err = l.dec.Token(); errors.Is(err, io.EOF) {
			l.rest(canonical)
			return l.code
		}
	}
	l = &printer{code: Code{Broken: true}, left: left, lines: lines}
	l.line(false)
	l.text(stringPart, "the text", string(canonical))
	return l.code
}

type printer struct {
	dec   *json.Decoder
	depth int
	left  *int // marks that may still be spelt out
	lines int  // how many lines there are at the most, nearly
	// cut is from where on the JSON is not laid out, only looked at; 0 for nowhere.
	cut  int64
	code Code
}

func (l *printer) full() bool { return len(l.code.Lines) >= l.lines || *l.left == 0 }

// rest adds the text of the JSON that is not laid out.
func (l *printer) rest(canonical []byte) {
	if l.cut == 0 {
		return
	}
	text := string(canonical[l.cut:])
	l.cut = 0
	l.line(false)
	l.add(textPart,
		Span{Shown: "[FROM HERE ON WITHOUT LAYOUT, ALL BUT ASCII IN ESCAPES]", Mark: Escaped, Count: 1},
		Span{Raw: text, Shown: escape(text, "")})
}

func (l *printer) line(continued bool) {
	if l.cut > 0 {
		return
	}
	l.code.Lines = append(l.code.Lines, Line{Indent: l.depth, Continued: continued})
}

func (l *printer) add(class string, spans ...Span) {
	if l.cut > 0 {
		return
	}
	line := &l.code.Lines[len(l.code.Lines)-1]
	if n := len(line.Parts); n > 0 && line.Parts[n-1].Class == class {
		line.Parts[n-1].Spans = append(line.Parts[n-1].Spans, spans...)
		return
	}
	line.Parts = append(line.Parts, Part{Class: class, Spans: spans})
}

func (l *printer) sign(s string) { l.add(signPart, Span{Raw: s, Shown: s}) }

// value lays out the next value; place is its path for warnings.
func (l *printer) value(place string) error {
	tok, err := l.dec.Token()
	if err != nil {
		return err
	}
	return l.token(tok, place)
}

func (l *printer) token(tok json.Token, place string) error {
	switch t := tok.(type) {
	case json.Delim:
		if t == '{' || t == '[' {
			return l.container(t, place)
		}
		return fmt.Errorf("unexpected %s", t)
	case string:
		l.quoted(stringPart, place, t)
	case json.Number:
		l.add(literalPart, Span{Raw: t.String(), Shown: t.String()})
	case bool:
		l.add(literalPart, Span{Raw: strconv.FormatBool(t), Shown: strconv.FormatBool(t)})
	case nil:
		l.add(literalPart, Span{Raw: "null", Shown: "null"})
	}
	return nil
}

func (l *printer) container(open json.Delim, place string) error {
	end := "}"
	if open == '[' {
		end = "]"
	}
	if !l.dec.More() {
		l.sign(open.String() + end)
		_, err := l.dec.Token()
		return err
	}
	l.sign(open.String())
	l.depth++
	for i := 0; l.dec.More(); i++ {
		if l.cut == 0 && l.full() {
			l.cut = l.dec.InputOffset()
		}
		if i > 0 {
			l.sign(",")
		}
		l.line(false)
		at := place + "[" + strconv.Itoa(i) + "]"
		if open == '{' {
			tok, err := l.dec.Token()
			if err != nil {
				return err
			}
			key, ok := tok.(string)
			if !ok {
				return fmt.Errorf("unexpected %v for a key", tok)
			}
			at = join(place, key)
			l.quoted(keyPart, at, key)
			l.sign(": ")
		}
		if err := l.value(at); err != nil {
			return err
		}
	}
	if _, err := l.dec.Token(); err != nil {
		return err
	}
	l.depth--
	l.line(false)
	l.sign(end)
	return nil
}

func (l *printer) quoted(class, place, text string) {
	l.sign(`"`)
	l.text(class, place, text)
	l.sign(`"`)
}

// text adds a string's content: revealed, with quotes and backslashes escaped
// as in JSON, and broken after each line break.
func (l *printer) text(class, place, text string) {
	spans := markWithin(text, l.left)
	place = cmp.Or(place, "the value")
	l.code.Warnings.Add(place, spans)
	for _, s := range spans {
		if s.Mark != Plain {
			l.add(class, s)
			continue
		}
		for rest := s.Raw; rest != ""; {
			if len(l.code.Lines) >= l.lines {
				l.add(class, Span{Raw: rest, Shown: escaped(rest)})
				break
			}
			i := strings.IndexAny(rest, "\n\t")
			if i < 0 {
				l.add(class, plain(rest))
				break
			}
			if i > 0 {
				l.add(class, plain(rest[:i]))
			}
			if rest[i] == '\t' {
				l.add(escapePart, Span{Raw: "\t", Shown: `\t`})
			} else {
				l.add(escapePart, Span{Raw: "\n", Shown: `\n`})
				l.line(true)
			}
			rest = rest[i+1:]
		}
	}
}

var quote = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func plain(raw string) Span { return Span{Raw: raw, Shown: quote.Replace(raw)} }

// join names the member key of place. A key is cut to what fits a warning.
func join(place, key string) string {
	key = Visible(key)
	if utf8.RuneCountInString(key) > 40 {
		key = string([]rune(key)[:40]) + "…"
	}
	if place == "" {
		return key
	}
	return place + "." + key
}

// Preview cuts code to at most lines lines and about runes shown characters,
// and says how much is left out. Code that fits is returned as it is. The
// warnings stay those of the whole.
func (c Code) Preview(lines, runes int) (cut Code, moreLines, moreRunes int) {
	cut = Code{Warnings: c.Warnings, Broken: c.Broken}
	left, full := runes, false
	for i, line := range c.Lines {
		full = full || i == lines
		kept := Line{Indent: line.Indent, Continued: line.Continued}
		for _, part := range line.Parts {
			p := Part{Class: part.Class}
			for _, s := range part.Spans {
				n := utf8.RuneCountInString(s.Shown)
				switch {
				case full:
					moreRunes += n
				case n > left && s.Mark == Plain:
					head := string([]rune(s.Shown)[:left])
					p.Spans = append(p.Spans, Span{Raw: s.Raw, Shown: head, Differs: s.Differs})
					moreRunes += n - left
					full = true
				case n > left:
					moreRunes += n
					full = true
				default:
					p.Spans = append(p.Spans, s)
					left -= n
				}
			}
			if len(p.Spans) > 0 {
				kept.Parts = append(kept.Parts, p)
			}
		}
		if len(kept.Parts) > 0 {
			cut.Lines = append(cut.Lines, kept)
		} else {
			moreLines++
		}
	}
	return cut, moreLines, moreRunes
}

// Text lays out a text for reading, line by line as an editor counts them, with
// everything in it revealed. No line is dropped, and none is taken for markup.
// After maxLines lines, the rest is on one.
func Text(text string) Code { return lined(text, textPart) }

func lined(text, class string) Code {
	var c Code
	left := maxNamed
	for rest, more := strings.TrimSuffix(text, "\n"), true; more; {
		var line string
		if len(c.Lines) < maxLines {
			line, rest, more = strings.Cut(rest, "\n")
		} else {
			line, more = rest, false
		}
		spans := markWithin(line, &left)
		c.Warnings.Add("the text", spans)
		if strings.Contains(line, "\n") {
			spans = []Span{{Shown: "[THE REST IN ONE LINE, ALL BUT ASCII IN ESCAPES]", Mark: Escaped, Count: 1}, {Raw: line, Shown: escaped(line)}}
		} else if len(spans) == 0 {
			spans = []Span{{}}
		}
		c.Lines = append(c.Lines, Line{Parts: []Part{{Class: class, Spans: spans}}})
	}
	return c
}

// textPart is the class of plain text.
const textPart = "t"
