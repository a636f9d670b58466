package enforce

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

func TestLoadNamesMistakes(t *testing.T) {
	const good = "routes:\n  - {tool: t, method: GET, path: /a}\n"
	if _, err := Load([]byte(good), "r.yaml"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                     "r.yaml:",
		"routes: []":                           "has the list routes",
		"routes: 1":                            "has the list routes",
		good + "more: 1\n":                     "nothing else",
		strings.Replace(good, "t,", `"",`, 1):  "r.yaml:2:",
		strings.Replace(good, "GET", "get", 1): "want GET",
		strings.Replace(good, "GET", "CONNECT", 1):                                           "want GET",
		strings.Replace(good, "/a", "a", 1):                                                  "begin with a slash",
		strings.Replace(good, "/a", "/a//b", 1):                                              "empty",
		strings.Replace(good, "/a", `"/a%20"`, 1):                                            "other characters",
		strings.Replace(good, "/a", `"/{id}/{id}"`, 1):                                       "one name",
		strings.Replace(good, "/a", `"/{id}/{ID}"`, 1):                                       "one name",
		strings.Replace(good, "/a}", "/a, query: [x, X]}", 1):                                "one name",
		strings.Replace(good, "/a}", `"/{id}", query: [Id]}`, 1):                             "one name",
		strings.Replace(good, "/a", `"/{}"`, 1):                                              "one name",
		strings.Replace(good, "path", "paths", 1):                                            "no key of a route",
		strings.Replace(good, "/a}", "/a, headers: [authorization]}", 1):                     "not forwarded",
		strings.Replace(good, "/a}", "/a, query: x}", 1):                                     "list of names",
		strings.Replace(good, "/a}", "/a, constraints: 1}", 1):                               "true or false",
		good + "  - {tool: u, method: GET, path: \"/{id}\"}\n":                               "let their paths differ",
		good + "  - {tool: u, method: GET, path: /a}\n  - {tool: v, method: GET, path: b}\n": "begin with a slash",
	} {
		if _, err := Load([]byte(text), "r.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

// TestDocumentedRoutesWork: the routes of docs/enforce.md are read, and the request that it names is the
// call that it names.
func TestDocumentedRoutesWork(t *testing.T) {
	page, err := os.ReadFile("../../docs/enforce.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	_, block, _ := strings.Cut(text, "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	routes, err := Load([]byte(block), "docs/enforce.md")
	if err != nil {
		t.Fatal(err)
	}
	const request, tool, arguments = "/accounts/7?reason=moved", "close_account", `{"account_id": "7", "reason": "moved"}`
	if !strings.Contains(text, "`DELETE "+request+"` is\n`"+tool+"` with `"+arguments+"`") {
		t.Error("the page names another request or call")
	}
	got, refused := routes.read(httptest.NewRequest("DELETE", request, nil), nil)
	if want, err := canon.Parse([]byte(arguments)); err != nil || refused != nil || got.tool != tool || canon.Digest(got.tool, got.arguments) != canon.Digest(tool, want) {
		t.Errorf("it is %+v, %v (%v)", got, refused, err)
	}
}

// What is read of a request is what is forwarded: written again and read again, it is
// the same call.
func FuzzRead(f *testing.F) {
	routes, err := Load([]byte(routesFile), "routes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("DELETE", "/accounts/a-1?reason=x+y%26z", "")
	f.Add("POST", "/transfers", transfer)
	f.Add("DELETE", "/accounts/a%2fb", `{"reason":1}`)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if strings.ContainsAny(method+target, " \r\n\t\x00") || !strings.HasPrefix(target, "/") || method == "" {
			return
		}
		defer func() { _ = recover() }() // httptest refuses what is no request line
		r := httptest.NewRequest(method, target, nil)
		c, refused := routes.read(r, []byte(body))
		if refused != nil {
			return
		}
		again, refused := routes.read(httptest.NewRequest(method, c.target.String(), nil), []byte(body))
		if refused != nil || again.tool != c.tool || canon.Digest(again.tool, again.arguments) != canon.Digest(c.tool, c.arguments) {
			t.Errorf("%s %s: the call changes on its way", method, target)
		}
	})
}
