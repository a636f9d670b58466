// Command generate writes gitleaks.json, the secret rules of the gitleaks
// library at the version that this module's go.mod names. To take newer rules:
//
//	go get github.com/zricethezav/gitleaks/v8@VERSION && go run . ../../gitleaks.json
//
// It changes no rule. What the detector leaves out or reads in its own way is
// decided, with reasons, in engine/redact/rules.go.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

const library = "github.com/zricethezav/gitleaks/v8"

// rule is what the detector needs of a gitleaks rule.
type rule struct {
	ID       string   `toml:"id" json:"id"`
	Regex    string   `toml:"regex" json:"regex"`
	Group    int      `toml:"secretGroup" json:"group,omitempty"`
	Entropy  float64  `toml:"entropy" json:"entropy,omitempty"`
	Keywords []string `toml:"keywords" json:"keywords,omitempty"`
	// Path limits a rule to files of some names, which a tool call does not have.
	Path string `toml:"path" json:"path,omitempty"`
}

type ruleFile struct {
	Source  string `json:"source"`
	Licence string `json:"licence"`
	Rules   []rule `toml:"rules" json:"rules"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE")
		os.Exit(2)
	}
	text, err := generate()
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() ([]byte, error) {
	var file ruleFile
	if err := toml.Unmarshal([]byte(config.DefaultConfig), &file); err != nil {
		return nil, fmt.Errorf("read the library's rules: %w", err)
	}
	file.Source, file.Licence = library+"@"+version(), "MIT, see LICENSE.gitleaks"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(file); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// version is the library's version in this module.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == library {
			return m.Version
		}
	}
	return "unknown"
}
