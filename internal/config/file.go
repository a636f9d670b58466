package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"holdpoint/engine/source"
)

// Unreadable is the error of a file that is no configuration: what it would have set is
// not known, and nothing is to be said of that.
type Unreadable struct{ err error }

func (u *Unreadable) Error() string { return u.err.Error() }

func (u *Unreadable) Unwrap() error { return u.err }

// readFile reads one YAML document. An empty one changes nothing.
func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := durations(data); err != nil {
		return named(path, err)
	}
	var anything any
	if err := yaml.Unmarshal(data, &anything); err == nil && anything == nil {
		return nil
	}
	file := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := file.Decode(c); err != nil {
		return fmt.Errorf("%s: %s", path, inWords(err))
	}
	if err := file.Decode(&anything); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it has more than one YAML document: only one is read", path)
	}
	return nil
}

// KMS is the setting kms alone, for a command that reads or writes a file of keys: what else is set,
// or is set wrongly, has nothing to do with it. A file that cannot be read may have it, and is refused.
func KMS(path string, environ []string) (string, error) {
	for _, pair := range environ {
		if value, is := strings.CutPrefix(pair, "HOLDPOINT_KMS="); is && value != "" {
			return value, nil
		}
	}
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return "", fmt.Errorf("read the configuration, for its kms: %w", err)
	}
	var only struct {
		KMS string `yaml:"kms"`
	}
	if err := yaml.Unmarshal(data, &only); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: %s", path, inWords(err))
	}
	return only.KMS, nil
}

var wrongType = regexp.MustCompile(`cannot unmarshal (\w+) into Go (?:struct field \S+|value) of type (\S+)`)

// nearestName is what a name was probably meant to be, as the end of a sentence; "" where nobody knows. Variables are in
// capitals, behind a prefix.
func nearestName(prefix, name string, names []string) string {
	near := source.Nearest(name, names)
	if near == "" {
		return ""
	}
	if prefix != "" {
		near = prefix + strings.ToUpper(near)
	}
	return " (did you mean " + near + "?)"
}

// fieldNames are the names that fields have in files, of a type and of all that it is made of.
func fieldNames(t reflect.Type) (names []string) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" && name != "-" {
				names = append(names, name)
				walk(f.Type)
			}
		}
	}
	walk(t)
	return names
}

// inWords keeps the first line of a YAML error: position and cause, without the excerpt
// of the file, which may hold a secret; and without the names of this program's types.
func inWords(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if place, _, tab := strings.Cut(text, "found character '\t' that cannot start any token"); tab {
		return place + "lines are indented with spaces, not with tabs"
	}
	if place, _, context := strings.Cut(text, "mapping value is not allowed in this context"); context {
		return place + "no name: value may stand here: is a line indented otherwise than those beside it, or does a text with a colon want quotes?"
	}
	if place, _, context := strings.Cut(text, "value is not allowed in this context"); context {
		return place + "the line is indented otherwise than those that it belongs to"
	}
	if place, found, shape := strings.Cut(text, " was used where mapping is expected"); shape && found == "" {
		if place, list := strings.CutSuffix(place, "sequence"); list {
			return place + "want names with values (name: value), got a list"
		}
		if place, word := strings.CutSuffix(place, "string"); word {
			return place + "want names with values (name: value), got a text: is a colon missing?"
		}
	}
	if _, name, unknown := strings.Cut(text, "unknown field "); unknown {
		name = strings.Trim(name, `"`)
		if setting, variable := strings.CutPrefix(name, "HOLDPOINT_"); variable {
			return text + ": here it is called " + strings.ToLower(setting)
		}
		names := fieldNames(reflect.TypeFor[Config]())
		if slices.Contains(names, name) {
			return text + " here: it is one of another part of the file"
		}
		return text + nearestName("", name, names)
	}
	return wrongType.ReplaceAllStringFunc(text, func(found string) string {
		of := wrongType.FindStringSubmatch(found)
		want := "something else"
		switch {
		case strings.HasPrefix(of[2], "int"):
			want = "a whole number"
		case of[2] == "bool":
			want = "true or false"
		case of[2] == "string":
			want = "text"
		case strings.HasPrefix(of[2], "[]"):
			want = "a list"
		}
		return "want " + want + ", got " + of[1]
	})
}
