package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdpoint/engine"
)

// TestUnknownParameters: no documented operation takes a query parameter that it
// does not document, and each says which it was.
func TestUnknownParameters(t *testing.T) {
	h := withAgents(t)
	h.person = h.db.Person(engine.Person{Name: "ada", Roles: []string{"admin", "auditor"}})
	var document struct {
		Paths map[string]map[string]struct {
			Security   []map[string][]string
			Parameters []struct{ Name, In string }
			Responses  map[string]any
		}
	}
	h.get("/openapi.json").want(t, 200, "").into(t, &document)
	asked := 0
	for path, methods := range document.Paths {
		path = strings.NewReplacer("{id}", "apr_x", "{event_id}", "x", "{tile}", "0/000", "{schedule}", "x").Replace(path)
		for method, op := range methods {
			if op.Responses["400"] == nil {
				t.Errorf("%s %s does not document 400", method, path)
			}
			keys := []string{""} // nobody, or who is signed in
			if len(op.Security) > 0 && op.Security[0]["key"] != nil {
				keys = []string{"checking", "ruling", "auditing"}
			}
			ask := func(query string) (answers []reply) {
				for _, key := range keys {
					headers := []string{"Content-Type", "application/json"}
					if key != "" {
						headers = append(headers, "Authorization", "Bearer "+key)
					}
					if answer := h.send(strings.ToUpper(method), path+query, "", headers...); answer.StatusCode != http.StatusForbidden {
						answers = append(answers, answer)
					}
				}
				return answers
			}
			answers := ask("?wiat=25")
			for _, answer := range answers {
				answer.want(t, 400, "unknown_parameter")
				if !strings.Contains(string(answer.body), "wiat") {
					t.Errorf("%s %s does not name it: %s", method, path, answer.body)
				}
				asked++
			}
			if len(answers) == 0 {
				t.Errorf("nobody may call %s %s", method, path)
			}
			for _, p := range op.Parameters {
				if p.In != "query" || method != "get" || path == "/v1/audit/evidence" || path == "/v1/audit/export" {
					continue // this harness makes no packs and no exports
				}
				for _, answer := range ask("?" + p.Name + "=1") {
					var problem struct{ Code, Detail string }
					if json.Unmarshal(answer.body, &problem) == nil && (problem.Code == "unknown_parameter" || strings.Contains(problem.Detail, "does not have")) {
						t.Errorf("%s %s documents %s and refuses it: %s", method, path, p.Name, answer.body)
					}
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d operations were asked", asked)
	}
	for query, code := range map[string]string{"?wait=1&wait=2": "bad_query", "?wait=%zz": "bad_query", "?wait=0;x=1": "bad_query", "?=1": "unknown_parameter", "?hp_secret7=1": "unknown_parameter"} {
		if answer := h.as("checking", http.MethodGet, "/v1/approvals/apr_x"+query, "").want(t, 400, code); strings.Contains(string(answer.body), "secret") {
			t.Errorf("%s is repeated: %s", query, answer.body)
		}
	}
}
