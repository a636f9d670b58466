package threegate

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// pattern is one shape of forbidden text. It is searched only in texts that hold
// one of its words, which makes the common case cheap.
type pattern struct {
	words []string // in lower case
	shape *regexp.Regexp
	// negatable shapes are allowed directly after a negation or before a
	// prohibition: "no package installation".
	negatable bool
	// people says that a match may end with the first letter of somebody who installs.
	people bool
}

// installers are those who install: "usage by installing team" tells nobody to. What is named
// so with more behind it ("installing team packages") is not meant.
var installers = regexp.MustCompile(`(?i)^(?:team|crews?|compan(?:y|ies)|contractors?|engineers?|technicians?|electricians?|firms?|departments?)(?:[.;!?)](?:[ \n]|$)|[ \n]*$|[ \n]+(?:and by|or by|only|in|at|on|of|for)\b)`)

// sparingPeople has a shape that ends with the first letter of a word spare installers.
func sparingPeople(p pattern) pattern {
	p.people = true
	return p
}

// sparesPeople reports whether what matched between from and to is "installing" and who does it.
func (p pattern) sparesPeople(text string, from, to int) bool {
	return p.people && strings.HasSuffix(strings.ToLower(strings.TrimRight(text[from:to-1], " \n")), "installing") && installers.MatchString(text[to-1:])
}

// Between the words of a shape stand gap, and now and then other words.
const (
	gap  = `[ \n]+`
	some = `(?:` + gap + `(?:-[^ \n]+|[^ \n.;!?:]+)){0,4}?`
)

func shape(words string, expression string, negatable bool) pattern {
	return pattern{words: strings.Fields(words), shape: regexp.MustCompile(`(?i)` + expression), negatable: negatable}
}

