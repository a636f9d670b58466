package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// compiler turns a document into a bundle and reports what is wrong with it.
// It goes on after every problem.
type compiler struct {
	*reporter
	options Options
	// misspelt are the paths of fields that were reported in the place of a missing one.
	misspelt map[string]bool
}

// fail reports a problem at n.
func (c *compiler) fail(n source.Node, code, message, hint string) {
	c.report(n.Problem(code, message, hint), false)
}

// warn reports what does not keep the bundle from being loaded.
func (c *compiler) warn(n source.Node, code, message, hint string) {
	c.report(n.Problem(code, message, hint), true)
}

// need is the member of this name, or a problem: one, where the name is misspelt.
func (c *compiler) need(n source.Node, name string) (source.Node, bool) {
	m, ok := n.Get(name)
	if ok {
		return m, true
	}
	for other := range n.Members() {
		if misspells(other.Name, name) {
			c.report(other.KeyProblem("missing", "the field "+strconv.Quote(name)+" is missing, and there is no field "+quote(other.Name), "did you mean "+strconv.Quote(name)+"?"), false)
			if c.misspelt == nil {
				c.misspelt = map[string]bool{}
			}
			c.misspelt[other.Path] = true
			return m, false
		}
	}
	c.fail(n, "missing", "the field "+strconv.Quote(name)+" is missing", "")
	return m, false
}

// bundleFields are those of a bundle beside its rules.
var bundleFields = []string{"version", "generated_at", "expires_at", "rules", "defaults", "signature", "signed_by"}

// misspells reports whether a field that bundles do not have is probably another one, misspelt.
func misspells(text, field string) bool {
	known := slices.Contains(ruleFields, text) || slices.Contains(matchFields, text) || slices.Contains(bundleFields, text)
	return !known && (len(field) > 3 || strings.EqualFold(text, field)) && source.Nearest(text, []string{field}) != ""
}

// text reads a string, or reports that it is none.
func (c *compiler) text(n source.Node, name string) (string, bool) {
	if n.Value.Kind() != canon.StringKind {
		c.wrongKind(n, name, "a string")
		return "", false
	}
	return n.Value.Str(), true
}

// wrongKind reports a value of another kind than wanted. In YAML nearly all of
// them are words that YAML does not take for text.
func (c *compiler) wrongKind(n source.Node, name, want string) {
	hint := ""
	if want == "a string" {
		switch n.Value.Kind() {
		case canon.NumberKind, canon.BoolKind, canon.NullKind:
			hint = "put it in quotes"
		default:
		}
	}
	c.fail(n, "type", fmt.Sprintf("%s has to be %s, it is %s", name, want, article(n.Value.Kind())), hint)
}

func article(k canon.Kind) string {
	switch k {
	case canon.NullKind:
		return "null"
	case canon.ArrayKind, canon.ObjectKind:
		return "an " + k.String()
	default:
		return "a " + k.String()
	}
}

// texts reads an array of strings, or reports every element that is none.
func (c *compiler) texts(n source.Node, name string) []string {
	if n.Value.Kind() != canon.ArrayKind {
		c.wrongKind(n, name, "an array of strings")
		return nil
	}
	list := make([]string, 0, n.Value.Len())
	for i := range n.Value.Len() {
		s, _ := c.text(n.Element(i), name+"["+strconv.Itoa(i)+"]")
		list = append(list, s)
	}
	return list
}

// compile reads the whole bundle. One that is too deep is not looked at: later
// code may recurse.
func compile(root source.Node, o Options, r *reporter) (*Bundle, []Problem) {
	c := &compiler{reporter: r, options: o}
	if root.Value.Kind() != canon.ObjectKind {
		c.wrongKind(root, "a bundle", "an object")
		return nil, r.list()
	}
	b := &Bundle{file: o.File, judgedAt: o.Now}
	if deep, ok := root.Deeper(MaxDepth); ok {
		c.fail(deep, canon.TooDeep, "more than "+strconv.Itoa(MaxDepth)+" arrays and objects are inside each other", "")
	} else {
		c.header(root, b)
		c.rules(root, b)
		c.signature(root, b)
		b.Digest = digestOf(root.Value)
		c.signers(root, b)
	}
	problems := r.list()
	if r.errors > 0 {
		return nil, problems
	}
	b.index = newIndex(b.rules)
	return b, problems
}

