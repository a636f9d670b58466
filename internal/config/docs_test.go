package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestEverySettingIsDocumented looks for each setting in docs/settings.md.
func TestEverySettingIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		for field := range of.Fields() {
			name := field.Tag.Get("yaml")
			if name == "-" {
				continue
			}
			if field.Type == reflect.TypeFor[SMTP]() || field.Type == reflect.TypeFor[TemporalTLS]() {
				look(field.Type)
			}
			value, isFile := strings.CutSuffix(name, "_file")
			if !strings.Contains(page, "`"+name+"`") && (!isFile || !strings.Contains(page, "`"+value+"`, or `…_file`")) {
				t.Errorf("docs/settings.md says nothing of %s", name)
			}
		}
	}
	look(reflect.TypeFor[Config]())
}
