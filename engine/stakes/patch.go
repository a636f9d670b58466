package stakes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// patchFile is a file that a patch changes.
type patchFile struct{ before, name string } // words before its name, and that

// moved is before the name that a file has afterwards.
const moved = " to "

// patch is what a patch changes.
type patch struct {
	files          []patchFile
	added, removed int
	deletes        bool
	// odd says that lines of it are of no form that is known here. They may change more.
	odd bool
}

var (
	hunkHead = regexp.MustCompile(`\A@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	// preamble is what Git writes beside a file's names.
	preamble = regexp.MustCompile(`\A(index |(old|new) (file )?mode |(new|deleted) file mode |(dis)?similarity index )`)
	// actions of the patches that Codex takes.
	actions = regexp.MustCompile(`\A\*\*\* (Add|Update|Delete) File: (.+)\z`)
)

// readPatch reads a unified diff, or a patch as Codex takes it. A line of a hunk is never
// taken for a file's name, and what is no line of either is said to be odd.
func readPatch(text string) (p patch) {
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	from, verb, unnamed := "", "", false
	first := slices.IndexFunc(lines, func(l string) bool { l = strings.TrimSpace(l); return l != "" && !strings.HasPrefix(l, "<<") })
	codex := first >= 0 && strings.TrimSpace(lines[first]) == "*** Begin Patch" // else it is none that Codex takes
	minus, plus := 0, 0                                                         // what a hunk still has of each side
	under := ""                                                                 // the action of Codex' that a line is under
	for i, line := range lines {
		// Codex takes a head with blanks around it as well, and then this is no line of a file.
		// Where it takes it as one, the patch is said to do more than it does.
		head := strings.TrimFunc(line, unicode.IsSpace)
		padded := codex && head != line && strings.HasPrefix(head, "***")
		p.odd = p.odd || padded && i != first
		switch action := actions.FindStringSubmatch(head); {
		case minus > 0 || plus > 0: // in a hunk of a diff
			switch {
			case strings.HasPrefix(line, "+"):
				p.added, plus = p.added+1, plus-1
			case strings.HasPrefix(line, "-"):
				p.removed, minus = p.removed+1, minus-1
			case strings.HasPrefix(line, " ") || line == "":
				minus, plus = minus-1, plus-1
			case !strings.HasPrefix(line, `\`):
				p.odd = true
			}
		case codex && action != nil:
			under = action[1]
			p.add(map[string]patchFile{"Add": {before: "add "}, "Delete": {before: "delete "}}[under], strings.TrimSpace(action[2]))
			p.deletes = p.deletes || under == "Delete"
		case codex:
			p.odd = p.odd || head != "" && head != "*** End Patch" && (under == "Delete" || under == "Add" && !strings.HasPrefix(line, "+"))
			switch to, moves := strings.CutPrefix(head, "*** Move to: "); {
			case moves && len(p.files) > 0:
				from := p.files[len(p.files)-1].name
				p.files = p.files[:len(p.files)-1]
				p.moved("move ", from, to)
			case strings.HasPrefix(line, "+"):
				p.added++
			case strings.HasPrefix(line, "-"):
				p.removed++
				p.odd = p.odd || strings.HasPrefix(line, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ") // heads of a diff
			case i != first && line != "" && line != "*** End Patch" && line != "*** End of File" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "@@"):
				p.odd = true
			}
		case hunkHead.MatchString(line):
			sides := hunkHead.FindStringSubmatch(line)
			minus, plus = length(sides[1]), length(sides[2])
			p.odd = p.odd || len(p.files) == 0
		case strings.HasPrefix(line, "--- "):
			from = fileName(line[4:], "a/")
		case strings.HasPrefix(line, "+++ "):
			unnamed = false
			switch to := fileName(line[4:], "b/"); {
			case to == "/dev/null":
				p.deletes = true
				p.add(patchFile{before: "delete "}, from)
			case from == "/dev/null":
				p.add(patchFile{before: "add "}, to)
			case from != to && from != "":
				p.moved("move ", from, to)
			default:
				p.add(patchFile{}, to)
			}
			from = ""
		case strings.HasPrefix(line, "diff --git "):
			p.odd, unnamed = p.odd || unnamed, true
		case preamble.MatchString(line):
			p.deletes = p.deletes || strings.HasPrefix(line, "deleted file mode ")
		case strings.HasPrefix(line, "rename from ") || strings.HasPrefix(line, "copy from "):
			verb, from, _ = strings.Cut(line, " from ")
		case strings.HasPrefix(line, "rename to ") || strings.HasPrefix(line, "copy to "):
			_, name, _ := strings.Cut(line, " to ")
			p.moved(verb+" ", from, name)
			from, unnamed = "", false
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, `\ No newline`):
			p.odd = true
		}
	}
	p.odd = p.odd || minus > 0 || plus > 0 || from != "" || unnamed
	return p
}

// moved adds a file that has another name afterwards, once.
func (p *patch) moved(verb, from, to string) {
	after := patchFile{before: moved, name: to}
	for i, known := range p.files {
		if known == after && i > 0 && p.files[i-1].name == from {
			return
		}
	}
	p.files = append(p.files, patchFile{before: verb, name: from}, after)
}

func (p *patch) add(f patchFile, name string) {
	f.name = name
	for _, known := range p.files {
		if known == f {
			return
		}
	}
	p.files = append(p.files, f)
}

// fileName is a file's name in the head of a diff, without the time that some write behind it.
func fileName(text, side string) string {
	name, _, _ := strings.Cut(text, "\t")
	return strings.TrimPrefix(strings.TrimSpace(name), side)
}

// length of a hunk's side; one that is not written is one line.
func length(text string) int {
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// maxPatchFiles is how many files of a patch are named.
const maxPatchFiles = 4

// patch names the files that a patch changes, and says how many lines.
func (s *draft) patch(place, text string) {
	text, whole := shorten(text, maxLooked)
	p := readPatch(text)
	if len(p.files) == 0 {
		s.note(place, "", place+" is no patch that names a file")
		return
	}
	for i, f := range p.files[:min(len(p.files), maxPatchFiles)] {
		between := ""
		if i > 0 && f.before != moved {
			between = ", "
		}
		if before := between + f.before; before != "" {
			s.Parts = append(s.Parts, Part{Text: before})
		}
		shown, more, masked := beginning(s.detector, f.name, maxText)
		s.Parts = append(s.Parts, Part{Kind: Text, Text: shown, Place: place})
		if masked {
			s.note(place, " ", "what looks like a secret is left out")
		}
		if more > 0 {
			s.note(place, " ", counted(more, "more character", "more characters"))
		}
	}
	if more := len(p.files) - maxPatchFiles; more > 0 {
		s.note(place, " ", counted(more, "more file", "more files"))
	}
	s.Parts = append(s.Parts, Part{Text: ", "}, Part{Kind: Exact, Text: counted(p.added, "line", "lines") + " added, " + grouped(strconv.Itoa(p.removed)) + " removed", Place: place})
	if p.odd || !whole {
		s.note(place, " ", "not all of it could be read as a patch")
	}
}
