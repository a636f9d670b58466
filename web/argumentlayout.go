package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"holdpoint/engine/canon"
	"holdpoint/web/syntax"
	"holdpoint/web/views"
)

// What is laid out beside the exact arguments: of how many bytes of them, how many forms,
// how much of an array, and how many values of how deep a tree.
const (
	maxLaidOut      = 32 << 10
	maxForms        = 12
	maxTableRows    = 100
	maxTableColumns = 12
	maxTreeValues   = 1000
	maxTreeDepth    = 12
	minTableLength  = 2
)

// layOut makes of arguments what people read beside them, out of one budget. It makes
// nothing of long ones, and nothing from anything but the arguments.
func layOut(arguments []byte, budget *views.Budget) (forms []views.Form, tree []views.Node) {
	if len(arguments) > maxLaidOut {
		return nil, nil
	}
	args, err := canon.Parse(arguments)
	if err != nil {
		return nil, nil // they are shown as text
	}
	l := layout{budget: budget}
	l.mail(args)
	l.walk("", "", args)
	if tree = l.nodes("", args, 0); l.values > maxTreeValues || budget.Spent() {
		tree = nil
	}
	return l.forms, tree
}

type layout struct {
	budget *views.Budget
	forms  []views.Form
	values int
	mailed []string // the arguments that the mail has
}

func (l *layout) add(f views.Form) {
	if len(l.forms) < maxForms && !l.budget.Spent() {
		l.forms = append(l.forms, f)
	}
}

// walk lays out what is at a place, and below it.
func (l *layout) walk(place, name string, v canon.Value) {
	if len(l.forms) >= maxForms || l.budget.Spent() {
		return
	}
	switch v.Kind() {
	case canon.StringKind:
		if !slices.Contains(l.mailed, place) {
			l.text(place, name, v.Str())
		}
	case canon.ArrayKind:
		if t := l.table(v); t != nil {
			l.add(views.Form{Place: cmp.Or(place, "the arguments"), Kind: "Table", Is: views.Plural(v.Len(), "row", "rows"), Table: t})
			return
		}
		for i, each := range v.Elements() {
			l.walk(views.Element(place, i), name, each)
		}
	case canon.ObjectKind:
		for member, each := range v.All() {
			l.walk(views.Member(place, member), member, each)
		}
	default: // shown as it is
	}
}

// text lays out a text by what it looks like.
func (l *layout) text(place, name, text string) {
	f := views.Form{Place: place}
	var list []syntax.Token
	switch kind := syntax.Guess(name, text); kind {
	case syntax.None:
		if !strings.Contains(text, "://") {
			return
		}
		if list = syntax.Text(text); len(list) < 2 {
			return
		}
		f.Kind = "Text with addresses"
	case syntax.KindAddress:
		var host string
		list, host, _ = syntax.Location(text)
		f.Kind, f.Notes = string(kind), hostNotes(list, host)
	case syntax.KindSQL:
		var n int
		list, n = syntax.SQL(text)
		f.Kind, f.Is = string(kind), views.Plural(n, "statement", "statements")
	case syntax.KindShell:
		var n int
		list, n = syntax.Shell(text)
		f.Kind, f.Is = string(kind), views.Plural(n, "command", "commands")
	case syntax.KindDiff:
		var files, added, removed int
		list, files, added, removed = syntax.Diff(text)
		f.Kind, f.Is = string(kind), views.Plural(files, "file", "files")+", "+views.Thousands(added)+" added, "+views.Thousands(removed)+" removed"
	case syntax.KindYAML:
		f.Kind, list = string(kind), syntax.YAML(text)
	case syntax.KindMarkdown:
		f.Kind, list = string(kind), syntax.Markdown(text)
	case syntax.KindHTML:
		f.Kind, f.Is, list = string(kind), "as text", syntax.HTML(text)
	}
	code := l.budget.Tokens(list)
	f.Code = &code
	l.add(f)
}

// hostNotes say what of an address is easily taken for something else.
func hostNotes(list []syntax.Token, host string) (notes []string) {
	if slices.ContainsFunc(list, func(t syntax.Token) bool { return t.Class == syntax.Danger }) {
		notes = append(notes, "It leads to "+host+". What stands before the @ is no part of the host.")
	}
	if read, err := idna.ToUnicode(host); err == nil && read != host {
		notes = append(notes, host+" is shown elsewhere as "+read)
	}
	return notes
}

// The names of what a mail or a message has.
var (
	mailHead = []struct{ words, names string }{
		{"From", "from sender"}, {"To", "to recipient recipients"}, {"Copy", "cc"}, {"Hidden copy", "bcc"}, {"Answers to", "reply_to replyto"}, {"Subject", "subject"},
	}
	mailBody = strings.Fields("body html html_body text message content body_html body_text")
)