// installs are the shapes of X1.
var installs = []pattern{
	shape("install", `\b(?:pip|pip[0-9][0-9.]*|pipx|uv|uv`+gap+`pip|conda|mamba|micromamba|poetry|pdm|pipenv|rye|hatch|apt|apt-get|aptitude|yum|dnf|microdnf|apk|zypper|brew|port|snap|choco|winget|scoop|npm(?:-cli(?:\.js)?)?|pnpm|yarn|bun|deno|gem|bundle|bundler|cargo|go|composer|dotnet|luarocks|cpan|cpanm|rustup|opam|stack|cabal|flatpak|pkg|asdf|mise|sdk|guix|nix|spack|helm|easy_install)`+some+gap+`(?:install|reinstall)\b`, true),
	shape("pip", `\bpip[0-9.]*`+some+gap+`(?:download|wheel|sync)\b`, false),
	shape("apt yum dnf apk brew zypper", `\b(?:apt|apt-get|yum|dnf|apk|brew|zypper)(?:`+gap+`-[^ \n]+)*`+gap+`(?:update|upgrade|dist-upgrade|refresh)\b`, false),
	shape("installed", `\binstalled`+gap+`(?:first`+gap+`)?(?:with|by|via|using|through|from)`+gap+`(?:pip|pipx|npm|yarn|pnpm|conda|apt|apt-get|gem|cargo|brew|pypi|go)\b`, true),
	shape("corepack", `\bcorepack\b`, true),
	shape("npm yarn pnpm bun", `\b(?:npm|pnpm|yarn|bun)(?:`+gap+`-[^ \n]+)*`+gap+`(?:i|ci|add|in|ins|inst|isntall|update|upgrade|up|link|rebuild|exec|x|dlx|create|init)\b`, false),
	shape("npx pnpx bunx uvx pipx easy_install cpanm ensurepip nix-shell nix-env", `\b(?:npx|pnpx|bunx|uvx|pipx`+gap+`run|easy_install|cpanm|ensurepip|nix-shell|nix-env)\b`, true),
	shape("get mod", `\bgo`+gap+`(?:get|mod`+gap+`(?:download|tidy|vendor))\b`, false),
	shape("pip venv", `-m[ ]*(?:pip|venv|virtualenv|ensurepip|pipx|easy_install|conda|poetry|build)\b`, false),
	shape("uv poetry pdm cargo apk conda composer dotnet pipenv pacman dpkg rpm nuget bundle gem deno rye mamba", `\b(?:(?:uv|poetry|pdm|pipenv|rye)`+gap+`(?:add|sync|update|lock)|cargo`+gap+`add|apk`+some+gap+`add|(?:conda|mamba)`+gap+`(?:create|update|env)|composer`+gap+`require|dotnet`+gap+`add|pacman`+gap+`-S[a-z]*|dpkg`+gap+`(?:-i|--install)|rpm`+gap+`-[a-z]*[iU][a-z]*|nuget`+gap+`restore|bundle`+gap+`(?:add|update)|gem`+gap+`(?:update|fetch)|deno`+gap+`(?:add|cache))\b`, false),
	shape("install.packages install_ pkg_add pkg.add biocmanager emerge", `\b(?:install\.packages|install_(?:github|gitlab|git|url|version|cran)|pkg_add|Pkg\.add|BiocManager::install)\b|\bemerge`+gap+`(?:--?[a-z]|[a-z0-9-]+/[a-z0-9])`, false),
	shape("setup.py", `\bsetup\.py`+gap+`(?:install|develop|build)\b`, false),
	shape("npm: jsr: git+ pypi:", `(?:^|[^a-z0-9])(?:npm|jsr|pypi):[@a-z]|\bgit\+(?:https?|ssh|file)\b`, false),
	shape("curl wget", `\b(?:curl|wget)\b[^\n]*\|`, false),
	shape("install", `\b(?:re|pre)?install(?:s|ing)?`+`(?:`+gap+`[^ \n.;!?:]+){0,6}?`+gap+`(?:packages?|dependenc(?:y|ies)|librar(?:y|ies)|modules?|requirements?|software|tools?|toolchains?|plugins?|extensions?|gems?|crates?|wheels?|runtimes?|drivers?|binar(?:y|ies)|numpy|pandas|scipy|requests|matplotlib|torch|tensorflow|lodash|express)\b`, true),
	sparingPeople(shape("install", `(?:^|[.;:!?\n"'(][ ]*[-*+]?[ ]*|\b(?:please|then|and|first|to|must|should|will|shall|can|may|also|by|before|after|you|we|need|just|it)`+gap+`)(?:re)?install(?:ing)?`+gap+`[a-z0-9@]`, false)),
	shape("install", `\b(?:packages?|dependenc(?:y|ies)|librar(?:y|ies)|modules?|requirements?|software)`+gap+`(?:re)?install(?:s|ations?)?\b`, true),
	shape("install", `\b(?:packages?|dependenc(?:y|ies)|librar(?:y|ies)|modules?|requirements?|software)`+gap+`(?:must|should|shall|will|need|needs|have|has)`+gap+`(?:to`+gap+`)?be`+gap+`(?:first`+gap+`)?installed\b`, true),
	shape("install", `\b(?:installation`+gap+`of|(?:requires?|needs?|perform|run|do)`+gap+`(?:the`+gap+`|an`+gap+`)?install(?:ation)?)\b`, true),
	shape("download upgrade", `\b(?:download|upgrade)(?:s|ing)?(?:`+gap+`[^ \n.;!?:]+){0,4}?`+gap+`(?:packages|dependencies|libraries|modules)\b`, true),
}

