package mcpproxy

import (
	"strings"
	"testing"
)

// TestRegisterQuotesNames: the server names its tools, and people paste the command.
func TestRegisterQuotesNames(t *testing.T) {
	if got := Register(ToolName("files", "read"), "3f"); got != "holdpoint tool set files__read --provider mcp --verified --manifest-hash 3f" {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"x; id", "$(id)", "`id`", "a b", "'; id; '", "x\nid"} {
		if got := Register(ToolName("files", name), "3f"); !strings.HasPrefix(got, "holdpoint tool set 'files__") {
			t.Errorf("%q: got %s", name, got)
		}
	}
}
