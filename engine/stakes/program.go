package stakes

import (
	"regexp"
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// sqlBegins is what a query begins with.
var sqlBegins = regexp.MustCompile(`(?is)\A\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|insert|update|delete|merge|drop|alter|create|truncate|grant|revoke|with|begin|explain|copy|call)\b`)

// maxLooked bounds, in bytes, what of a query or a patch is looked through for what
// makes it dangerous.
const maxLooked = 64 << 10

const tooLong = "it is too long to be looked through"

// shorten is what of a text is looked through, at most so many bytes, and whether that is all
// of it.
func shorten(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, true
	}
	return text[:most], false
}

// query is an SQL statement.
func query(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("sql query statement")
	text, whole := shorten(c.text(place), maxLooked)
	if !sqlBegins.MatchString(text) {
		return f, false
	}
	f.text = "Run SQL" + with(" on *", c.slot("database db database_name dsn_name connection instance project"), "") + with(": ", place, "line")
	found := wordsFound(text, "drop", "truncate", "delete", "alter", "grant", "revoke", "update", "insert", "merge", "create", "copy", "call")
	if len(found) > 0 {
		f.notes = append(f.notes, "it holds "+strings.ToUpper(strings.Join(found, ", ")))
	}
	if n := statements(text); n > 1 {
		f.notes = append(f.notes, counted(n, "statement", "statements"))
	}
	for _, each := range strings.Split(text, ";") {
		if has := wordsFound(each, "delete", "update", "where"); len(has) > 0 && !slices.Contains(has, "where") {
			f.danger = High
			f.notes = append(f.notes, "no WHERE: every row")
			break
		}
	}
	switch {
	case !whole:
		f.danger, f.notes = High, append(f.notes, tooLong)
	case len(found) == 0:
		f.danger = Low
	case slices.ContainsFunc(found, func(w string) bool {
		return slices.Contains([]string{"drop", "truncate", "delete", "alter", "grant"}, w)
	}):
		f.danger = High
	default:
		f.danger = max(f.danger, Medium)
	}
	return f, true
}

// wordsFound are those of the words that are anywhere in a text, comments and strings
// of it, too: a word too many does less harm than one too few.
func wordsFound(text string, words ...string) []string {
	there := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		there[w] = true
	}
	return slices.DeleteFunc(words, func(w string) bool { return !there[w] })
}

// statements counts what is between semicolons.
func statements(text string) int {
	n := 0
	for _, each := range strings.Split(text, ";") {
		if strings.TrimSpace(each) != "" {
			n++
		}
	}
	return n
}

// maxCommand bounds, in bytes, what of a command is looked through. One that is longer is a
// program, and counts as dangerous.
const maxCommand = 8 << 10

// dangers are what makes a command dangerous, and what is said of it. Each pattern is tried
// only where one of its words is, because lists describe the same calls again and again.
var dangers = []struct {
	note    string
	words   []string // in lower case
	pattern *regexp.Regexp
}{
	{"it deletes with rm", []string{"rm"}, regexp.MustCompile(`(?i)(?:^|[^\w-])rm(?:\s|$)`)},
	{"it deletes with find", []string{"-delete"}, regexp.MustCompile(`(?is)\bfind\b.*\s-delete\b`)},
	{"it destroys what is in files", []string{"shred", "wipefs", "srm", "truncate"}, regexp.MustCompile(`(?i)\b(shred|wipefs|srm)\b|\btruncate\b.*\s(-\w*s|--s)`)},
	{"it drops what is in a database", []string{"drop", "truncate"}, regexp.MustCompile(`(?i)\bdrop\s+(table|database|schema|view|user|role)\b|\bdropdb\b|\btruncate\s+table\b`)},
	{"it runs as root", []string{"sudo", "doas"}, regexp.MustCompile(`(?i)\b(sudo|doas)\b`)},
	{"it writes to a disk", []string{"mkfs", "of=", "/dev/"}, regexp.MustCompile(`(?i)\bmkfs|\bdd\b.*\bof=|>\s*/dev/(sd|nvme|disk)`)},
	{"it stops the machine", []string{"shutdown", "reboot", "halt", "poweroff"}, regexp.MustCompile(`(?i)\b(shutdown|reboot|halt|poweroff)\b`)},
	{"it deletes with kubectl, terraform or helm", []string{"kubectl", "terraform", "tofu", "pulumi", "helm"}, regexp.MustCompile(`(?i)\bkubectl\b.*\bdelete\b|\b(terraform|tofu|pulumi)\b.*\bdestroy\b|\bhelm\b.*\s(uninstall|un|delete|del)\b`)},
	{"it forces a push", []string{"push"}, regexp.MustCompile(`(?i)\bgit\b.*\bpush\b.*(\s-\w*f|--force|--mirror|\s["']?\+\S)`)},
	{"it deletes a branch or tag where it pushes to", []string{"push"}, regexp.MustCompile(`(?i)\bgit\b.*\bpush\b.*\s(-\w*d|--delete|--prune|["']?:\S)`)},
	{"it throws work in git away", []string{"git"}, regexp.MustCompile(`(?i)\bgit\b.*\b(?:reset\b.*--ha|clean\b.*\s(?:-\w*f|--f)|(?:checkout|switch)\b.*\s(?:-\w*f|--f|--discard)|stash\s+(?:drop|clear)|branch\b.*\s(?-i:-\w*D))`)},
	{"it writes where files are run by themselves, or say who gets in", []string{">", "tee", "dd", "cp", "mv", "install", "ln", "rsync", "scp", "sed", "perl", "ruby", "awk", "yq", "crontab", "curl", "wget", "tar", "unzip"}, intoActingPlaces},
	{"it opens permissions to everybody", []string{"chmod", "mkdir", "install"}, toEverybody},
}

