package hook

import (
	"strings"
	"testing"
)

// TestOpenCodeNeedsPlugin: the machine's settings are such that opencode has no model without
// the plugin, and keep what else is in them.
func TestOpenCodeNeedsPlugin(t *testing.T) {
	managed := func(settings string) (string, error) {
		after, err := OpenCodeNeeds([]byte(settings), "/etc/opencode/holdpoint.js")
		return string(after), err
	}
	after, err := managed(`{"plugin":["file:///x.js"],"share":"disabled"}`)
	if err != nil || !strings.Contains(after, `"share": "disabled"`) || !strings.Contains(after, "file:///x.js") || !strings.Contains(after, "file:///etc/opencode/holdpoint.js") {
		t.Errorf("%s, %v", after, err)
	}
	if again, err := managed(after); again != after || err != nil || !OpenCodeHas([]byte(after), "/etc/opencode/holdpoint.js") {
		t.Errorf("once more: %s, %v", again, err)
	}
	for _, bad := range []string{`{"enabled_providers":["a"]}`, `{"enabled_providers":["holdpoint","a"]}`, `{"plugin":1}`, `{`} {
		if after, err := managed(bad); err == nil {
			t.Errorf("%s becomes %s", bad, after)
		}
	}
	for _, loose := range []string{"", "{}", strings.Replace(after, `"holdpoint"`, `"a"`, 1), strings.Replace(after, "/etc/opencode/", "/tmp/", 1)} {
		if OpenCodeHas([]byte(loose), "/etc/opencode/holdpoint.js") {
			t.Errorf("it has a model: %s", loose)
		}
	}
}
