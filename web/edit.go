package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/form"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// Edits changes calls' arguments. Errors are as Inbox's are.
type Edits interface {
	Edit(ctx context.Context, r gate.EditRequest, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
}

// editHandler serves the page on which a reviewer changes a call's arguments.
type editHandler struct {
	site  *site
	cards Cards
	edits Edits
}

func (h *editHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /approvals/{id}/edit", h.site.signedIn(h.form))
	mux.HandleFunc("POST /approvals/{id}/edit", h.site.takesFormOf(maxEditForm, h.submit))
}

// maxEditForm bounds the form in which arguments are changed, in bytes.
const maxEditForm = 1 << 20

// argumentField begins the names of the fields that are arguments, so that no
// argument can pass for a field of ours. quotedField begins those of texts that are
// written as JSON has them, because a field would not show all of them.
const (
	argumentField = "argument:"
	quotedField   = "quoted:"
)

// editor is what is needed to change a call's arguments.
type editor struct {
	card    gate.Card
	current canon.Value
	form    *form.Form
	typed   bool // by the tool's registered schema
}

// read reads the card, and by what form its arguments can be changed.
func (h *editHandler) read(r *http.Request, p engine.Person) (editor, error) {
	found, err := h.cards.Card(r.Context(), p, r.PathValue("id"), gate.Unrecorded)
	if err != nil {
		return editor{}, err
	}
	e := editor{card: found}
	switch {
	case over(found.Approval):
		return e, &access.Refusal{Kind: access.Conflict, Code: "already_decided", Detail: "This call is already decided, so there is nothing to change any more."}
	case found.Approval.Call.Dialect == gate.DialectThreeGate || found.Approval.Call.Dialect == gate.DialectChange:
		return e, &access.Refusal{Kind: access.Conflict, Code: "not_editable", Detail: "A tool request is signed for as the document that it is. Deny it, and say what to change."}
	case found.Arguments == nil:
		return e, &access.Refusal{Kind: access.Conflict, Code: "erased", Detail: "The arguments have been erased."}
	case !canDecide(found, p):
		return e, &access.Refusal{Kind: access.Forbidden, Code: "not_eligible", Detail: whyNot(found, p, false)}
	}
	if e.current, err = canon.Parse(found.Arguments); err != nil {
		return e, err
	}
	if tool, known := h.site.inForce().Registered.Tools[found.Approval.Call.Tool]; known {
		if e.form, err = tool.Form(); err != nil {
			h.site.logger.WarnContext(r.Context(), "schema not used", "tool", tool.Name, "error", err)
		}
		e.typed = e.form != nil
	}
	if e.form == nil {
		e.form = form.Infer(e.current)
	}
	return e, nil
}

// page is the form for changing the arguments, filled in with args.
func (e editor) page(args canon.Value) views.Edit {
	a := e.card.Approval
	v := views.Edit{
		ID: a.ID, Digest: a.Call.Digest, Version: a.Version, Tool: a.Call.Tool, Agent: agentName(e.card), Typed: e.typed,
		JSON: views.EditableJSON(args.Canonical()), Current: views.JSON(e.card.Arguments), MaxComment: gate.MaxComment,
	}
	v.Fields = editFields(e.form.Fields(args), nil)
	return v
}

// editFields are a form's fields as the page has them. unread are those texts that were
// written as JSON has them and could not be read, by the field's name.
func editFields(fields []form.Field, unread map[string]string) []views.EditField {
	var list []views.EditField
	for _, f := range fields {
		if strings.HasSuffix(f.Name, "."+f.Label) {
			f.Label = f.Name // which of several that are called so
		}
		field := views.EditField{
			Name: argumentField + f.Name, Label: f.Label, Help: f.Help, Kind: string(f.Kind), Required: f.Required, Choices: f.Choices,
			Value: f.Value, Min: f.Min, Max: f.Max, MaxLength: f.MaxLength, Problem: f.Problem,
		}
		switch f.Kind {
		case form.Text, form.LongText:
			written, wrong := unread[f.Name]
			quoted, needed := views.Quoted(f.Value)
			if wrong {
				quoted = views.EscapedJSON(written)
			}
			if wrong || needed {
				field.Name, field.Kind, field.Value = quotedField+f.Name, "quoted", quoted
			}
		case form.JSON:
			field.Value = views.EscapedJSON(f.Value)
		case form.Integer, form.Number, form.Boolean, form.Choice:
		}
		list = append(list, field)
	}
	return list
}

func (h *editHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e, err := h.read(r, p)
	if err == nil {
		err = requireShown(e.card)
	}
	if err != nil {
		return err
	}
	v := e.page(e.current)
	if kept := h.site.draftsOf(r, p, v.ID)["edit"]; kept != nil {
		v = e.again(kept)
	}
	return h.render(w, r, p, http.StatusOK, v)
}

// again is the form as it was left. What was written over arguments that have changed
// since is there too: what it would change is shown before it is saved.
func (e editor) again(kept url.Values) views.Edit {
	text, fields := kept.Get("json"), maps.Clone(kept)
	if fields.Del("from"); !slices.ContainsFunc(slices.Collect(maps.Keys(kept)), func(name string) bool {
		return strings.HasPrefix(name, argumentField) || strings.HasPrefix(name, quotedField)
	}) {
		fields.Set("from", "json")
	}
	_, v, _ := e.entered(fields)
	v.JSON = cmp.Or(text, v.JSON)
	v.Problems, v.Reason, v.Again = nil, kept.Get("comment"), true
	if kept.Get("digest") != e.card.Approval.Call.Digest {
		v.Problems = []string{"The arguments have changed since you wrote this. See what it would change in them as they are now."}
	}
	return v
}

func (h *editHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, status int, v views.Edit) error {
	v.Frame = h.site.frame(p, "Change the arguments: "+views.Visible(v.Tool), "")
	return h.site.render(w, r, status, views.EditPage(v))
}

// submit takes what was entered: it first shows what that would change, and changes
// it in a second step.
func (h *editHandler) submit(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e, err := h.read(r, p)
	if err != nil {
		return err
	}
	s, posted := contributionOf(r, p), r.PostForm
	digest, version, err := cardVersion(posted)
	if a := e.card.Approval; err == nil && (digest != a.Call.Digest || version != a.Version) {
		err = &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The call has changed since you opened the page, so nothing was changed. Open it again and look at what is there now."}
	}
	if err == nil {
		err = requireShown(e.card)
	}
	if err != nil {
		return keeping(err, s.Comment)
	}
	args, again, ok := e.entered(posted)
	again.Reason = s.Comment
	if ok && s.Comment == "" {
		ok, again.Problems = false, []string{"Say why you change the arguments: the agent learns of it."}
	}
	if len(s.Comment) > gate.MaxComment {
		ok, again.Problems = false, []string{"The reason is too long. Shorten it."}
	}
	if ok && string(args.Canonical()) == string(e.current.Canonical()) {
		ok, again.Problems = false, []string{"These are the arguments that there are; nothing is different."}
	}
	switch {
	case !ok:
		return h.render(w, r, p, http.StatusUnprocessableEntity, again)
	case posted.Get("step") == "again":
		return h.render(w, r, p, http.StatusOK, again)
	case posted.Get("step") == "save":
		return h.save(w, r, p, again, gate.EditRequest{Contribution: s, Arguments: args, Digest: digest, Version: version})
	}
	v := e.review(args, s.Comment)
	v.Frame = h.site.frame(p, "Look at the change: "+views.Visible(v.Tool), "")
	return h.site.render(w, r, http.StatusOK, views.EditReviewPage(v))
}

func (h *editHandler) save(w http.ResponseWriter, r *http.Request, p engine.Person, again views.Edit, request gate.EditRequest) error {
	_, err := h.edits.Edit(r.Context(), request, nil)
	if detail, ok := refused(err); ok {
		again.Problems = []string{detail}
		return h.render(w, r, p, http.StatusUnprocessableEntity, again)
	}
	if err != nil {
		return keeping(err, request.Comment)
	}
	h.site.redirectWithFlash(w, r, "edited", cardURL(request.ApprovalID))
	return nil
}

// entered reads the arguments of a posted form, from its fields or from its text.
// Where that does not do, again is the form with what is wrong.
func (e editor) entered(posted url.Values) (args canon.Value, again views.Edit, ok bool) {
	if posted.Get("from") == "json" {
		return e.enteredText(posted.Get("json"))
	}
	args, fields, problems := readArguments(e.form, posted, e.current)
	if len(problems) == 0 {
		return args, e.page(args), true
	}
	again = e.page(e.current)
	again.Fields, again.Problems = fields, problems
	return args, again, false
}

// readArguments reads a form's fields over what is there now. Where they do not do,
// again is the fields as they were entered, and problems says why.
func readArguments(f *form.Form, posted url.Values, current canon.Value) (args canon.Value, again []views.EditField, problems []string) {
	values, unread := map[string][]string{}, map[string]string{}
	var misquoted []form.Problem
	for name, v := range posted {
		if field, is := strings.CutPrefix(name, argumentField); is {
			values[field] = v
		}
		field, is := strings.CutPrefix(name, quotedField)
		if !is {
			continue
		}
		values[field] = nil
		for _, each := range v {
			text, err := unquoted(each)
			if err != nil {
				unread[field] = each
				misquoted = append(misquoted, form.Problem{Field: field, Message: err.Error()})
			}
			values[field] = append(values[field], text)
		}
	}
	args, wrong := f.Read(values, current)
	wrong = append(misquoted, wrong...)
	if len(wrong) == 0 {
		wrong = f.Validate(args)
	}
	if len(wrong) == 0 {
		return args, nil, nil
	}
	fields, rest := f.Again(values, current, wrong)
	if problems = problemWords(rest); len(problems) == 0 {
		problems = []string{"Some of the fields need another look."}
	}
	return args, editFields(fields, unread), problems
}

// unquoted reads a text as JSON has it. An empty field is an empty text.
func unquoted(field string) (string, error) {
	if field = strings.TrimSpace(field); field == "" {
		return "", nil
	}
	v, err := canon.Parse([]byte(field))
	var syntax *canon.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return "", errors.New("is not a text in quotation marks as JSON has it: " + syntax.Message + ", at byte " + strconv.Itoa(syntax.Offset))
	case err != nil || v.Kind() != canon.StringKind:
		return "", errors.New("is not a text in quotation marks as JSON has it")
	}
	return v.Str(), nil
}

