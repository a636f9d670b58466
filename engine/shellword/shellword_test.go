package shellword_test

import (
	"os/exec"
	"strings"
	"testing"

	"holdpoint/engine/shellword"
)

func TestPlainWordsStay(t *testing.T) {
	if got := shellword.Command("holdpoint", "key", "create", "--agent", "billing-bot_2"); got != "holdpoint key create --agent billing-bot_2" {
		t.Errorf("got %s", got)
	}
}

// TestWordsAreRead: a real shell reads each word as it was, and runs nothing of it.
func TestWordsAreRead(t *testing.T) {
	words := []string{"", " ", "a b", "x; touch ran", "$(touch ran)", "`touch ran`", "it's", `'\''`, "a\nb", "~", "*", "<x", "ä", "-n", `\`, `"`, "#x", "a&b|c"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", shellword.Command(append([]string{"printf", `%s\0`}, words...)...)).Output()
	if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
}
