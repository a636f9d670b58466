package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/internal/config"
)

// TestTypicalMistakes: each brings one line, which is true, and no other.
func TestTypicalMistakes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "holdpoint.yaml")
	const good = "database_url: postgres://app:hunter2@db/holdpoint\n"
	for name, of := range map[string]struct {
		text string
		env  []string
		want string
	}{
		"a tab":                        {good + "\trouting: x\n", nil, file + ": [2:1] lines are indented with spaces, not with tabs"},
		"wrong indentation":            {good + " listen: x\n", nil, file + ": [1:15] no name: value may stand here: is a line indented otherwise than those beside it, or does a text with a colon want quotes?"},
		"a misspelt setting":           {good + "lissten: x\n", nil, file + `: [2:1] unknown field "lissten" (did you mean listen?)`},
		"a word for a number":          {good + "max_pending: many\n", nil, file + ": [2:14] want a whole number, got string"},
		"a word for true":              {good + "smtp: {allow_plain: yess}\n", nil, file + ": [2:21] want true or false, got string"},
		"the same setting twice":       {good + good, nil, file + `: [2:1] mapping key "database_url" already defined at [1:1]`},
		"an open quote":                {good + "environment: \"prod\n", nil, file + ": [2:14] could not find end character of double-quoted text"},
		"an open bracket":              {good + "tickets: [{name: a\n", nil, file + ": [2:11] could not find flow mapping end token '}'"},
		"a list for a mapping":         {good + "routing: [1]\n", nil, file + ": [2:10] want names with values (name: value), got a list"},
		"a time without a unit":        {good + "token_ttl: 10\n", nil, file + ": [2:12] token_ttl: want a duration such as 10m or 24h"},
		"a colon in a text":            {good + "environment: a: b\n", nil, file + ": [2:14] no name: value may stand here: is a line indented otherwise than those beside it, or does a text with a colon want quotes?"},
		"two documents":                {good + "---\nlisten: x\n", nil, file + ": it has more than one YAML document: only one is read"},
		"no configuration at all":      {"hello\n", nil, file + ": [1:1] want names with values (name: value), got a text: is a colon missing?"},
		"an empty file":                {"# nothing yet\n", nil, "database_url: it is missing: want postgres://user:password@host:port/database"},
		"a misspelt variable":          {good, []string{"HOLDPOINT_LISTNE=x"}, "HOLDPOINT_LISTNE: there is no such setting (did you mean HOLDPOINT_LISTEN?)"},
		"a variable without a unit":    {good, []string{"HOLDPOINT_TOKEN_TTL=10"}, "HOLDPOINT_TOKEN_TTL: want a duration such as 10m or 24h"},
		"a variable that is no number": {good, []string{"HOLDPOINT_DATABASE_MAX_CONNECTIONS=8x"}, "HOLDPOINT_DATABASE_MAX_CONNECTIONS: want a whole number"},
		"another database":             {"database_url: mysql://app:hunter2@db/holdpoint\n", nil, "database_url: want postgres://user:password@host:port/database"},
		"a wrong sslmode":              {"database_url: postgres://app:hunter2@db/holdpoint?sslmode=on\n", nil, "database_url: sslmode: want one of disable, allow, prefer, require, verify-ca, verify-full"},
		"a port too few":               {good + "temporal_address: temporal\n", nil, `temporal_address: want host:port, got "temporal"`},
		"both a value and a file":      {good + "database_url_file: " + file + "\n", nil, "database_url: it is given both by itself and as a file; give one"},
		"a file that is not there":     {"data_key_file: /nowhere/key\n" + good, nil, "data_key_file: open /nowhere/key: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(of.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(file, of.env)
			if err = checked(&cfg, err, config.Database|config.Temporal); err == nil || err.Error() != of.want {
				t.Errorf("got  %v\nwant %s", err, of.want)
			}
		})
	}
	cfg, err := config.Load("", []string{"HOLDPOINT_DATABASE_URL=postgres://app@db/holdpoint", "HOLDPOINT_DATA_KEY_FILE=" + dir})
	if err = checked(&cfg, err, config.Database|config.DataKey); err == nil || err.Error() != "data_key_file: read "+dir+": is a directory" {
		t.Errorf("a directory for a key: %v", err)
	}
	if _, err := config.Load(dir, nil); err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("a directory: %v", err)
	}
}

// TestSettingsNameALastingProgram: the program of “go run”, as that of a test, is gone when it ends, so no host's settings name it.
func TestSettingsNameALastingProgram(t *testing.T) {
	if _, err := (&connectMCP{Data: "x"}).command(); err == nil || !strings.Contains(err.Error(), "go build -o") {
		t.Errorf("connect mcp: %v", err)
	}
	if words, err := (&connectMCP{Data: "/x", Program: "/bin/holdpoint"}).command(); err != nil || strings.Join(words, " ") != "/bin/holdpoint mcp-proxy --data /x" {
		t.Errorf("connect mcp with a program of one's own: %q, %v", words, err)
	}
}
