package stakes

import (
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// tools are those of coding agents, as their hooks call them, in lower case, such as of Claude
// Code, Codex, Gemini CLI and Copilot CLI. Where another tool has such a name, its
// arguments have to have the same names, too.
var tools = map[string]func(*call) (matchedTemplate, bool){
	"edit": replacement, "multiedit": replacement, "replace": replacement, "str_replace": replacement, "str_replace_editor": replacement,
	"notebookedit": notebookEdit,
	"apply_patch":  patched, "applypatch": patched, "patch": patched,
	"read_many_files": reading, "notebookread": reading,
	"ls": listing, "list_directory": listing, "list_dir": listing,
	"glob": finding, "find_files": finding,
	"grep": searching, "grep_search": searching, "search_file_content": searching, "rg": searching,
	"webfetch": fetching, "web_fetch": fetching, "fetch": fetching,
	"websearch": webSearch, "web_search": webSearch, "google_web_search": webSearch,
	"task": agent, "agent": agent,
	"killshell": shellOf("Stop the shell", Unsaid), "kill_shell": shellOf("Stop the shell", Unsaid), "killbash": shellOf("Stop the shell", Unsaid),
	"bashoutput": shellOf("Read what the shell prints,", Low), "bash_output": shellOf("Read what the shell prints,", Low),
	"todowrite": todos, "write_todos": todos,
	"save_memory": memory,
	"skill":       skill,
}

// ofCodingAgent is a call of a tool of a coding agent.
func ofCodingAgent(c *call) (f matchedTemplate, ok bool) {
	of := tools[strings.ToLower(c.tool)]
	if of == nil {
		return f, false
	}
	return of(c)
}

const filePaths = "file_path path absolute_path filepath filename"

// replacement replaces text of a file.
func replacement(c *call) (f matchedTemplate, ok bool) {
	place, from, to := c.slot(filePaths), c.slot("old_string old_str"), c.slot("new_string new_str")
	edits, _ := c.args.Get("edits")
	switch {
	case place == "":
		return f, false
	case edits.Kind() == canon.ArrayKind && edits.Len() > 0 && from == "":
		f.text = with("Edit *", place, "path") + ": " + plural(edits.Len(), "{edits|count} replacement", "{edits|count} replacements")
	case from == "" || to == "":
		return f, false
	case c.text(from) == "":
		f.text = with("Write *", place, "path") + with(": ", to, "line")
	case c.text(to) == "":
		f.text = with("Edit *", place, "path") + with(": take out ", from, "line")
	default:
		f.text = with("Edit *", place, "path") + with(": replace ", from, "line") + with(" with ", to, "line")
	}
	for _, name := range []string{"replace_all", "allow_multiple"} {
		if v, _ := c.args.Get(name); v.Kind() == canon.BoolKind && v.Bool() {
			f.notes = append(f.notes, "wherever the file has it")
		}
	}
	c.markActing(&f, place)
	return f, true
}

// notebookEdit changes a cell of a notebook.
func notebookEdit(c *call) (f matchedTemplate, ok bool) {
	place, source := c.slot("notebook_path"), c.slot("new_source")
	if place == "" {
		return f, false
	}
	cell := with(", cell ", c.slot("cell_id"), "")
	switch c.text("edit_mode") {
	case "delete":
		f.text, f.danger = with("Delete from the notebook *", place, "path")+cell, Medium
	case "insert":
		f.text = with("Insert a cell into the notebook *", place, "path") + with(", behind cell ", c.slot("cell_id"), "") + with(": ", source, "line")
	default:
		f.text = with("Change the notebook *", place, "path") + cell + with(": ", source, "line")
	}
	return f, true
}

// patched changes files by a patch.
func patched(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("patch diff input command")
	text, whole := shorten(c.text(place), maxLooked)
	p := readPatch(text)
	if place == "" || len(p.files) == 0 {
		return f, false
	}
	in := c.slot("repository repo project cwd workdir")
	f.text = "Change files by a patch" + with(" in *", in, "") + with(": ", place, "patch")
	if p.deletes {
		f.danger = High
	}
	if slices.ContainsFunc(p.files, func(file patchFile) bool {
		return file.before != "copy " && (acts(file.name) || acts(c.text(in)+"/"+file.name))
	}) {
		f.danger, f.notes = High, append(f.notes, actsByItself)
	}
	if !whole {
		f.danger, f.notes = High, append(f.notes, tooLong)
	}
	return f, true
}

func reading(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("paths include notebook_path " + filePaths)
	f.text, f.danger = with("Read *", place, "list"), Low
	return f, place != ""
}

func listing(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("path dir_path directory relative_workspace_path")
	f.text, f.danger = with("List the directory *", place, "path"), Low
	return f, place != ""
}

func finding(c *call) (f matchedTemplate, ok bool) {
	pattern := c.slot("pattern glob glob_pattern")
	f.text, f.danger = with("Find files by name: ", pattern, "")+with(" in *", c.slot("path dir_path directory"), "path"), Low
	return f, pattern != ""
}

func searching(c *call) (f matchedTemplate, ok bool) {
	pattern := c.slot("pattern query regex")
	f.text, f.danger = with("Search files for ", pattern, "line")+with(" in *", c.slot("path dir_path directory"), "path")+with(", of those named ", c.firstOf("glob include include_pattern"), "list"), Low
	return f, pattern != ""
}

// fetching reads a page of the web. What its address holds goes there.
func fetching(c *call) (f matchedTemplate, ok bool) {
	place, prompt := c.slot("url uri"), c.slot("prompt")
	switch {
	case c.slot("method") != "": // a request like any other
		return f, false
	case place != "":
		f.text = with("Fetch from *", place, "host") + with(": ", place, "") + with(", to answer ", prompt, "line")
	default:
		f.text = with("Fetch the addresses in: ", prompt, "line")
	}
	return f, place+prompt != ""
}

func webSearch(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("query")
	f.text = with("Search the web for ", place, "line")
	return f, place != ""
}

// agent starts another agent. What it will do, its prompt says.
func agent(c *call) (f matchedTemplate, ok bool) {
	prompt := c.slot("prompt")
	f.text = "Start another agent" + with(", ", c.slot("subagent_type agent_type agent_name"), "") + with(", to do ", prompt, "line")
	return f, prompt != ""
}

func shellOf(words string, danger Danger) func(*call) (matchedTemplate, bool) {
	return func(c *call) (matchedTemplate, bool) {
		place := c.slot("shell_id bash_id task_id")
		return matchedTemplate{text: words + with(" *", place, ""), danger: danger}, place != ""
	}
}

func todos(c *call) (f matchedTemplate, ok bool) {
	list, _ := c.args.Get("todos")
	f.text, f.danger = "Write its own list of "+plural(list.Len(), "{todos|count} task", "{todos|count} tasks"), Low
	return f, list.Kind() == canon.ArrayKind
}

func memory(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("fact")
	f.text = with("Remember for later sessions: ", place, "line")
	return f, place != ""
}

func skill(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("skill command")
	f.text = with("Use the skill *", place, "") + with(", with ", c.slot("args"), "line")
	return f, place != ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// outside reports whether a command asks to run outside of the sandbox of its host.
func (c *call) outside() bool {
	for _, name := range []string{"dangerouslyDisableSandbox", "with_escalated_permissions"} {
		if v, _ := c.args.Get(name); v.Kind() == canon.BoolKind && v.Bool() {
			return true
		}
	}
	return c.text("sandbox_permissions") == "require_escalated"
}