func (e editor) enteredText(text string) (args canon.Value, again views.Edit, ok bool) {
	again = e.page(e.current)
	again.JSON = text
	args, err := canon.Parse([]byte(text))
	var syntax *canon.SyntaxError
	switch {
	case errors.As(err, &syntax):
		again.Problems = []string{"The JSON cannot be read: " + syntax.Message + ", at byte " + strconv.Itoa(syntax.Offset) + "."}
		return args, again, false
	case err != nil:
		again.Problems = []string{"The JSON cannot be read."}
		return args, again, false
	case args.Kind() != canon.ObjectKind:
		again.Problems = []string{"The arguments have to be a JSON object."}
		return args, again, false
	}
	if e.typed {
		if again.Problems = problemWords(e.form.Validate(args)); len(again.Problems) > 0 {
			return args, again, false
		}
	}
	return args, e.page(args), true
}

func problemWords(problems []form.Problem) []string {
	var messages []string
	for _, p := range problems {
		what := "The whole"
		if p.Path != "" {
			what = strings.ReplaceAll(strings.TrimPrefix(p.Path, "/"), "/", ".")
		}
		messages = append(messages, what+" "+p.Message+".")
	}
	return messages
}

// review is the page that shows what the change would be.
func (e editor) review(args canon.Value, reason string) views.EditReview {
	a := e.card.Approval
	changes := differences(nil, "", e.current, args)
	markWords(changes)
	v := views.EditReview{
		ID: a.ID, Digest: a.Call.Digest, Version: a.Version, Tool: a.Call.Tool, Agent: e.card.AgentName,
		JSON: string(args.Canonical()), Reason: reason, Changes: changes,
	}
	v.Warnings = views.JSON(args.Canonical()).Warnings
	return v
}

