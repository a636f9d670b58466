package setup_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"holdpoint/engine"
	"holdpoint/internal/setup"
	"holdpoint/schemas"
)

var update = flag.Bool("update", false, "write the schema anew")

// The published schema is that of the fields which the reader takes.
func TestSchema(t *testing.T) {
	huma.DefaultArrayNullable = false
	registry := huma.NewMapRegistry("#/$defs/", huma.DefaultSchemaNamer)
	registry.Schema(reflect.TypeFor[setup.Document](), true, "")
	root := registry.Map()["Document"]
	defs := registry.Map()
	delete(defs, "Document") // is the root
	for _, kind := range engine.EndpointKinds() {
		told := defs["Endpoint"].Properties["tells"].Items
		told.Enum = append(told.Enum, kind)
	}
	encoded, err := json.MarshalIndent(struct {
		Schema      string                  `json:"$schema"`
		ID          string                  `json:"$id"`
		Title       string                  `json:"title"`
		Description string                  `json:"description"`
		Type        string                  `json:"type"`
		Closed      any                     `json:"additionalProperties"`
		Properties  map[string]*huma.Schema `json:"properties"`
		Defs        map[string]*huma.Schema `json:"$defs"`
	}{
		"https://json-schema.org/draft/2020-12/schema", "urn:holdpoint:schema:setup", "What operators set up",
		"What “holdpoint apply” reads and “holdpoint export” writes. An entry says everything of what it names: what it leaves out has its default, except where a field says otherwise.",
		root.Type, root.AdditionalProperties, root.Properties, defs,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	encoded = append(encoded, '\n')
	if *update {
		if err := os.WriteFile("../../schemas/"+schemas.Setup, encoded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := schemas.FS.ReadFile(schemas.Setup); err != nil && !*update || !*update && !bytes.Equal(got, encoded) {
		t.Errorf("schemas/%s is not what the code takes: go test ./internal/setup -run TestSchema -update (%v)", schemas.Setup, err)
	}
}
