//go:build npm

package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOpenAPIForTools has the OpenAPI document looked at by those who read it: a linter
// that finds nothing to say, and a generator of a TypeScript client that compiles.
func TestOpenAPIForTools(t *testing.T) {
	d := onHosted(t)
	dir := t.TempDir()
	document := filepath.Join(dir, "openapi.json")
	// A server on localhost is a warning of its own, and the only one.
	text := strings.ReplaceAll(string(d.client(t).do("GET", "/openapi.json", nil).want(t, 200).Body), d.URL, "https://holdpoint.test")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	use := `import type { paths, components } from "./api.js";
type Check = paths["/v1/pre-tool-check"]["post"];
const event: Check["requestBody"]["content"]["application/json"] = {
  tool_name: "t", tool_category: "write", authorization_state: "none", evidence_refs: [], risk_domain: "finance", proposed_arguments: {}, recommended_route: "accept",
};
const route = (answer: Check["responses"][202]["content"]["application/json"]): "accept" | "ask" | "defer" | "refuse" => answer.recommended_action;
const status = (a: components["schemas"]["Approval"]): "pending" | "approved" | "denied" | "expired" | "cancelled" => a.status;
export { event, route, status };
`
	if err := os.WriteFile(filepath.Join(dir, "use.ts"), []byte(use), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		path, err := filepath.Abs(filepath.Join(npmDir, "node_modules", ".bin", name))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Dir, cmd.Env = dir, environment("REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	if said := tool("redocly", "lint", document, "--format=summary"); strings.Contains(said, "warning ") || !strings.Contains(said, "is valid") {
		t.Errorf("redocly says\n%s", said)
	}
	tool("openapi-typescript", document, "-o", filepath.Join(dir, "api.ts"))
	tool("tsc", "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "use.ts")
}
