package tests

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestOddParameters puts into each parameter of each GET of the OpenAPI document what no
// database takes, and what is far too long, as somebody who is let in: it is the caller's
// mistake, and never the server's.
func TestOddParameters(t *testing.T) {
	d := onShared(t)
	type parameter struct{ Name, In string }
	var document struct {
		Paths map[string]map[string]struct{ Parameters []parameter }
	}
	callers := []*client{d.admin(t), d.agent(t), d.as(t, d.Owner)}
	d.client(t).do("GET", "/openapi.json", nil).want(t, 200).into(t, &document)
	tried := 0
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		all := document.Paths[path]["get"].Parameters
		for _, odd := range all {
			if odd.In != "path" && odd.In != "query" {
				continue
			}
			letIn := false
			for name, value := range map[string]string{"a NUL": "a\x00b", "no UTF-8": "\xff", "10 kB": strings.Repeat("x", 10_000)} {
				at := path
				for _, p := range all {
					if p.In == "path" {
						filled := "approvals"
						if p.Name == odd.Name {
							filled = url.PathEscape(value)
						}
						at = strings.ReplaceAll(at, "{"+p.Name+"}", filled)
					}
				}
				if odd.In == "query" {
					at += "?" + url.Values{odd.Name: {value}}.Encode()
				}
				for _, c := range callers {
					tried++
					got := c.do("GET", at, nil)
					var problem struct{ Status int }
					isProblem := json.Unmarshal(got.Body, &problem) == nil && problem.Status == got.Status
					if got.Err != nil || got.Status >= 500 || name != "10 kB" && (got.Status < 400 || !isProblem) {
						t.Errorf("%s with %s in %s: %.300s", path, name, odd.Name, got)
					}
					if got.Status != 401 && got.Status != 403 {
						letIn = true
						break
					}
				}
			}
			if !letIn {
				t.Errorf("%s: nobody was let in, so that %s was not looked at", path, odd.Name)
			}
		}
	}
	if tried < 150 {
		t.Errorf("only %d requests: is that all of the document?", tried)
	}
}
