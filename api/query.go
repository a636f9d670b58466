package api

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// parameters are what a query may hold: each with what reads its value. What a
// reader says of a value is shown to the caller; the value itself is not repeated,
// nor is the name of a parameter that is not there: both may be anything.
type parameters map[string]func(value string) error

// read reads a query. What it does not know is a mistake, and not nothing; takesQuery
// has refused it before, so that it is a mistake of the operation's documentation.
func (p parameters) read(query url.Values) error {
	for name, values := range query {
		read, known := p[name]
		if !known {
			return badQuery("There is a query parameter that this address does not have.")
		}
		if len(values) > 1 {
			return badQuery(fmt.Sprintf("The query parameter %q is there twice.", name))
		}
		if err := read(values[0]); err != nil {
			return badQuery(fmt.Sprintf("The query parameter %q cannot be read: want %s.", name, err))
		}
	}
	return nil
}

// takesQuery refuses a query that holds what the operation does not document: whoever
// writes wiat=25 would not be told otherwise that nothing waits. A parameter is
// named only where it has the form of a name: anything else may be a secret that
// somebody put there.
func (op operation) takesQuery(raw string) error {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return badQuery("The query cannot be read: write it as name=value&name=value, percent-encoded.")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.ContainsFunc(op.query, func(p parameter) bool { return p.name == name }) {
			what := "a query parameter that you sent"
			if looksLikeAName(name) {
				what = "the query parameter " + strconv.Quote(name)
			}
			return &failure{Status: http.StatusBadRequest, Code: "unknown_parameter", Detail: "This address does not have " + what + "; /docs lists those that it has."}
		}
		if len(query[name]) > 1 {
			return badQuery(fmt.Sprintf("The query parameter %q is there twice.", name))
		}
	}
	return nil
}

func looksLikeAName(s string) bool {
	return s != "" && len(s) <= 24 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-'
	})
}

func badQuery(detail string) error {
	return &failure{Status: http.StatusBadRequest, Code: "bad_query", Detail: detail}
}

// anyText reads a text that a database can be asked for.
func anyText(into *string) func(string) error {
	return func(value string) error {
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return errors.New("a text in UTF-8, without a NUL")
		}
		*into = value
		return nil
	}
}

func oneOf(into *string, known ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(known, value) {
			return fmt.Errorf("one of %q", known)
		}
		*into = value
		return nil
	}
}

func moment(into *time.Time) func(string) error {
	return func(value string) (err error) {
		if *into, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return errors.New("a time such as 2027-01-31T18:00:00Z")
		}
		return nil
	}
}

// whole reads a whole number from least on; most is 0 for no bound.
func whole[N int | int64](into *N, least, most int64) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case most == 0 && (err != nil || n < least || n == math.MaxInt64):
			return fmt.Errorf("a whole number from %d on", least)
		case most > 0 && (err != nil || n < least || n > most):
			return fmt.Errorf("a whole number from %d to %d", least, most)
		}
		*into = N(n)
		return nil
	}
}
