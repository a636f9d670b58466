package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// notCompared are settings in which processes of one kind differ, or which they read again while
// they run: where each listens, and keys, whose changes are events of their own.
var notCompared = []string{"listen", "metrics_listen", "data_key", "signing_keys"}

// Values are the settings as they are after Check, secrets included, by their names in the file: for
// telling whether a process has others than another one, and for nobody to read.
func (c *Config) Values() (map[string][]byte, error) {
	values := map[string][]byte{}
	all := reflect.ValueOf(*c)
	for i, f := range reflect.VisibleFields(all.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" || slices.Contains(notCompared, name) {
			continue
		}
		text, err := yaml.Marshal(all.Field(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("write the setting %s: %w", name, err)
		}
		values[name] = text
	}
	return values, nil
}
