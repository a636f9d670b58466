package views

import (
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

// TestEditableJSON: what is changed by hand is the same document, without anything hidden in it.
func TestEditableJSON(t *testing.T) {
	const hidden = "\u202e\u2066\u200b\U000e0041\u3164\u2800\u009b\u007f\u2028\ufeff"
	args := canon.Object(
		canon.Member{Name: "a\u200bb", Value: canon.String("x" + hidden + "y\\\u202e \"q\" \n")},
		canon.Member{Name: "host", Value: canon.String("p\u0430ypal.com \uff41")},
		canon.Member{Name: "name", Value: canon.String("Žofie Müller, Приве́т, שלום, 你好 😀")},
	)
	got := EditableJSON(args.Canonical())
	if at := strings.IndexAny(got, hidden+"\u0430\uff41"); at >= 0 {
		t.Errorf("it has %q:\n%s", got[at:at+4], got)
	}
	for _, want := range []string{"{\n  \"a\\u200bb\": \"x\\u202e\\u2066\\u200b\\udb40\\udc41", `\\\u202e \"q\" \n"`, `p\u0430ypal`, "Žofie Müller, Приве", "שלום, 你好 😀"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
	back, err := canon.Parse([]byte(got))
	if err != nil || string(back.Canonical()) != string(args.Canonical()) {
		t.Errorf("it is another document: %v\n%s\n%s", err, back.Canonical(), args.Canonical())
	}
}
