package access

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/store"
)

// maxNamesakes is how many ids a refusal names.
const maxNamesakes = 10

// FindPerson is the one person whom a text names: by id, or else by address, or else by
// name. Refusals are bad_query of what is no text, no_such_person, and several_people, which
// names their ids. None of them repeats the text.
func FindPerson(ctx context.Context, people store.People, text string) (engine.Person, error) {
	text = strings.TrimSpace(text)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return engine.Person{}, &Refusal{Kind: Malformed, Code: "bad_query", Detail: "The person is no text: it holds a NUL, or is not UTF-8."}
	}
	found, err := people.Called(ctx, text, maxNamesakes+1)
	if err != nil {
		return engine.Person{}, err
	}
	switch len(found) {
	case 0:
		return engine.Person{}, &Refusal{Kind: Invalid, Code: "no_such_person", Detail: "There is nobody of that id, address or name. Write all of it."}
	case 1:
		return found[0], nil
	}
	ids, more := make([]string, 0, maxNamesakes), ""
	for _, p := range found[:min(len(found), maxNamesakes)] {
		ids = append(ids, p.ID)
	}
	if len(found) > maxNamesakes {
		more = ", and more"
	}
	return engine.Person{}, &Refusal{Kind: Invalid, Code: "several_people", Detail: fmt.Sprintf("Several people are called that: %s%s. Write the id or the address of one of them.", strings.Join(ids, ", "), more)}
}
