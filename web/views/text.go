package views

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// visible writes text with everything marked in it as labelled chips.
func visible(text string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		left, shared := ctx.Value(sharedMarks{}).(*int)
		if !shared {
			left = new(int)
			*left = maxNamed
		}
		writeSpans(&b, markWithin(text, left))
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// sharedMarks is the key under which a context has how many marks may still be
// spelt out, all texts that it renders together.
type sharedMarks struct{}

// codeBlock writes the lines of a code block. It is not a template, because between
// the pieces of a line there must be no white space but the code's own.
func codeBlock(c Code) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		for _, line := range c.Lines {
			b.WriteString(`<span class="line`)
			if line.Continued {
				b.WriteString(" cont")
			}
			if line.Class != "" {
				b.WriteString(" is-" + line.Class)
			}
			b.WriteString(`">`)
			b.WriteString(strings.Repeat("  ", line.Indent))
			for _, part := range line.Parts {
				b.WriteString(`<span class="` + part.Class + `">`)
				writeSpans(&b, part.Spans)
				b.WriteString(`</span>`)
			}
			b.WriteString("\n</span>")
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// spans writes spans that are already marked.
func spans(list []Span) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		writeSpans(&b, list)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func writeSpans(b *strings.Builder, list []Span) {
	for _, s := range list {
		if s.Differs {
			b.WriteString(`<b class="differs">`)
		}
		switch s.Mark {
		case Plain:
			b.WriteString(templ.EscapeString(s.Shown))
		case RightToLeft:
			b.WriteString("<bdi>" + templ.EscapeString(s.Shown) + "</bdi>")
		default:
			b.WriteString(`<mark class="chip">` + templ.EscapeString(s.Shown) + `</mark>`)
		}
		if s.Differs {
			b.WriteString(`</b>`)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// sentences is a text's lines without the blank ones.
func sentences(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}
