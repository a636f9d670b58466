package api

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestParameters: a mistake in a query is named, and what the caller wrote there is
// not repeated.
func TestParameters(t *testing.T) {
	for query, want := range map[string]string{
		"limit=7&order=desc&since=2027-01-31T18:00:00Z": "",
		"limit=secret":             `"limit" cannot be read: want a whole number from 1 to 10`,
		"limit=11":                 `"limit" cannot be read: want a whole number from 1 to 10`,
		"from=-1":                  `"from" cannot be read: want a whole number from 0 on`,
		"from=9223372036854775807": `"from" cannot be read`,
		"order=secret":             `"order" cannot be read: want one of ["asc" "desc"]`,
		"since=secret":             `"since" cannot be read: want a time such as`,
		"limit=1&limit=2":          `"limit" is there twice`,
		"secret=1":                 "does not have",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var (
			limit int
			from  int64
			order string
			since time.Time
		)
		err = parameters{"limit": whole(&limit, 1, 10), "from": whole(&from, 0, 0), "order": oneOf(&order, "asc", "desc"), "since": moment(&since)}.read(values)
		switch {
		case want == "":
			if err != nil || limit != 7 || order != "desc" || since.Hour() != 18 {
				t.Errorf("%s: %d %q %s %v", query, limit, order, since, err)
			}
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}
