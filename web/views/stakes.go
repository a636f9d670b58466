package views

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"holdpoint/engine/stakes"
)

// Stakes is the sentence that says what a call will do.
type Stakes struct {
	stakes.Sentence
	// From says whose template it is; "" for one of Holdpoint's own, or none.
	From string
}

// There reports whether there is a sentence.
func (s Stakes) There() bool { return len(s.Parts) > 0 }

// CallSummary is what else to know of a call before reading on, beside its sentence. It
// changes as time goes on and as others decide.
type CallSummary struct {
	Amount string // of money, or ""
	// Environment is where the call runs, Named whether the call says so itself, and
	// Judged the one by whose rules it was judged, where that is another; else "".
	Environment string
	Named       bool
	Judged      string
	Asked       time.Time
	// Why says why the reader is shown it, or "".
	Why string
	// Flags are what deserves a second look, each in a few words.
	Flags []string
	// Alike says how calls like it were decided, or "".
	Alike string
}

// sentence writes a sentence. It is not a template, because between its parts there
// must be no white space but its own.
func sentence(s stakes.Sentence) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		for _, p := range s.Parts {
			open, end := `<b class="val">`, `</b>`
			switch p.Kind {
			case stakes.Words:
				open, end = "", ""
			case stakes.Note:
				open, end = `<em class="gap">[`, `]</em>`
			case stakes.Text, stakes.Exact:
			}
			if _, err := io.WriteString(w, open); err != nil {
				return err
			}
			if err := visible(p.Text).Render(ctx, w); err != nil {
				return err
			}
			if _, err := io.WriteString(w, end); err != nil {
				return err
			}
		}
		return nil
	})
}

// dangerWords are what a danger is called; "" for none.
func dangerWords(d stakes.Danger) string {
	if d == stakes.Unsaid {
		return ""
	}
	return strings.ToUpper(d.String()[:1]) + d.String()[1:] + " danger"
}

// originWords say where a sentence comes from.
func originWords(s Stakes) string {
	switch s.Origin {
	case stakes.Registered:
		return "Written for this tool (" + Visible(s.From) + "). It is a short one; what counts are the exact arguments below."
	case stakes.BuiltIn:
		return "Holdpoint’s own sentence for calls like this. It is a short one; what counts are the exact arguments below."
	case stakes.None:
	}
	return "No sentence is written for this tool: these are its name and some of its arguments. What counts are the exact ones below."
}

// otherArguments tells the arguments that are not in a sentence. Names are the agent's: what is
// no plain one is marked like a value.
func otherArguments(s stakes.Sentence) templ.Component {
	if len(s.Unsaid) == 0 {
		return templ.NopComponent
	}
	parts := append([]stakes.Part{{Text: "Also given: "}}, s.Rest...)
	end := "."
	if s.MoreUnsaid > 0 {
		end = " and " + Plural(s.MoreUnsaid, "more", "more") + "."
	}
	return sentence(stakes.Sentence{Parts: append(parts, stakes.Part{Text: end})})
}