// mail lays out a mail, where the arguments are one.
func (l *layout) mail(args canon.Value) {
	f := views.Form{Kind: "Mail"}
	has := map[string]bool{}
	for _, field := range mailHead {
		var values [][]views.Span
		for name, v := range args.All() {
			if !slices.Contains(strings.Fields(field.names), strings.ToLower(name)) {
				continue
			}
			for _, text := range textsIn(v) {
				values = append(values, l.budget.Spans(text))
			}
			has[field.words] = has[field.words] || len(values) > 0
		}
		if len(values) > 0 {
			f.Head = append(f.Head, views.FormField{Name: field.words, Values: values})
		}
	}
	if !has["To"] || !has["Subject"] {
		return
	}
	for name, v := range args.All() {
		if v.Kind() != canon.StringKind || !slices.Contains(mailBody, strings.ToLower(name)) {
			continue
		}
		list := syntax.Text(v.Str())
		switch syntax.Guess("", v.Str()) {
		case syntax.KindHTML:
			list, f.Is = syntax.HTML(v.Str()), "its HTML as text"
		case syntax.KindMarkdown:
			list, f.Is = syntax.Markdown(v.Str()), "its Markdown as written"
		default:
		}
		code := l.budget.Tokens(list)
		f.Code = &code
		l.add(f)
		l.mailed = append(l.mailed, views.Member("", name))
		f = views.Form{Kind: "Mail", Is: "another body of it"}
	}
}

// textsIn are the texts of a value: its own, or those of its elements.
func textsIn(v canon.Value) []string {
	switch v.Kind() {
	case canon.StringKind:
		return []string{v.Str()}
	case canon.ArrayKind:
		var list []string
		for _, each := range v.Elements() {
			list = append(list, textsIn(each)...)
		}
		return list
	case canon.ObjectKind:
		return []string{string(v.Canonical())}
	default:
		return nil
	}
}

// table is an array of alike objects as a table; nil for another one.
func (l *layout) table(v canon.Value) *views.Table {
	if v.Len() < minTableLength {
		return nil
	}
	var columns []string
	for _, each := range v.Elements() {
		if each.Kind() != canon.ObjectKind || each.Len() == 0 {
			return nil
		}
		for name := range each.All() {
			if !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
		}
		if len(columns) > maxTableColumns {
			return nil
		}
	}
	t := &views.Table{Columns: columns}
	for i, each := range v.Elements() {
		if 3*each.Len() < 2*len(columns) {
			return nil
		}
		for _, value := range each.All() {
			if value.Len() > 0 {
				return nil // it is read better as a tree
			}
		}
		if i >= maxTableRows || l.budget.Spent() {
			t.More = v.Len() - i
			break
		}
		row := make([]views.Cell, len(columns))
		for j, name := range columns {
			if value, there := each.Get(name); there {
				row[j] = l.cell(value)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// cell is a value in a table or a tree.
func (l *layout) cell(v canon.Value) views.Cell {
	switch v.Kind() {
	case canon.StringKind:
		if v.Str() == "" {
			return views.Cell{Class: "p", Spans: []views.Span{{Shown: "empty text"}}}
		}
		return views.Cell{Class: "s", Spans: l.budget.Spans(v.Str())}
	case canon.ArrayKind, canon.ObjectKind:
		return views.Cell{Class: "p", Spans: l.budget.Spans(string(v.Canonical()))}
	default:
		return views.Cell{Class: "n", Spans: []views.Span{{Shown: string(v.Canonical())}}}
	}
}

// nodes are the values of a container, for the tree.
func (l *layout) nodes(path string, v canon.Value, depth int) []views.Node {
	var list []views.Node
	add := func(name, path string, each canon.Value) {
		if l.values++; l.values > maxTreeValues || l.budget.Spent() {
			return
		}
		n := views.Node{Name: name, Path: path}
		if container := each.Kind() == canon.ObjectKind || each.Kind() == canon.ArrayKind; container && each.Len() > 0 && depth < maxTreeDepth {
			n.Is = containerWords(each)
			n.Nodes = l.nodes(path, each, depth+1)
		} else {
			n.Cell = l.cell(each)
		}
		list = append(list, n)
	}
	for name, each := range v.All() {
		add(name, views.Member(path, name), each)
	}
	if v.Kind() == canon.ArrayKind {
		for i, each := range v.Elements() {
			add(strconv.Itoa(i), views.Element(path, i), each)
		}
	}
	return list
}

func containerWords(v canon.Value) string {
	if v.Kind() == canon.ArrayKind {
		return views.Plural(v.Len(), "element", "elements")
	}
	return views.Plural(v.Len(), "member", "members")
}
