//go:build npm

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func claudeCode(t *testing.T, home, model string) *exec.Cmd {
	program, err := filepath.Abs(filepath.Join(npmDir, "node_modules", "@anthropic-ai", "claude-code-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1), "claude"))
	if err == nil {
		err = os.Chmod(program, 0o755) //nolint:gosec // npm ci --ignore-scripts leaves that to whoever wants to run it
	}
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	cmd := exec.Command(program, "-p", "go on", "--model", "stand-in", "--dangerously-skip-permissions")
	cmd.Env = []string{
		"CLAUDE_CONFIG_DIR=" + home + "/.claude", "ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=sk-none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", // root may not do without permissions elsewhere
	}
	return cmd
}

func claudeCodeResults(path string, body []byte) (results []string, asks bool) {
	var asked struct {
		Tools    []json.RawMessage
		Messages []struct{ Content json.RawMessage }
	}
	if !strings.HasSuffix(path, "/v1/messages") || json.Unmarshal(body, &asked) != nil {
		return nil, false
	}
	for _, message := range asked.Messages {
		var parts []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &parts)
		for _, part := range parts {
			if part.Type == "tool_result" {
				results = append(results, string(part.Content))
			}
		}
	}
	return results, len(asked.Tools) > 0
}

func claudeCodeSays(w http.ResponseWriter, r *http.Request, shell *string) {
	if !strings.HasSuffix(r.URL.Path, "/v1/messages") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"input_tokens":1}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, members map[string]any) { serverEvent(w, kind, members) }
	event("message_start", map[string]any{"message": map[string]any{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": "stand-in", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}})
	stop, block, delta := "end_turn", map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"}
	if shell != nil {
		input, _ := json.Marshal(map[string]any{"command": *shell, "description": "Write a word"})
		stop, block = "tool_use", map[string]any{"type": "tool_use", "id": newID("toolu_"), "name": "Bash", "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
	}
	event("content_block_start", map[string]any{"index": 0, "content_block": block})
	event("content_block_delta", map[string]any{"index": 0, "delta": delta})
	event("content_block_stop", map[string]any{"index": 0})
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 1}})
	event("message_stop", map[string]any{})
}

func serverEvent(w io.Writer, kind string, members map[string]any) {
	members["type"] = kind
	data, _ := json.Marshal(members)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
}

// codex is on the PATH (npm install --global @openai/codex), or what
// HOLDPOINT_TEST_CODEX names: its package has 400 MB.
func codex(t *testing.T, home, model string) *exec.Cmd {
	program := os.Getenv("HOLDPOINT_TEST_CODEX")
	if program == "" {
		var err error
		if program, err = exec.LookPath("codex"); err != nil {
			t.Skip("there is no codex on the PATH")
		}
	}
	dir := filepath.Join(home, ".codex")
	config := fmt.Sprintf(`model = "stand-in"
model_provider = "stand-in"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stand-in]
name = "stand-in"
base_url = "%s/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
request_max_retries = 0
stream_max_retries = 0
`, model)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// Its user trusts the hooks.
	cmd := exec.Command(program, "exec", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "go on")
	cmd.Env = []string{"CODEX_HOME=" + dir, "STAND_IN_KEY=none"}
	return cmd
}

func codexResults(path string, body []byte) (results []string, asks bool) {
	var asked struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if !strings.HasSuffix(path, "/responses") || json.Unmarshal(body, &asked) != nil {
		return nil, false
	}
	for _, item := range asked.Input {
		if item.Type == "function_call_output" {
			results = append(results, string(item.Output))
		}
	}
	return results, true
}

