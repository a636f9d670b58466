package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/rules"
	"holdpoint/web/syntax"
	"holdpoint/web/views"
)

// RuleChanges proposes changes of the policy and the tool contracts, and tells of those that
// there were; rules.Doors is one. Errors are as Inbox's are.
type RuleChanges interface {
	Propose(ctx context.Context, p rules.Proposal) (gate.OpenedRuleChange, error)
	Preview(ctx context.Context, p rules.Proposal) (gate.RuleChange, error)
	Editions(ctx context.Context, kind string) ([]rules.Edition, error)
	Difference(ctx context.Context, from, to string) (string, error)
	// InForce is the file that is in force, "" for none.
	InForce(kind string) string
	// FileOf names the file of a kind that the settings name, "" for none.
	FileOf(kind string) string
	// Approvers counts the people who could approve what an author proposes, and how many
	// of them it takes.
	Approvers(ctx context.Context, kind string, author engine.Person) (able, needed int, err error)
	// TakesApproval says whether changes take an approval, and of which role.
	TakesApproval(kind string) (role string, takes bool)
}

// changeHandler serves the pages on which changes of the rules are proposed, and those that
// there were.
type changeHandler struct {
	site    *site
	changes RuleChanges
}

// maxChangeForm bounds the form with a whole policy: each byte may take three.
const maxChangeForm = 3*canon.MaxBytes + maxForm

// The pages' addresses.
const (
	proposeURL  = "/policies/propose"
	editionsURL = "/policies/history"
)

func (h *changeHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+proposeURL, h.site.forAdministrators(h.form))
	mux.HandleFunc("POST "+proposeURL, h.site.onlyForOf(maxChangeForm, access.MayAdminister, "administrators", h.propose))
	mux.HandleFunc("GET "+editionsURL, h.site.forAuditors(h.history))
}

// kindOf is the kind that a request names: the policy, where it names none.
func kindOf(form url.Values) string {
	if kind := form.Get("kind"); kind != "" {
		return kind
	}
	return kinds[0].Value
}

// kinds are the documents that people change.
var kinds = []views.Option{{Value: "policy", Label: "Policy"}, {Value: "contracts", Label: "Tool contracts"}}

func (h *changeHandler) view(ctx context.Context, p engine.Person, kind string) (views.ProposeChange, error) {
	v := views.ProposeChange{Frame: h.site.frame(p, "Propose a change", "policies"), Kind: kind, Kinds: kinds, Zones: zones(), File: h.changes.FileOf(kind), People: h.site.people}
	v.Role, v.Takes = h.changes.TakesApproval(kind)
	var err error
	v.Able, v.Needed, err = h.changes.Approvers(ctx, kind, p)
	return v, err
}

func (h *changeHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.view(r.Context(), p, kindOf(r.URL.Query()))
	if err != nil {
		return err
	}
	v.Text = h.changes.InForce(v.Kind)
	return h.site.render(w, r, http.StatusOK, views.ProposeChangePage(v))
}

// propose shows what a change would be, or proposes it.
func (h *changeHandler) propose(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	v, err := h.view(r.Context(), p, kindOf(r.PostForm))
	if err != nil {
		return err
	}
	v.Text, v.Reason, v.From, v.Zone = strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n"), e.text("reason"), e.text("from"), e.text("zone")
	uploaded, err := uploadedText(r, "file")
	if err != nil {
		return err
	}
	look := uploaded != "" && uploaded != v.Text // nobody has seen what a file that has just come changes
	if uploaded != "" {
		v.Text = uploaded
	}
	what := rules.Proposal{
		Kind: v.Kind, Data: []byte(v.Text), Name: v.Kind, Reason: v.Reason, From: e.moment("from", "From", e.zone("zone")), Author: &p, By: by(p),
	}
	err = e.err()
	if err == nil && r.PostForm.Get("do") == "propose" && !look {
		var opened gate.OpenedRuleChange
		if opened, err = h.changes.Propose(r.Context(), what); err == nil {
			said := "newrules"
			if v.Able < v.Needed {
				said = "newrulesalone"
			}
			h.site.redirectWithFlash(w, r, said, cardURL(opened.ApprovalID))
			return nil
		}
	} else if err == nil {
		var seen gate.RuleChange
		if seen, err = h.changes.Preview(r.Context(), what); err == nil {
			v.Seen = &views.SeenChange{Version: seen.Version, Former: seen.Former, From: seen.From, Until: seen.Until, Difference: coloured(seen.Difference), Simulation: seen.Simulation, SignedBy: strings.Join(seen.SignedBy, ", ")}
			return h.site.render(w, r, http.StatusOK, views.ProposeChangePage(v))
		}
	}
	var refusal *access.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	v.Failures = strings.Split(strings.TrimSpace(refusal.Detail), "\n")
	retryAfter(w, refusal)
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.ProposeChangePage(v))
}

// coloured is a unified diff as the page shows it.
func coloured(difference string) views.Code {
	list, _, _, _ := syntax.Diff(difference)
	return views.NewBudget().Tokens(list)
}

// uploadedText is the text of a form's file, "" for none.
func uploadedText(r *http.Request, name string) (string, error) {
	if r.MultipartForm == nil || len(r.MultipartForm.File[name]) == 0 {
		return "", nil
	}
	file, err := r.MultipartForm.File[name][0].Open()
	if err != nil {
		return "", fmt.Errorf("open an uploaded file: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("read an uploaded file: %w", err)
	}
	if !utf8.Valid(data) || bytes.ContainsRune(data, 0) {
		return "", &access.Refusal{Kind: access.Invalid, Code: "unfit_text", Detail: "The file is no text in UTF-8. Choose a YAML or JSON file."}
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n"), nil
}

// history shows what was in force, and the difference between two editions.
func (h *changeHandler) history(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	q := r.URL.Query()
	v := views.Editions{Frame: h.site.frame(p, "What was in force", "policies"), Kind: kindOf(q), Kinds: kinds, From: q.Get("from"), To: q.Get("to")}
	list, err := h.changes.Editions(r.Context(), v.Kind)
	if err != nil {
		return err
	}
	for i, e := range list {
		row := views.EditionRow{
			Version: e.Version, Digest: e.Digest, From: e.From, Until: e.Until, Author: e.Author, ApprovedBy: e.ApprovedBy, SignedBy: e.SignedBy, Reason: e.Reason, Alone: e.Approved == "nobody_asked",
		}
		if e.ApprovalID != "" {
			row.ApprovalURL = cardURL(e.ApprovalID)
		}
		if i+1 < len(list) && e.Digest != "" && list[i+1].Digest != "" {
			row.ChangesURL = editionsURL + "?" + url.Values{"kind": {v.Kind}, "from": {list[i+1].Digest}, "to": {e.Digest}}.Encode() + "#difference"
		}
		v.Rows = append(v.Rows, row)
	}
	v.CompareFrom, v.CompareTo = v.From, v.To
	if v.From == "" && v.To == "" && len(list) > 1 {
		v.CompareFrom = list[1].Digest
	}
	if v.From != "" || v.To != "" {
		text, err := h.changes.Difference(r.Context(), v.From, v.To)
		var refusal *access.Refusal
		switch {
		case errors.As(err, &refusal):
			v.Failure = refusal.Detail
		case err != nil:
			return err
		default:
			code := coloured(text)
			v.Difference, v.Same = &code, text == ""
		}
	}
	return h.site.render(w, r, http.StatusOK, views.EditionsPage(v))
}
