package web

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/access"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// roleHolders is how many people of a role are shown before one asks for all of them.
const roleHolders = 25

// findPeople leaves of each role those people whom the form asks for, and says where the
// others are: a company's roles have hundreds. What the summary says is about everybody.
func findPeople(v *views.AccessReport, query url.Values) {
	v.Form.Query, v.Form.Role = strings.TrimSpace(query.Get("q")), query.Get("role")
	v.CSV = "/audit/access.csv?" + query.Encode()
	for _, roles := range []*[]views.RoleAccess{&v.Roles, &v.Powers} {
		var kept []views.RoleAccess
		for _, role := range *roles {
			if v.Form.Role != "" && role.Role != v.Form.Role {
				continue
			}
			role.All = role.Holders
			role.Holders = matching(role.Holders, v.Form.Query)
			if role.Found = len(role.Holders); role.Found > roleHolders && v.Form.Role == "" {
				role.Holders = role.Holders[:roleHolders]
				all := url.Values{"role": {role.Role}}
				for _, name := range []string{"at", "since", "until", "q"} {
					if value := query.Get(name); value != "" {
						all.Set(name, value)
					}
				}
				role.AllURL = "/audit/access?" + all.Encode()
			}
			if role.Found > 0 || v.Form.Query == "" {
				kept = append(kept, role)
			}
		}
		*roles = kept
	}
}

// matching are the people whose name or address has the text.
func matching(people []views.HolderRow, text string) []views.HolderRow {
	text = strings.ToLower(text)
	var found []views.HolderRow
	for _, p := range people {
		if strings.Contains(strings.ToLower(p.Name), text) || strings.Contains(strings.ToLower(p.Email), text) {
			found = append(found, p)
		}
	}
	return found
}

// accessFile sends who has which role, as the report says it, for spreadsheets.
func (h *reportHandler) accessFile(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	query := r.URL.Query()
	_, since, until, err := reportForm(query)
	q := report.AccessQuery{Since: since, Until: until}
	if err == nil {
		q.At, err = report.ParseTime(query.Get("at"))
	}
	var found report.AccessReport
	if err == nil {
		found, err = h.reports.Access(r.Context(), q)
	}
	if err != nil {
		return err
	}
	var v views.AccessReport
	accessView(&v, found)
	findPeople(&v, url.Values{"q": query["q"], "role": query["role"]})
	if len(v.Roles)+len(v.Powers) == 0 && v.Form.Role != "" {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such role."} // the log has the role's name
	}
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	rows := 0
	err = spreadsheet.Write(out, []string{"role", "name", "email", "how", "since", "until", "second_factors", "last_signed_in", "needed", "as_of"})
	for _, role := range append(v.Roles, v.Powers...) {
		for _, held := range role.All {
			if err == nil && len(matching([]views.HolderRow{held}, v.Form.Query)) == 1 {
				rows++
				err = spreadsheet.Write(out, []string{
					role.Role, held.Name, held.Email, held.How, timeOr(held.Since), timeOr(held.Until), factorWords(held.Factors), timeOr(held.LastSignIn), strconv.Itoa(role.Needed), found.At.UTC().Format(time.RFC3339),
				})
			}
		}
	}
	if out.Flush(); err == nil {
		err = out.Error()
	}
	if err != nil {
		return err
	}
	// On record before anything of it is sent, with the digest of what is.
	if err := h.reports.Exported(r.Context(), by(p), report.File{As: report.AccessFile, At: found.At, Role: query.Get("role"), Searched: query.Get("q") != "", Rows: rows, Text: text.Bytes()}); err != nil {
		return err
	}
	file := newDownload(w, r, "text/csv; charset=utf-8", "holdpoint-access-at-"+found.At.UTC().Format("2006-01-02T1504Z")+".csv")
	_, err = file.Write(text.Bytes())
	return file.End(err)
}

func timeOr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func factorWords(factors []views.FactorRow) string {
	var words []string
	for _, f := range factors {
		words = append(words, f.Words)
	}
	return strings.Join(words, ", ")
}