// privileges are the shapes of X3.
var privileges = []pattern{
	shape("privileged device", `(?:^|[^a-z0-9-])--?(?:privileged|devices?|device-[a-z-]+)\b`, false),
	shape("--cap --sec --gpu --userns --cg --ipc --uts --pid --mount --vol --runtime --group --sysctl --no-s --unsafe --net --add --allow --user", `(?:^|[^a-z0-9-])--(?:cap-add|security-opt|gpus?|userns|cgroupns|cgroup-parent|ipc|uts|pid|mount|volume|volumes-from|volume-driver|runtime|group-add|sysctl|no-sandbox|unsafe-perm|net|add-host|allow-run|allow-ffi|allow-sys|allow-all|network=host|network`+gap+`host|user=(?:root|0)|user`+gap+`(?:root|0))\b`, false),
	shape("privileged", `\bprivileged`+gap+`(?:mode|container|access|devices?|flag|user|port|operation|execution|run)s?\b|\bprivileged[ ]*[:=][ ]*(?:true|yes|1)\b`, true),
	shape("sudo doas nsenter mknod setuid chroot docker.sock insmod modprobe", `\b(?:sudo|doas|nsenter|mknod|setuid|chroot|insmod|modprobe|docker\.sock)\b`, true),
	shape("cap_", `\bCAP_[A-Z]+(?:_[A-Z]+)*\b`, true),
	shape("docker", `\bdocker[ .]*sock(?:et)?\b|\bdocker`+gap+`run\b`, true),
	shape("host", `\bhost(?:['’]s)?`+gap+`(?:network|namespaces?|filesystem|file`+gap+`system|kernel|devices?)\b`, true),
	shape("device", `\b(?:access(?:es)?|needs?|requires?|uses?|using|attach(?:es)?|mounts?)(?:`+gap+`[^ \n.;!?:]+){0,4}?`+gap+`(?:usb|gpu|block|raw|kernel|serial|hardware|pci)[ -]devices?\b`, true),
	shape("root", `\broot`+gap+`(?:access|privileges?|rights|permissions?|user|shell)\b`, true),
	shape("root", `\b(?:run|runs|running|execute[sd]?|executing|start(?:ed)?|works?)(?:`+gap+`[^ \n.;!?:]+){0,3}?`+gap+`(?:as|with)`+gap+`(?:the`+gap+`)?root\b`, true),
}

var (
	negated    = regexp.MustCompile(`(?i)(?:\b(?:no|not|never|cannot|nor|neither)|n['’]t|non-)(?:[ \n]+(?:be|run|to|use|any|package|packages|need to|try to|[a-z]+ (?:or|nor)))?[ \n]*$`)
	prohibited = regexp.MustCompile(`(?i)^[ \n]+(?:is|are|steps?[ \n]+(?:is|are))[ \n]+(?:forbidden|prohibited|disallowed|not[ \n]+(?:allowed|needed|required|permitted|performed|done))\b`)
)

// find is where in folded text a pattern matches.
func (p pattern) find(text string, lower *haystack) (found []int) {
	if !lower.holdsAny(p.words) {
		return nil
	}
	for _, at := range p.shape.FindAllStringIndex(text, -1) {
		if p.negatable && (negated.MatchString(text[max(0, at[0]-40):at[0]]) || prohibited.MatchString(text[at[1]:min(len(text), at[1]+40)])) {
			continue
		}
		if p.sparesPeople(text, at[0], at[1]) {
			continue
		}
		start := at[0]
		for start < at[1] && strings.IndexByte(" \n.;:!?\"'(-*", text[start]) >= 0 {
			start++
		}
		found = append(found, start)
	}
	return found
}

// forbidden applies X1 to X4 to the whole document: as it is written, as the
// front matter's scalars say it, and as the command's words say it.
func (c *checker) forbidden(body int) {
	c.proseScan(body)
	c.scan(c.src, 1)
	if c.root != nil {
		c.scalarScan(c.root)
	}
	if command := c.request.Command; strings.ContainsAny(command.Line, `"'`) {
		c.scan(strings.Join(command.Argv, " "), c.commandLine())
	}
}

// commandLine is the number of the line that holds the command.
func (c *checker) commandLine() int {
	s := c.sections[commandSection]
	for i := s.from; i < s.to; i++ {
		if !isBlank(c.at(i)) {
			return i + 1
		}
	}
	return s.heading
}

