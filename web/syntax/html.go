package syntax

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// blocks begin a line of their own.
var blocks = words("p div br tr li ul ol table h1 h2 h3 h4 h5 h6 hr blockquote pre section article header footer form title body html head")

// HTML is the text of an HTML document, with where its links lead, what it loads and
// sends, its comments, and what it keeps from its reader, each marked. Other markup is
// left out.
func HTML(text string) []Token {
	h := htmlText{z: html.NewTokenizer(strings.NewReader(text))}
	for {
		switch h.z.Next() {
		case html.ErrorToken:
			if rest := string(h.z.Raw()); strings.TrimSpace(rest) != "" {
				h.note("not read as HTML: ", rest)
			}
			return h.list
		case html.TextToken:
			h.text()
		case html.CommentToken:
			h.note("comment:", string(h.z.Text()))
		case html.DoctypeToken:
		case html.StartTagToken, html.SelfClosingTagToken:
			h.start()
		case html.EndTagToken:
			h.end()
		}
	}
}

type htmlText struct {
	z    *html.Tokenizer
	list []Token
	// raw is the element whose content is no text of the document, or "".
	raw string
	// hidden are the elements that keep their content from the reader, with how many
	// elements of the name are open in each.
	hidden []hiding
	target string // where the open link leads
}

type hiding struct {
	name string
	open int
}

func (h *htmlText) add(class Class, text string) {
	if text != "" {
		h.list = append(h.list, Token{Class: class, Text: text})
	}
}

// note adds what the document has beside its text.
func (h *htmlText) note(what, text string) {
	h.add(Note, "["+what)
	h.add(Comment, text)
	h.add(Note, "]")
}

func (h *htmlText) text() {
	text := string(h.z.Text())
	class := Plain
	switch {
	case h.raw != "":
		class = Comment
	case strings.TrimSpace(text) == "":
		if n := len(h.list); n > 0 && !strings.HasSuffix(h.list[n-1].Text, "\n") && !strings.HasSuffix(h.list[n-1].Text, " ") {
			h.add(Plain, " ")
		}
		return
	case len(h.hidden) > 0:
		class = Danger
	case h.target != "":
		class = Markup
	}
	h.add(class, text)
}

// line begins a new line, unless one has just begun.
func (h *htmlText) line() {
	if n := len(h.list); n > 0 && !strings.HasSuffix(h.list[n-1].Text, "\n") {
		h.add(Plain, "\n")
	}
}

func (h *htmlText) start() {
	token := h.z.Token()
	name := token.Data
	if blocks[name] {
		h.line()
	}
	for i := range h.hidden {
		if h.hidden[i].name == name {
			h.hidden[i].open++
		}
	}
	at := map[string]string{}
	for _, a := range token.Attr {
		if _, twice := at[a.Key]; !twice {
			at[a.Key] = a.Val
		}
	}
	for _, from := range []struct{ attribute, what string }{{"src", "loads "}, {"srcset", "loads "}, {"background", "loads "}, {"action", "sends what is entered to "}, {"formaction", "sends what is entered to "}, {"data", "loads "}} {
		if at[from.attribute] != "" {
			h.add(Note, "["+name+", "+from.what)
			h.list = append(h.list, link(at[from.attribute])...)
			h.add(Note, "]")
		}
	}
	for _, a := range token.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "http-equiv" || a.Key == "content" && at["http-equiv"] != "" {
			h.note(name+", "+a.Key+": ", a.Val)
		} else if a.Key == "alt" && a.Val != "" {
			h.add(Plain, a.Val)
		} else if a.Key == "value" && a.Val != "" {
			h.note(name+", value: ", a.Val)
		}
	}
	switch token.DataAtom {
	case atom.A, atom.Area, atom.Link, atom.Base:
		if h.target = at["href"]; token.DataAtom != atom.A {
			h.leads()
		}
	case atom.Li:
		h.add(Operator, "• ")
	case atom.Td, atom.Th:
		h.add(Plain, "  ")
	case atom.Script, atom.Style, atom.Noscript, atom.Iframe, atom.Noembed, atom.Noframes:
		if token.Type == html.StartTagToken {
			h.raw = name
			h.line()
			h.add(Note, "["+name+": ")
		}
	default:
	}
	if token.Type == html.StartTagToken && concealed(at) && !void[name] {
		h.hidden = append(h.hidden, hiding{name, 1})
		h.add(Note, "[hidden from the reader: ")
	}
}

var void = words("area base br col embed hr img input link meta source track wbr")

// hidingStyles begin what hides an element from its reader.
var hidingStyles = []string{"display:none", "visibility:hidden", "font-size:0", "opacity:0", "mso-hide:all", "color:transparent", "max-height:0", "text-indent:-", "left:-"}

// concealed reports whether an element's style or attributes keep it from the reader.
func concealed(at map[string]string) bool {
	if _, is := at["hidden"]; is {
		return true
	}
	style := strings.ToLower(strings.NewReplacer(" ", "", "\t", "", "\n", "").Replace(at["style"]))
	return slices.ContainsFunc(hidingStyles, func(sign string) bool { return strings.Contains(style, sign) })
}

func (h *htmlText) end() {
	name := h.z.Token().Data
	if name == h.raw {
		h.raw = ""
		h.add(Note, "]")
	}
	for i := len(h.hidden) - 1; i >= 0; i-- {
		if h.hidden[i].name != name {
			continue
		}
		if h.hidden[i].open--; h.hidden[i].open == 0 {
			h.hidden = append(h.hidden[:i], h.hidden[i+1:]...)
			h.add(Note, "]")
		}
	}
	if name == "a" {
		h.leads()
	}
	if blocks[name] {
		h.line()
	}
}

// leads says where the open link leads.
func (h *htmlText) leads() {
	if h.target != "" {
		h.add(Note, " [leads to ")
		h.list = append(h.list, link(h.target)...)
		h.add(Note, "]")
	}
	h.target = ""
}

// link is the tokens of where a link leads.
func link(target string) []Token {
	t := tokens{text: target}
	t.address(len(target))
	return t.list
}