// outcomes is what a rule may decide.
var outcomes = []engine.Outcome{
	engine.Allow, engine.Deny, engine.RequireApproval, engine.RequireStepUp, engine.RequireTicket, engine.RequireHuman,
}

func (c *compiler) outcome(n source.Node, name string) engine.Outcome {
	text, ok := c.text(n, name)
	if !ok {
		return ""
	}
	o := engine.Outcome(text)
	if !slices.Contains(outcomes, o) {
		names := make([]string, len(outcomes))
		for i, known := range outcomes {
			names[i] = string(known)
		}
		hint := "use one of " + strings.Join(names, ", ")
		if upper := engine.Outcome(strings.ToUpper(text)); slices.Contains(outcomes, upper) {
			hint = "write " + string(upper)
		}
		c.fail(n, "unknown_outcome", name+" "+quote(text)+" is not an outcome that a policy can decide", hint)
		return ""
	}
	return o
}

// header reads everything but the rules.
func (c *compiler) header(root source.Node, b *Bundle) {
	if n, ok := c.need(root, "version"); ok {
		if text, ok := c.text(n, "version"); ok && text == "" {
			c.fail(n, "empty", "version must not be empty", "")
		} else if ok {
			b.Version = text
		}
	}
	generated, okGenerated := c.moment(root, "generated_at")
	expires, okExpires := c.moment(root, "expires_at")
	b.GeneratedAt, b.ExpiresAt = generated, expires
	if n, _ := root.Get("expires_at"); okExpires {
		if okGenerated && !generated.Before(expires) {
			c.fail(n, "dates", "expires_at is not after generated_at", "")
		} else if !c.options.Now.IsZero() && !c.options.Now.Before(expires) {
			c.fail(n, "expired", "the bundle has expired", "generate it anew with a later expires_at")
		}
	}
	if n, ok := c.need(root, "defaults"); ok {
		if n.Value.Kind() != canon.ObjectKind {
			c.wrongKind(n, "defaults", "an object")
		} else if n, ok := c.need(n, "outcome"); ok {
			b.Default = c.outcome(n, "defaults.outcome")
		}
	}
	message := "No specific rule matched; applying default policy (" + string(b.Default) + ")"
	b.fallback = Decision{Outcome: b.Default, Reasons: []engine.Reason{{Code: codeDefault + string(b.Default), Message: message}}}
}

func (c *compiler) moment(root source.Node, name string) (time.Time, bool) {
	n, ok := c.need(root, name)
	if !ok {
		return time.Time{}, false
	}
	text, ok := c.text(n, name)
	if !ok {
		return time.Time{}, false
	}
	if text == "" {
		c.fail(n, "empty", name+" must not be empty", "")
		return time.Time{}, false
	}
	t, ok := parseTime(text)
	if !ok {
		c.fail(n, "not_a_time", name+" "+quote(text)+" is not a time", `write it as ISO 8601 does: "2026-04-02T12:00:00Z"`)
	}
	return t, ok
}

// timeLayouts is the profile of ISO 8601 that ECMAScript reads. Go's parser
// takes a fraction of any length behind the seconds.
var timeLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02", "2006-01", "2006",
}

// parseTime reads a time. Without an offset it is UTC.
func parseTime(text string) (time.Time, bool) {
	if len(text) > 40 || strings.Contains(text, ",") {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// IsTime reports whether text is a time as ISO 8601 writes it and ECMAScript
// reads it.
func IsTime(text string) bool {
	_, ok := parseTime(text)
	return ok
}

func (c *compiler) signature(root source.Node, b *Bundle) {
	n, ok := root.Get("signature")
	if !ok {
		n = root
	} else if !n.Value.IsNull() {
		text, isText := c.text(n, "signature")
		b.Signed = isText && text != ""
	}
	if len(c.options.Secret) == 0 {
		return
	}
	err := Verify(root.Value, c.options.Secret)
	if errors.Is(err, ErrSignature) && len(c.options.FormerSecret) > 0 {
		err = Verify(root.Value, c.options.FormerSecret)
	}
	switch {
	case errors.Is(err, ErrUnsigned):
		c.fail(n, "unsigned", "the bundle is not signed, and a secret is configured", "sign it: holdpoint policy sign")
	case err != nil:
		c.fail(n, "bad_signature", "the signature does not fit the bundle and the secret", "sign it anew after every change: holdpoint policy sign")
	}
}