// changesOf lists what is different in a card's arguments from what they were; nil for
// nothing. cut shows the beginning of what is long.
func changesOf(c gate.Card, before []byte, cut bool) []views.Change {
	if before == nil || c.Arguments == nil {
		return nil
	}
	was, err := canon.Parse(before)
	now, err2 := canon.Parse(c.Arguments)
	if err != nil || err2 != nil {
		return nil // they are shown as text below
	}
	budget := views.NewBudget()
	list := differences(budget, "", was, now)
	markWords(list)
	if budget.Spent() && len(list) > 0 {
		list[len(list)-1].Cut = true
	}
	for i := range list {
		for _, code := range []*views.Code{list[i].Old, list[i].New} {
			if cut && code != nil {
				var lines, runes int
				*code, lines, runes = code.Preview(previewLines, previewRunes)
				list[i].Cut = list[i].Cut || lines > 0 || runes > 0
			}
		}
	}
	return list
}

// markWords marks inside of what has changed which words are others.
func markWords(list []views.Change) {
	compared := views.NewCompared()
	for _, c := range list {
		if c.Old != nil && c.New != nil {
			compared.Mark(c.Old, c.New)
		}
	}
}

// lastEdit is who edited a call last, and why.
func lastEdit(a approval.Approval, name func(string) string) (who, why string) {
	for _, f := range factsInOrder(a.Facts) {
		if f.Kind == approval.Edit {
			who, why = name(f.Actor.ID), f.Comment
		}
	}
	return who, why
}

// maxDepthShown is how deep objects are compared member by member.
const maxDepthShown = 8

// differences lists what is different in after, member by member of objects, until the
// budget is spent; nil is one without end.
func differences(budget *views.Budget, path string, before, after canon.Value) []views.Change {
	var list []views.Change
	laidOut := func(v canon.Value) *views.Code {
		if budget == nil {
			code := views.JSON(v.Canonical())
			return &code
		}
		code := budget.JSON(v.Canonical())
		return &code
	}
	spent := func() bool { return budget != nil && budget.Spent() }
	at := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	deeper := strings.Count(path, ".") < maxDepthShown
	for _, m := range before.Members() {
		now, there := after.Get(m.Name)
		switch {
		case spent():
			return list
		case !there:
			list = append(list, views.Change{Path: at(m.Name), Old: laidOut(m.Value)})
		case string(now.Canonical()) == string(m.Value.Canonical()):
		case deeper && now.Kind() == canon.ObjectKind && m.Value.Kind() == canon.ObjectKind && now.Len() > 0 && m.Value.Len() > 0:
			list = append(list, differences(budget, at(m.Name), m.Value, now)...)
		default:
			list = append(list, views.Change{Path: at(m.Name), Old: laidOut(m.Value), New: laidOut(now)})
		}
	}
	for _, m := range after.Members() {
		if _, there := before.Get(m.Name); !there && !spent() {
			list = append(list, views.Change{Path: at(m.Name), New: laidOut(m.Value)})
		}
	}
	return list
}
