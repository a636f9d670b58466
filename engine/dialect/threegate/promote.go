package threegate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine/source"
)

// The two approval fields of a document.
const (
	approvedBy  = "approved_by"
	approvedUTC = "approved_utc"
)

// edit replaces the bytes from start to end of a document.
type edit struct {
	start, end int
	text       string
}

// Promote fills in who approved a draft and when, in UTC and whole seconds, and
// changes no other byte. How a value is quoted tells what the draft had in its
// place, so that Demote finds the draft again:
//
//	the draft leaves the key out    a new 'value' in single quotes, after requested_by
//	key: ""                         "value"
//	key:                            two spaces and 'value' after the colon
//
// It returns an error when the draft is not valid, when approvedBy names nobody
// (A1), or when the result would not be valid at the time at.
func Promote(draft []byte, approvedByName string, at time.Time) ([]byte, error) {
	at = at.UTC().Truncate(time.Second)
	if problem := approver(approvedByName); problem != "" {
		return nil, fmt.Errorf("promote a draft: the approver's name cannot be written: %s", problem)
	}
	if strings.ContainsAny(approvedByName, `"\`) {
		return nil, errors.New("promote a draft: the approver's name cannot be written: it holds a double quote or backslash")
	}
	c := examine(draft, at, true)
	if len(c.violations) > 0 {
		return nil, fmt.Errorf("promote a draft: it is not valid: %s", first(c.violations))
	}
	by := c.fill(approvedBy, approvedByName, "requested_by")
	utc := c.fill(approvedUTC, at.Format(utcLayout), "requested_by")
	if by.start == utc.start {
		// Both keys are new and go to one place.
		by.text, utc = by.text+utc.text, edit{}
	}
	promoted := apply(c.src, by, utc)
	if report := Judge(promoted, at); !report.Valid {
		return nil, fmt.Errorf("promote a draft: the result would not be valid: %s", first(report.Violations))
	}
	return promoted, nil
}

func first(violations []Violation) string {
	v := violations[0]
	return fmt.Sprintf("%s, line %d: %s", v.Rule, v.Line, v.Message)
}

// fill is the edit that gives an open approval field its value. A key that is
// left out is put behind the key after.
func (c *checker) fill(key, value, after string) edit {
	n := c.root.Get(key)
	single := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	switch {
	case n == nil:
		at, text := c.place(key, after)
		return edit{at, at, text + single + c.tail()}
	case n.Style == source.Bare:
		return edit{n.Start, n.Start, "  " + single}
	}
	return edit{n.Start, n.End, `"` + value + `"`}
}

// place is where a new key goes, and the text in front of its value.
func (c *checker) place(key, after string) (offset int, text string) {
	previous := c.root.Get(after)
	if c.root.Style == source.Flow {
		return previous.End, ", " + key + ": "
	}
	line := c.number(previous.End) // counted from 1, which is the line after it from 0
	column := c.root.Keys[0].Start - c.starts[c.root.Keys[0].Line-1]
	return c.starts[line], strings.Repeat(" ", column) + key + ": "
}

// tail ends a new key's line.
func (c *checker) tail() string {
	if c.root.Style == source.Flow {
		return ""
	}
	return "\n"
}

// apply makes up to two edits that do not overlap.
func apply(src string, edits ...edit) []byte {
	a, b := edits[0], edits[1]
	if b != (edit{}) && b.start < a.start {
		a, b = b, a
	}
	if b == (edit{}) {
		return []byte(src[:a.start] + a.text + src[a.end:])
	}
	return []byte(src[:a.start] + a.text + src[a.end:b.start] + b.text + src[b.end:])
}

// Demote returns the draft that Promote made a document from, byte for byte. It
// returns an error when no draft promotes to exactly these bytes.
func Demote(promoted []byte) ([]byte, error) {
	c := &checker{lines: cut(string(promoted)), request: &Request{}}
	from, to, _, found := c.frontMatter()
	if found && len(promoted) <= MaxBytes {
		c.root, c.complete = read(&c.lines, from, to, c.add)
	}
	if !c.complete || c.root.Get(approvedBy) == nil || c.root.Get(approvedUTC) == nil {
		return nil, errors.New("demote a document: it has no approval that can be read")
	}
	name, at := c.root.Get(approvedBy).Text, c.root.Get(approvedUTC)
	when, ok := timeOf(at)
	if !ok {
		return nil, errors.New("demote a document: its approved_utc is no time")
	}
	by, utc := c.clear(approvedBy), c.clear(approvedUTC)
	draft := apply(c.src, by, utc)
	again, err := Promote(draft, name, when)
	if err != nil {
		return nil, fmt.Errorf("demote a document: %w", err)
	}
	if string(again) != string(promoted) {
		return nil, errors.New("demote a document: it was not made by promoting a draft")
	}
	return draft, nil
}

// clear is the edit that takes an approval field's value away again.
func (c *checker) clear(key string) edit {
	var k *source.Tree
	for _, k = range c.root.Keys {
		if k.Text == key {
			break
		}
	}
	n := c.root.Get(key)
	switch colon := k.End + len(":"); {
	case n.Style == source.DoubleQuoted:
		return edit{n.Start, n.End, `""`}
	case n.Style == source.SingleQuoted && strings.HasPrefix(c.src[colon:], "  '"):
		return edit{colon, n.End, ""}
	case c.root.Style == source.Flow:
		return edit{max(k.Start-len(", "), 0), n.End, ""}
	}
	line := k.Line - 1
	return edit{c.starts[line], c.starts[min(line+1, len(c.starts)-1)], ""}
}
