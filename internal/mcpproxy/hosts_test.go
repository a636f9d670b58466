package mcpproxy

import (
	"encoding/json"
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

// The proxy comes before servers of each form, once, and nothing else changes.
func TestWrap(t *testing.T) {
	command := []string{"/bin/holdpoint", "mcp-proxy", "--holdpoint", "https://h"}
	for name, c := range map[string]struct{ before, after string }{
		"a command": {
			`{"theme":"dark","mcpServers":{"files":{"command":"npx","args":["-y","x","/srv"],"env":{"A":"<b>"}}}}`,
			`{"theme":"dark","mcpServers":{"files":{"command":"/bin/holdpoint","args":["mcp-proxy","--holdpoint","https://h","--name","files","--","npx","-y","x","/srv"],"env":{"A":"<b>"}}}}`,
		},
		"VS Code, an address with a secret": {
			`{"inputs":[1],"servers":{"crm":{"type":"http","url":"https://crm/mcp","headers":{"Authorization":"Bearer s"}}}}`,
			`{"inputs":[1],"servers":{"crm":{"type":"stdio","command":"/bin/holdpoint","args":["mcp-proxy","--holdpoint","https://h","--name","crm","--url","https://crm/mcp","--header","Authorization: ${MCP_HEADER_1}"],"env":{"MCP_HEADER_1":"Bearer s"}}}}`,
		},
	} {
		got, wrapped, err := Wrap([]byte(c.before), nil, command)
		if err != nil || len(wrapped) != 1 || same(t, string(got)) != same(t, c.after) {
			t.Errorf("%s: %v %q\n%s\nwant %s", name, err, wrapped, got, c.after)
		}
		again, wrapped, err := Wrap(got, nil, command)
		if err != nil || len(wrapped) != 0 || string(again) != string(got) {
			t.Errorf("%s, again: %v %q\n%s", name, err, wrapped, again)
		}
	}
	// Another program of that name asks nobody.
	for entry, has := range map[string]bool{
		`{"command":"uvx","args":["mcp-proxy","https://crm/sse"]}`:                          false,
		`{"command":"mcp-proxy","args":["https://crm/sse"]}`:                                false,
		`{"command":"npx","args":["-y","x","mcp-proxy"]}`:                                   false,
		`{"command":"/bin/holdpoint","args":["connect","mcp-proxy"]}`:                       false,
		`{"command":"/opt/other/holdpoint","args":["mcp-proxy","--name","a","--","x"]}`:     true,
		`{"command":"C:\\tools\\holdpoint.exe","args":["mcp-proxy","--name","a","--","x"]}`: true,
		`{"command":"/opt/hp-1","args":["mcp-proxy","--name","a","--","x"]}`:                true,
	} {
		_, wrapped, err := Wrap([]byte(`{"mcpServers":{"a":`+entry+`}}`), nil, []string{"/opt/hp-1", "mcp-proxy"})
		if err != nil || (len(wrapped) == 0) != has {
			t.Errorf("%s: %v %q", entry, err, wrapped)
		}
	}
	for _, wrong := range []string{``, `[]`, `{}`, `{"mcpServers":{}}`, `{"mcpServers":{"a":{}}}`, `{"mcpServers":{"a":{"type":"sse","url":"https://x"}}}`, `{"mcpServers":{"a__b":{"command":"x"}}}`, `{"mcpServers":{"a":{"command":"x","args":"y"}}}`, "{} // x"} {
		if got, _, err := Wrap([]byte(wrong), nil, command); err == nil {
			t.Errorf("%s: %s", wrong, got)
		}
	}
	if _, _, err := Wrap([]byte(`{"mcpServers":{"a":{"command":"x"}}}`), []string{"b"}, command); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error(err)
	}
}

func same(t *testing.T, text string) string {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil || !json.Valid([]byte(text)) {
		t.Fatalf("%v: %s", err, text)
	}
	return string(v.Canonical())
}
