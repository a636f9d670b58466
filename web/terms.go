package web

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// termField begins the names of fields that tighten one constraint each.
const termField = "term:"

// termName is what a constraint with a field is called.
var termName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// maxTerms is how many constraints have a field of their own.
const maxTerms = 6

// termsOf are the constraints of a call that a vote can tighten by a number.
func termsOf(c gate.Card) (terms []views.TightTerm) {
	set, err := canon.Parse(c.Permits)
	if err != nil || set.Kind() != canon.ObjectKind {
		set = canon.Object()
	}
	for _, m := range set.Members() {
		word, rest, _ := strings.Cut(m.Name, "_")
		if !termName.MatchString(m.Name) || m.Value.Kind() != canon.NumberKind || rest == "" || word != "max" && word != "min" || len(terms) == maxTerms {
			continue
		}
		t := views.TightTerm{Name: m.Name, Now: string(m.Value.Canonical()), Least: word == "min", Label: upperFirst(words(rest)) + ", at most"}
		if t.Least {
			t.Label = upperFirst(words(rest)) + ", at least"
		}
		terms = append(terms, t)
	}
	return terms
}

// readTermFields adds what the fields of single constraints say to those that are written as
// JSON. Of one, two things are not said.
func readTermFields(form url.Values, v *gate.VoteRequest) error {
	var members []string
	if len(v.Constraints) > 0 {
		written, err := canon.Parse(v.Constraints)
		if err != nil {
			return err // readTerms has parsed it
		}
		for _, m := range written.Members() {
			members = append(members, memberText(m.Name, m.Value))
		}
	}
	added := false
	for _, field := range slices.Sorted(maps.Keys(form)) {
		name, term := strings.CutPrefix(field, termField)
		text := strings.TrimSpace(form.Get(field))
		if !term || text == "" {
			continue
		}
		value, err := canon.Parse([]byte(text))
		switch {
		case !termName.MatchString(name):
			return invalid("not_tighter", "A field names no constraint. Open the card again. Nothing was recorded.")
		case err != nil || value.Kind() != canon.NumberKind:
			return invalid("not_tighter", "The constraint "+name+": write a number, such as 100 or 99.50. Nothing was recorded.")
		}
		members, added = append(members, memberText(name, value)), true
	}
	if !added {
		return nil
	}
	all, err := canon.Parse([]byte("{" + strings.Join(members, ",") + "}"))
	if err != nil {
		return invalid("not_tighter", "A constraint is set twice: in its field and in the JSON. Nothing was recorded.")
	}
	v.Constraints = all.Canonical()
	return nil
}

// memberText writes a member of an object.
func memberText(name string, v canon.Value) string {
	return string(canon.String(name).Canonical()) + ":" + string(v.Canonical())
}
