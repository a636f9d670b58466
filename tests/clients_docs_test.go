package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// quotedFile is a block of a page that is the text of a file, quotedLine one that is a line
// of it.
var (
	quotedFile = regexp.MustCompile("(?s)<!-- (clients/\\S+) -->\n```\\w+\n(.*?)```\n")
	quotedLine = regexp.MustCompile("<!-- of (tests/testdata/\\S+) -->\n```\\w+\n(.*)\n```\n")
)

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
		for _, m := range quotedLine.FindAllStringSubmatch(text, -1) {
			file, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil || !regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(m[2])+`$`).Match(file) {
				t.Errorf("%s: %s does not have the line %q (%v)", path, m[1], m[2], err)
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
	for _, name := range []string{
		"clients/shell/examples/requests.sh", "clients/temporal/example/main.go", "tests/testdata/aana/agent.py", "tests/testdata/aana/agent.mjs",
	} {
		if !quoted[name] {
			t.Errorf("no page quotes %s", name)
		}
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

// TestLinesOfFrameworks: docs/frameworks.md says how many lines each example has more than the
// same program without approval, and how many of that program's differ.
func TestLinesOfFrameworks(t *testing.T) {
	lines := func(path string) (count map[string]int, all int) {
		count = map[string]int{}
		for line := range strings.Lines(fileText(path)) {
			if line = strings.TrimSpace(line); line != "" {
				count[line]++
				all++
			}
		}
		return count, all
	}
	const page = "../docs/frameworks.md"
	_, loop := lines("../clients/typescript/examples/loop.mjs")
	names := map[string]string{"openai_agents": "OpenAI Agents SDK", "vercel_ai": "Vercel AI SDK", "langgraph": "LangGraph.js", "google_adk": "Google's ADK"}
	for _, framework := range frameworks {
		plain, before := lines("testdata/plain/" + framework + ".mjs")
		example, after := lines("../clients/typescript/examples/" + framework + ".mjs")
		if before == 0 || after == 0 {
			t.Fatalf("%s has %d lines, and %d without approval", framework, after, before)
		}
		changed := 0
		for line, n := range plain {
			changed += max(0, n-example[line])
		}
		// Of the loop, the tool and the call are no lines for approval.
		want := fmt.Sprintf("| %s | %d, and what parks it | %d new, %d changed |\n", names[framework], loop-2, after-before, changed)
		if !strings.Contains(fileText(page), want) {
			t.Errorf("%s does not have %q", page, want)
		}
	}
}

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
		"temporal": func(t *testing.T, name string) []string {
			program := filepath.Join(t.TempDir(), "agent")
			runClientTests(t, ".", "go", "build", "-o", program, goClient+"/temporal/"+name)
			return []string{program}
		},
	} {
		examples := clientExamples
		switch language {
		case "shell":
			examples = []clientExample{{"requests", "send_payment", "paid 12.5 to Paper & Pens Ltd."}}
		case "temporal":
			examples = []clientExample{{"example", "SendPayment", "paid 12.50 to Paper & Pens Ltd."}}
		}
		for _, example := range examples {
			t.Run(language+" "+example.name, func(t *testing.T) {
				args := command(t, example.name)
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = t.TempDir()
				cmd.Env = environment("HOLDPOINT_URL="+d.URL, "HOLDPOINT_API_KEY="+agent.client.key, "PYTHONPATH="+filepath.Join(here, "python"),
					"TEMPORAL_ADDRESS="+d.Temporal, "TEMPORAL_NAMESPACE=holdpoint")
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

// TestRequestsByCurlPayWhatWasApproved: a reviewer has changed the arguments.
func TestRequestsByCurlPayWhatWasApproved(t *testing.T) {
	needs(t, "curl")
	needs(t, "jq")
	d := onCalled(t)
	agent := newClientAgent(t, d, clientLanguage{})
	agent.apart()
	cmd := exec.Command("sh", "../clients/shell/examples/requests.sh")
	cmd.Env = environment("HOLDPOINT_URL="+d.URL, "HOLDPOINT_API_KEY="+agent.client.key)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	endsBy(t, cmd)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	edited := map[string]any{"amount": 7.25, "to": "Paper & Pens Ltd."}
	d.reviewer(t, 0).approve(d.reviewer(t, 1).edit(agent.opened("send_payment&status=pending"), edited).want(t, 200).approval(t))
	if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != "paid 7.25 to Paper & Pens Ltd." {
		t.Errorf("%v\n%s%s", err, &out, &errs)
	}
}

// TestRequestsByCurlEnd: where nothing waits, the three requests say what was answered, ask for
// no approval without a name, and pay nothing.
func TestRequestsByCurlEnd(t *testing.T) {
	needs(t, "curl")
	needs(t, "jq")
	d := onCalled(t)
	for what, c := range map[string]struct{ url, key, want string }{
		"a wrong key": {d.URL, "hp_nobody", `"code":"unauthenticated"`}, "no server": {"http://127.0.0.1:1", d.AgentKey, "curl: (7)"},
	} {
		cmd := exec.Command("sh", "../clients/shell/examples/requests.sh")
		cmd.Env = environment("HOLDPOINT_URL="+c.url, "HOLDPOINT_API_KEY="+c.key)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err == nil || out.String() != "" || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "null") || strings.Count(errs.String(), "curl:") != 1 {
			t.Errorf("%s: %v\n%s%s", what, err, &out, &errs)
		}
	}
}
