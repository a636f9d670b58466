package threegate

import (
	"regexp"
	"strings"
)

var (
	scheme     = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:[a-z][a-z0-9+.-]*://|(?:file|data|javascript|jar|vbscript|blob):[^ ])`)
	escaped    = regexp.MustCompile(`(?i)%(?:2e|2f|5c|25)`)
	homePath   = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_~/-])~[a-z0-9_-]*/|\$\{?(?:HOME|PWD|OLDPWD|TMPDIR|TEMP|PATH|USER)\b|%(?:USERPROFILE|APPDATA|LOCALAPPDATA|HOMEPATH|SYSTEMROOT|WINDIR|TEMP|PROGRAMFILES)%`)
	windows    = regexp.MustCompile(`(?:^|[^A-Za-z0-9])[A-Za-z]:[\\/]|\\\\[A-Za-z0-9.?]|\.\.\\|(?:^|[ "'(=])\\[A-Za-z0-9_.]+\\`)
	gluedProse = regexp.MustCompile(`^-{1,2}[A-Za-z][A-Za-z0-9-]*/`)
)

// piece is a part of a text that can be a path by itself.
type piece struct {
	text   string
	offset int
}

// pieces cuts a text where a path can begin or end.
func pieces(s, separators string) []piece {
	var list []piece
	start := 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || strings.IndexByte(separators, s[i]) >= 0 {
			if i > start {
				list = append(list, piece{s[start:i], start})
			}
			start = i + 1
		}
	}
	return list
}

const (
	proseSeparators   = " ,;:=@|\"'`()[]{}<>*!?+&^\n"
	commandSeparators = " ,;:=@|\"'`()[]{}<>+&"
)

// prosePaths are the absolute paths in a line of text, without the punctuation
// that ends a sentence.
func prosePaths(line string) []piece {
	if !strings.Contains(line, "/") {
		return nil
	}
	var list []piece
	for _, p := range pieces(line, proseSeparators) {
		p.text = trimSentence(p.text)
		if strings.HasPrefix(p.text, "/") && p.text != "/" {
			list = append(list, p)
		}
	}
	return list
}

// trimSentence drops the full stop or the underscores of emphasis behind a path.
func trimSentence(s string) string {
	trimmed := strings.TrimRight(strings.TrimLeft(s, "_"), "_.")
	if dots := strings.TrimLeft(s[strings.LastIndexByte(s, '/')+1:], "_"); dots == "." || dots == ".." {
		return s // a path that ends in . or .. and no sentence
	}
	return trimmed
}

// hostPath says what is wrong with a piece that may be a path, or nothing.
func hostPath(p string) string {
	if !strings.Contains(p, "/") {
		if p == ".." {
			return "a path that leads out of its directory"
		}
		return ""
	}
	for i, segment := range strings.Split(p, "/") {
		if segment == "." || segment == ".." {
			return "a path with . or .. in it"
		}
		if segment == "" && i > 0 && i < strings.Count(p, "/") {
			return "a path with // in it"
		}
	}
	if p[0] != '/' {
		return ""
	}
	for _, root := range []string{inRoot, outRoot} {
		if name, found := strings.CutPrefix(p, root); found && isSafeName(strings.TrimSuffix(name, "/")) {
			return ""
		}
	}
	return "an absolute path that is not under /in/ or /out/"
}

// commandPaths applies X2, I5 and O3 to the words of the command.
func (c *checker) commandPaths(words []word, line int) {
	for _, w := range words {
		if problem := wordProblem(w.text); problem != "" {
			c.add("X2", line, "the command holds %s; name files as /in/… and /out/…, or relative to where it runs", problem)
		}
		for _, p := range pieces(w.text, commandSeparators) {
			if _, declared := c.request.input(p.text); strings.HasPrefix(p.text, inRoot) && !declared && c.root != nil {
				c.add("I5", line, "%s is not declared under inputs", show(p.text))
			}
			if strings.HasPrefix(p.text, outRoot) && !c.request.hasOutput(p.text) && c.root != nil {
				c.add("O3", line, "%s is not declared under outputs_expected", show(p.text))
			}
		}
	}
}

// wordProblem says what is wrong with a word of the command as a path.
func wordProblem(w string) string {
	drive := colonInWord(w)
	if drive && scheme.MatchString(w) {
		return "a URL"
	}
	if strings.Contains(w, "%") && escaped.MatchString(w) || (drive || strings.Contains(w, `\`)) && windows.MatchString(w) ||
		strings.ContainsAny(w, "~$%") && homePath.MatchString(w) {
		return "a path in disguise"
	}
	if w == "." {
		return "the directory ."
	}
	option, value, _ := strings.Cut(w, "=")
	if strings.HasPrefix(w, "-") && (strings.Contains(option, "/") || strings.Contains(option, "..")) {
		return "a path glued to an option"
	}
	if i := strings.IndexByte(w, '@'); i >= 0 && strings.Contains(w[i:], "/") {
		return "a path behind an @"
	}
	if value == "." {
		return "the directory ."
	}
	for _, p := range pieces(w, commandSeparators) {
		if problem := hostPath(p.text); problem != "" {
			return problem
		}
		if strings.Contains(p.text, "/.") {
			return "a path into a hidden directory"
		}
		if strings.HasPrefix(p.text, ".") && strings.Contains(p.text, "/") {
			return "a path into a hidden directory"
		}
	}
	return ""
}

// colonInWord reports a colon between a letter and something, as URLs and drives
// have it.
func colonInWord(line string) bool {
	for i := 1; i+1 < len(line); i++ {
		if line[i] == ':' && line[i+1] != ' ' && (line[i-1]|0x20 >= 'a' && line[i-1]|0x20 <= 'z' || line[i+1] == '/') {
			return true
		}
	}
	return false
}

// proseProblem says what is wrong with the paths of a line of text.
func proseProblem(line string) string {
	drive := colonInWord(line)
	if drive && scheme.MatchString(line) {
		return "a URL"
	}
	if (drive || strings.Contains(line, `\`)) && windows.MatchString(line) || strings.ContainsAny(line, "~$%") && homePath.MatchString(line) {
		return "a path of the host"
	}
	if !strings.Contains(line, "/") && !strings.Contains(line, "..") {
		return ""
	}
	for _, p := range pieces(line, proseSeparators) {
		text := trimSentence(p.text)
		if text == "/" || text == "/-" || text == "/in" || text == "/out" || text == inRoot || text == outRoot {
			continue
		}
		if problem := hostPath(text); problem != "" {
			return problem
		}
		if gluedProse.MatchString(text) {
			return "a path glued to an option"
		}
	}
	return ""
}