// A command that runs a text which is not in it: what it downloads, decodes, or has another
// command print. Each is found also where it is between other steps.
var (
	downloads = regexp.MustCompile(`(?i)\b(curl|wget|aria2c|fetch|iwr|irm|invoke-webrequest|invoke-restmethod|ncat|nc)\b|/dev/(tcp|udp)/`)
	decodes   = regexp.MustCompile(`(?i)\b(base(64|32)|xxd|openssl|uudecode|gpg)\b[^|;&\n]*\s(?:-\w*[dr]|--d)|\b(frombase64string|b64decode|unhexlify)\b`)
	runsText  = regexp.MustCompile(`(?im)` + strings.Join([]string{
		// into a shell: | sudo bash, | tee x | sh
		`\|&?\s*((sudo|doas|env|exec|nohup|command|time|xargs|nice|setsid|stdbuf|timeout(?:\s+-\S+(?:\s+[\d.]+[smhd]?)?)*\s+[\d.]+[smhd]?)\s+(-\S+\s+(?:\w[^\s=/]*\s+)??|\w+=\S*\s+)*)*` + shell + `(\s|$|[)"';|&])`,
		// into another interpreter, which has no program of its own
		`\|&?\s*((sudo|env)\s+)?(\S*/)?(python[0-9.]*|perl|ruby|node|php|pwsh|powershell)(?:\s+-[bdioqsuvxw]+|\s+--\w[\w-]*(?:=\S+)?)*\s*-?\s*($|[)"';|&])`,
		// of what another command prints: bash -c "$(…)", eval "$(…)", source <(…)
		shell + `\s+(-\S+\s+)*-\w*c\s*["']?\s*(\$\(|` + "`" + `)`,
		`\beval\b[^;|&\n]*(\$\(|` + "`" + `)`,
		`(^|[\s;&|(])(source|\.|` + shell + `)\s+<\(`,
		`(?:^|[\s;&|(])(iex|invoke-expression)\b`,
	}, "|"))
	runsFile = regexp.MustCompile(`(?im)[;&\n]\s*((sudo|doas|env|exec|nohup)\s+)*(` + shell + `|source|\.)\s+[^\s<-]|\bchmod\b[^;|&\n]*\s(?:[ugoa]*[+=]\w*x|[0-7]?[1357][0-7]{2}\b)`)
)

// shell is the name of one, with its folder or without.
const shell = `(?:\S*/)?(?:ba|z|k|da|a|fi|c|tc)?sh`

// unquoted is a command as a shell reads its words: without the quotation marks, backslashes
// and separators that may stand inside of a name.
var unquoted = strings.NewReplacer(`"`, "", "'", "", `\`, "", "${IFS}", " ", "$IFS", " ")

// runsWhat says what a command runs that is not in it; "" for nothing. lower is the command in
// lower case.
func runsWhat(text, lower string) string {
	runs := holdsAny(lower, "|", "$(", "`", "<(", "iex", "invoke-expression") && runsText.MatchString(text)
	file := holdsAny(lower, "sh", "source", ".", "chmod") && runsFile.MatchString(text)
	switch {
	case (runs || file) && downloads.MatchString(text):
		return "it runs what it downloads"
	case runs && decodes.MatchString(text):
		return "it runs what it decodes"
	case runs:
		return "it runs what another command prints"
	}
	return ""
}

func holdsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// dangersOf says what makes a command dangerous.
func dangersOf(text string) (notes []string) {
	lower := strings.ToLower(text)
	for _, d := range dangers {
		if holdsAny(lower, d.words...) && d.pattern.MatchString(text) {
			notes = append(notes, d.note)
		}
	}
	if note := runsWhat(text, lower); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// command is a command of a shell, or a program with its arguments.
func command(c *call) (f matchedTemplate, ok bool) {
	place := c.slot("command cmd script argv code")
	if place == "" || !c.nameHas("shell bash sh exec execute run command terminal ssh script process python code powershell") {
		return f, false
	}
	v, _ := at(c.args, strings.Split(place, "."))
	format, text := "line", v.Str()
	if v.Kind() == canon.ArrayKind {
		var words []string
		for _, each := range v.Elements() {
			words = append(words, each.Str())
		}
		format, text = "list", strings.Join(words, " ")
	}
	f.text = "Run" + with(" on *", c.slot("host hostname server machine container pod"), "") + with(" in ", c.firstOf("cwd workdir working_directory working_dir directory dir_path"), "path") +
		with(": ", place, format)
	f.danger = Medium
	text, whole := shorten(text, maxCommand)
	if !whole {
		f.danger, f.notes = High, []string{tooLong}
	}
	if c.outside() {
		f.danger, f.notes = High, append(f.notes, "it asks to run outside of its sandbox")
	}
	found := dangersOf(text)
	if bare := unquoted.Replace(text); bare != text {
		for _, note := range dangersOf(bare) {
			if !slices.Contains(found, note) {
				found = append(found, note)
			}
		}
	}
	if len(found) > 0 {
		f.danger, f.notes = High, append(f.notes, found...)
	}
	return f, true
}