func codexSays(w http.ResponseWriter, r *http.Request, shell *string) {
	if !strings.HasSuffix(r.URL.Path, "/responses") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"models":[],"data":[]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	item := map[string]any{"type": "message", "id": newID("msg_"), "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": "done"}}}
	if shell != nil {
		arguments, _ := json.Marshal(map[string]any{"cmd": *shell})
		item = map[string]any{"type": "function_call", "id": newID("fc_"), "call_id": newID("call_"), "name": "exec_command", "arguments": string(arguments)}
	}
	serverEvent(w, "response.created", map[string]any{"response": map[string]any{"id": "r"}})
	serverEvent(w, "response.output_item.done", map[string]any{"output_index": 0, "item": item})
	serverEvent(w, "response.completed", map[string]any{"response": map[string]any{"id": "r", "usage": map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
}

func geminiCLI(t *testing.T, home, model string) *exec.Cmd {
	program, err := filepath.Abs(filepath.Join(npmDir, "node_modules", "@google", "gemini-cli", "bundle", "gemini.js"))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	cmd := exec.Command("node", program, "--yolo", "--model", "gemini-2.5-flash", "--prompt", "go on")
	cmd.Env = []string{
		"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true",
	}
	file := filepath.Join(home, ".gemini", "settings.json")
	if _, err := os.Stat(file); err == nil {
		return cmd
	}
	settings := `{"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}, "security": {"auth": {"selectedType": "gemini-api-key"}}}`
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func geminiCLIResults(path string, body []byte) (results []string, asks bool) {
	var asked struct {
		Tools    []json.RawMessage
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	if !strings.Contains(path, "enerateContent") || json.Unmarshal(body, &asked) != nil {
		return nil, false
	}
	for _, content := range asked.Contents {
		for _, part := range content.Parts {
			if part.FunctionResponse != nil {
				results = append(results, string(part.FunctionResponse.Response))
			}
		}
	}
	return results, len(asked.Tools) > 0
}

func geminiCLISays(w http.ResponseWriter, r *http.Request, shell *string) {
	part := map[string]any{"text": "done"}
	if shell != nil {
		part = map[string]any{"functionCall": map[string]any{"id": newID("call_"), "name": "run_shell_command", "args": map[string]any{"command": *shell}}}
	}
	data, _ := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	})
	if strings.Contains(r.URL.Path, "stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", data)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

func copilotCLI(t *testing.T, home, model string) *exec.Cmd {
	program, err := filepath.Abs(filepath.Join(npmDir, "node_modules", "@github", "copilot-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1), "copilot"))
	if err == nil {
		err = os.Chmod(program, 0o755) //nolint:gosec // npm ci --ignore-scripts leaves that to whoever wants to run it
	}
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	cmd := exec.Command(program, "-p", "go on", "--allow-all-tools")
	cmd.Env = []string{"COPILOT_HOME=" + home + "/.copilot", "COPILOT_PROVIDER_BASE_URL=" + model + "/v1", "COPILOT_MODEL=stand-in", "COPILOT_OFFLINE=true"}
	return cmd
}

func completionResults(path string, body []byte) (results []string, asks bool) {
	var asked struct {
		Tools    []json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if !strings.HasSuffix(path, "/chat/completions") || json.Unmarshal(body, &asked) != nil {
		return nil, false
	}
	for _, message := range asked.Messages {
		if message.Role == "tool" {
			results = append(results, string(message.Content))
		}
	}
	return results, len(asked.Tools) > 0
}

func completionSays(w http.ResponseWriter, r *http.Request, shell *string) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
		return
	}
	delta, finish := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if shell != nil {
		arguments, _ := json.Marshal(map[string]any{"command": *shell})
		call := map[string]any{"index": 0, "id": newID("call_"), "type": "function", "function": map[string]any{"name": "bash", "arguments": string(arguments)}}
		delta, finish = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": delta, "finish_reason": nil}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		data, _ := json.Marshal(map[string]any{
			"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "stand-in", "choices": []any{choice},
			"usage": map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// openCode is on the PATH (npm install --global opencode-ai), or what
// HOLDPOINT_TEST_OPENCODE names: its package has 180 MB, and fetches more when it starts.
func openCode(t *testing.T, home, model string) *exec.Cmd {
	program := os.Getenv("HOLDPOINT_TEST_OPENCODE")
	if program == "" {
		var err error
		if program, err = exec.LookPath("opencode"); err != nil {
			t.Skip("there is no opencode on the PATH")
		}
	}
	config, _ := json.Marshal(map[string]any{
		"provider": map[string]any{"stand-in": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "options": map[string]any{"baseURL": model + "/v1", "apiKey": "none"},
			"models": map[string]any{"m": map[string]any{"name": "m"}},
		}},
		"model": "stand-in/m", "small_model": "stand-in/m", "autoupdate": false, "share": "disabled", "permission": "allow",
	})
	dir := filepath.Join(home, ".config", "opencode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "opencode.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "run", "go on")
	cmd.Env = []string{ // what plugins may want of npm is not fetched: ours wants nothing
		"npm_config_registry=http://127.0.0.1:9", "npm_config_fetch_retries=0", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
	}
	return cmd
}
