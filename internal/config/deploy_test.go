package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// deployed are the files that operators start from.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"docker-compose.yml", "deploy/systemd/*.service", "deploy/kubernetes/*.yaml", "tests/helm/testdata/rendered.yaml"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v %v", pattern, found, err)
		}
		for _, name := range found {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(text)
		}
	}
	return files
}

// TestDeployedVariables: every variable that is set there is a setting, and is one that
// the command takes which it is set for.
func TestDeployedVariables(t *testing.T) {
	c := Default()
	settings := c.settings()
	for name, text := range deployed(t) {
		for _, variable := range regexp.MustCompile(`HOLDPOINT_[A-Z_]+`).FindAllString(text, -1) {
			setting := strings.ToLower(strings.TrimPrefix(variable, "HOLDPOINT_"))
			if _, known := settings[setting]; !known && setting != "config" {
				t.Errorf("%s: %s is no setting", name, variable)
			}
		}
	}
}

// TestComposeWorkerReachesOutside: it sends mail and calls webhooks; its database does not.
func TestComposeWorkerReachesOutside(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Networks    []string          `yaml:"networks"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
		Networks map[string]struct {
			Internal bool `yaml:"internal"`
		} `yaml:"networks"`
	}
	if err := yaml.UnmarshalWithOptions([]byte(deployed(t)["../../docker-compose.yml"]), &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]bool{"serve": true, "worker": true, "postgres": false, "temporal": false} {
		out := slices.ContainsFunc(file.Services[service].Networks, func(n string) bool { return !file.Networks[n].Internal })
		if out != want || len(file.Services[service].Networks) == 0 {
			t.Errorf("%s: reaches outside: %t", service, out)
		}
	}
	// What is left empty is not set, and no mistake.
	defaults := regexp.MustCompile(`\$\{[A-Z_]+(?::-([^}]*)|:\?[^}]*)\}`)
	var environ []string
	for name, value := range file.Services["worker"].Environment {
		if !strings.HasSuffix(name, "_FILE") && name != "HOLDPOINT_CONFIG" && name != "HOLDPOINT_PUBLIC_URL" {
			environ = append(environ, name+"="+defaults.ReplaceAllString(value, "$1"))
		}
	}
	c, err := Load("", environ)
	if err == nil {
		c.PublicURL = "https://holdpoint.example.com"
		err = c.Check(Temporal)
	}
	if err != nil || len(environ) < 12 || c.SMTP != (SMTP{}) {
		t.Errorf("%v, of %v", err, environ)
	}
}

// TestKubernetesSettings: the manifests, and what the chart renders, are YAML, and the settings
// in them are right.
func TestKubernetesSettings(t *testing.T) {
	for _, name := range []string{"../../deploy/kubernetes/holdpoint.yaml", "../../tests/helm/testdata/rendered.yaml"} {
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) { checkManifests(t, deployed(t)[name]) })
	}
}

func checkManifests(t *testing.T, text string) {
	t.Helper()
	kinds := map[string]int{}
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var manifest struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name, Namespace string
			} `yaml:"metadata"`
			Data map[string]string `yaml:"data"`
			Spec map[string]any    `yaml:"spec"`
		}
		if err := d.Decode(&manifest); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[manifest.Kind]++
		if manifest.APIVersion == "" || manifest.Metadata.Name == "" || manifest.Metadata.Namespace != "holdpoint" {
			t.Errorf("%+v", manifest)
		}
		if manifest.Kind == "ConfigMap" && manifest.Data["holdpoint.yaml"] != "" {
			c, err := Load(write(t, manifest.Data["holdpoint.yaml"]), nil)
			if err == nil {
				err = c.Check(0)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	if kinds["Deployment"] != 2 || kinds["Job"] != 1 || kinds["ConfigMap"] == 0 {
		t.Errorf("got %v", kinds)
	}
}