// proseScan applies X2 to every line but the command, whose words have been judged.
func (c *checker) proseScan(body int) {
	skip := c.commandLine() - 1
	for i := 0; i < c.count(); i++ {
		if i == skip && c.sections[commandSection].heading > 0 {
			continue
		}
		line := c.at(i)
		if i >= body || !strings.HasPrefix(line, "#") {
			line = foldLetters(line)
		}
		if problem := proseProblem(line); problem != "" {
			c.add("X2", i+1, "the line holds %s; only paths under /in/ and /out/ may be named", problem)
		}
	}
}

// scalarScan judges what scalars say that are not written as they read.
func (c *checker) scalarScan(n *source.Tree) {
	if n.Kind == source.Scalar && !strings.Contains(c.src[n.Start:max(n.Start, n.End)], n.Text) {
		for line := range strings.Lines(foldLetters(n.Text)) {
			if problem := proseProblem(strings.TrimSuffix(line, "\n")); problem != "" {
				c.add("X2", n.Line, "the value holds %s; only paths under /in/ and /out/ may be named", problem)
			}
		}
		c.scan(n.Text, n.Line)
	}
	for _, k := range n.Keys {
		c.scalarScan(k)
	}
	for _, item := range n.Items {
		c.scalarScan(item)
	}
}

// scan applies X1, X3 and X4 to a text that begins on line first.
func (c *checker) scan(text string, first int) {
	plain := foldLetters(text)
	lower := newHaystack(plain)
	number := func(offset int) int {
		if first == 1 {
			return lineOf(plain, offset)
		}
		return first
	}
	for _, offset := range secretsIn(plain, lower) {
		c.add("X4", number(offset), "the line holds what looks like a secret; requests hold none, the run gets what it needs from its operator")
	}
	words := strings.NewReplacer("*", " ", "`", " ", `"`, " ", "_ ", "  ", " _", "  ").Replace(plain)
	if len(words) != len(plain) {
		words = plain
	}
	lower = newHaystack(words)
	for _, p := range installs {
		for _, offset := range p.find(words, lower) {
			c.add("X1", number(offset), "the text tells to install or fetch packages; use what the run's image has")
		}
	}
	for _, p := range privileges {
		for _, offset := range p.find(words, lower) {
			c.add("X3", number(offset), "the text asks for devices or privileges; requests get neither")
		}
	}
}

// haystack is a text in lower case, with the pairs of bytes that are in it: most
// words are ruled out by a pair.
type haystack struct {
	text  string
	pairs [1 << 10]uint64
}

func newHaystack(text string) *haystack {
	h := &haystack{text: strings.ToLower(text)}
	for i := 1; i < len(h.text); i++ {
		pair := uint(h.text[i-1])<<8 | uint(h.text[i])
		h.pairs[pair>>6] |= 1 << (pair & 63)
	}
	return h
}

func (h *haystack) holdsAny(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return h.mayHold(w) && strings.Contains(h.text, w) })
}

func (h *haystack) mayHold(w string) bool {
	for i := 1; i < len(w); i++ {
		if pair := uint(w[i-1])<<8 | uint(w[i]); h.pairs[pair>>6]&(1<<(pair&63)) == 0 {
			return false
		}
	}
	return true
}

func lineOf(text string, offset int) int {
	return strings.Count(text[:offset], "\n") + 1
}

// lookalikes are characters that are drawn like those that paths are made of.
var lookalikes = map[rune]rune{
	'\u2044': '/', '\u2215': '/', '\u29f8': '/', '\u2024': '.', '\u2010': '-', '\u2011': '-', '\u2012': '-', '\u2013': '-', '\u2212': '-',
}

// foldLetters writes full-width letters and lookalikes as ASCII, and every space
// as one, so that shapes find them. It keeps line feeds.
func foldLetters(s string) string {
	if canon.IsASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case r >= 0xff01 && r <= 0xff5e:
			return r - 0xff01 + '!'
		case unicode.IsSpace(r):
			return ' '
		}
		if ascii, found := lookalikes[r]; found {
			return ascii
		}
		return r
	}, s)
}
