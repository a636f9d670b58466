package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// quotedFile is a block of a page that is the text of a file.
var quotedFile = regexp.MustCompile("(?s)<!-- (clients/\\S+) -->\n```\\w+\n(.*?)```\n")

// TestPagesQuoteClients: what pages show of the clients is in files, which
// TestClientsExamples runs.
func TestPagesQuoteClients(t *testing.T) {
	quoted := map[string]bool{}
	eachFile(t, []string{".md"}, func(path, text string) {
		for _, m := range quotedFile.FindAllStringSubmatch(text, -1) {
			file, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil || string(file) != m[2] {
				t.Errorf("%s does not quote %s as it is (%v)", path, m[1], err)
			}
			quoted[m[1]] = true
		}
	})
	for _, language := range []string{"python", "typescript", "go"} {
		for _, example := range clientExamples {
			files, err := filepath.Glob("../clients/" + language + "/*/" + example.name + "*")
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			if info, err := os.Stat(files[0]); err == nil && info.IsDir() {
				files[0] += "/main.go"
			}
			if name := strings.TrimPrefix(files[0], "../"); !quoted[name] {
				t.Errorf("no page quotes %s", name)
			}
		}
	}
	if !quoted["clients/shell/examples/requests.sh"] {
		t.Error("no page quotes the requests by curl")
	}
	for _, framework := range append([]string{"langgraph_webhook"}, frameworks...) {
		if name := "clients/typescript/examples/" + framework + ".mjs"; !quoted[name] {
			t.Errorf("no page quotes %s", name)
		}
	}
}

// frameworks are the agent frameworks that the TypeScript client has adapters for, as their
// examples are named, which TestFrameworksExamples runs.
var frameworks = []string{"openai_agents", "vercel_ai", "langgraph", "google_adk"}

type clientExample struct{ name, tool, want string }

var clientExamples = []clientExample{
	{"ten_lines", "send_payment", "paid 12.50 to Paper & Pens Ltd."},
	{"loop", "refund", "paid 12.50 for 4711\napproved"},
}

// TestClientsExamples runs what the pages show, as it is.
func TestClientsExamples(t *testing.T) {
	d := onCalled(t)
	here, err := filepath.Abs("../clients")
	if err != nil {
		t.Fatal(err)
	}
	agent := newClientAgent(t, d, clientLanguage{})
	agent.apart() // other tests leave calls of these tools behind
	for language, command := range map[string]func(t *testing.T, name string) []string{
		"python": func(t *testing.T, name string) []string {
			needs(t, "python3")
			return []string{"python3", "-B", filepath.Join(here, "python/examples", name+".py")}
		},
		"typescript": func(t *testing.T, name string) []string {
			needs(t, "node")
			return []string{"node", filepath.Join(here, "typescript/examples", name+".mjs")}
		},
		"go": func(t *testing.T, name string) []string { return []string{buildOutside(t, name)} },
		"shell": func(t *testing.T, name string) []string {
			needs(t, "curl")
			needs(t, "jq")
			return []string{"sh", filepath.Join(here, "shell/examples", name+".sh")}
		},
	} {
		examples := clientExamples
		if language == "shell" {
			examples = []clientExample{{"requests", "send_payment", "paid 12.50 to Paper & Pens Ltd."}}
		}
		for _, example := range examples {
			t.Run(language+" "+example.name, func(t *testing.T) {
				args := command(t, example.name)
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = t.TempDir()
				cmd.Env = environment("HOLDPOINT_URL="+d.URL, "HOLDPOINT_API_KEY="+agent.client.key, "PYTHONPATH="+filepath.Join(here, "python"))
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				var out, errs strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &errs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				endsBy(t, cmd)
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				a := &clientAgent{t: t, d: d, client: agent.client}
				d.reviewer(t, 0).approve(a.opened(example.tool + "&status=pending"))
				if err := cmd.Wait(); err != nil || strings.TrimSuffix(strings.TrimSpace(out.String()), " <nil>") != example.want {
					t.Errorf("%v\n%s%s", err, &out, &errs)
				}
			})
		}
	}
}
