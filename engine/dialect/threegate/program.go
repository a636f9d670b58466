package threegate

import (
	"slices"
	"strings"
)

// runtime is what may run the scripts of one language.
type runtime struct {
	programs []string
	// valued are options before the script whose value is the next word.
	valued []string
	// rest are letters that take what follows them in a cluster as their value.
	rest string
	// launch are options before the script that run or load something else.
	launch []string
	// orders are words that the program takes for an order of its own where a
	// script could stand.
	orders []string
}

var runtimes = map[string]runtime{
	"python": {
		programs: []string{"python", "python3"},
		valued:   []string{"-W", "-X", "--check-hash-based-pycs"}, rest: "WXm", launch: []string{"-i"},
	},
	"node": {
		programs: []string{"node"},
		valued:   []string{"-C", "--conditions", "--title", "--env-file", "--stack-trace-limit"}, rest: "C",
		launch: []string{"-i", "--interactive", "--import", "--loader", "--experimental-loader", "--input-type", "--run", "-pe", "--test", "--watch", "--inspect", "--inspect-brk"},
		orders: []string{"inspect", "debug"},
	},
	"ts": {
		programs: []string{"ts-node", "tsx", "deno"},
		valued:   []string{"-P", "--project", "--tsconfig", "--config", "--lock", "--import-map", "--cert", "--location", "--seed", "-O", "--compiler-options"}, rest: "PO",
		launch: []string{"-i", "--interactive", "--import", "--loader", "--preload", "--inspect", "--inspect-brk", "--watch", "-pe"},
		orders: []string{"watch", "repl", "test"},
	},
	"go": {
		programs: []string{"go"},
		valued:   []string{"-tags", "-ldflags", "-gcflags", "-asmflags", "-mod", "-buildmode", "-compiler", "-covermode", "-coverpkg", "-pgo"},
		launch:   []string{"-exec", "--exec", "-toolexec", "--toolexec", "-overlay", "--overlay", "-modfile", "--modfile", "-C"},
	},
	"ruby": {programs: []string{"ruby"}, valued: []string{"-I", "--encoding", "--external-encoding", "--internal-encoding", "--enable", "--disable", "--dump", "--parser", "--backtrace-limit"}, rest: "IFKTxC0W", launch: []string{"-S", "-x", "-C", "-n", "-p"}},
}

// inline are the flags of C5, which stand for code that no hash covers. They
// are refused wherever they stand.
var inline = []string{"-c", "-e", "--eval", "-p", "--print", "-E", "-r", "--require", "-"}

// inlineModules are Python's modules that run what their arguments say.
var inlineModules = []string{"timeit", "pdb", "code", "codeop", "pty", "cProfile", "profile", "trace", "runpy", "idlelib", "bdb", "asyncio", "doctest"}

const programRule = "the command must begin with %s for language %s: no path, assignment, shell or launcher before it"

// program applies C4 and C5.
func (c *checker) program(words []word, line int) {
	run, known := runtimes[c.request.Language]
	name := words[0]
	if !known {
		// Without a language every interpreter of the table is as good as another.
		for _, r := range runtimes {
			if slices.Contains(r.programs, name.text) {
				run, known = r, true
			}
		}
		if !known {
			c.add("C4", line, "the command must begin with an interpreter such as python or node: no path, assignment, shell or launcher before it")
		}
	} else if name.quoted || !slices.Contains(run.programs, name.text) {
		c.add("C4", line, programRule, orList(run.programs), c.request.Language)
	}
	flagged := false
	for _, w := range words[1:] {
		flag, _, _ := strings.Cut(w.text, "=")
		flagged = flagged || slices.Contains(inline, flag)
	}
	script, module, loads := run.script(words[1:])
	if name.text == "deno" && script == "run" && !loads {
		at := slices.IndexFunc(words, func(w word) bool { return w.text == "run" })
		script, module, loads = run.script(words[at+1:])
	} else if name.text == "deno" && !strings.Contains(script, ".") {
		c.add("C5", line, "deno may only be used as \"deno run SCRIPT\"")
		return
	}
	if name.text == "deno" && slices.ContainsFunc(words[1:], allowsAll) {
		c.add("X3", line, "-A lets the script do everything; name what it needs")
	}
	switch {
	case slices.Contains(run.orders, script):
		c.add("C5", line, "%s takes %q for an order of its own; name the script alone", name.text, script)
	case flagged || loads:
		c.add("C5", line, "the command runs or loads code that is in no script (%s and their like are not allowed); put the code into a declared input", strings.Join(inline, " "))
	case slices.Contains(inlineModules, strings.Split(module, ".")[0]):
		c.add("C5", line, "this module runs code from its arguments; put the code into a declared input")
	case name.text == "go":
		c.goRun(words, line)
		return
	case script == "" && module == "":
		c.add("C5", line, "the command names no script; without one the interpreter reads code from its input")
	}
	if script != "" && !strings.HasPrefix(script, "/") {
		c.warn("I5", line, "%s is no declared input: no hash covers what it holds", show(script))
	}
}

// allowsAll reports whether a word is Deno's -A, alone or among other letters.
func allowsAll(w word) bool {
	letters, _, _ := strings.Cut(w.text, "=")
	return len(letters) > 1 && letters[0] == '-' && letters[1] != '-' && strings.Contains(letters, "A")
}

// script walks over the options before the script. It returns the script, or
// Python's module, and whether an option runs or loads something else.
func (run runtime) script(words []word) (script, module string, loads bool) {
	for i := 0; i < len(words); i++ {
		text := words[i].text
		if !strings.HasPrefix(text, "-") {
			return text, "", loads
		}
		flag, value, _ := strings.Cut(text, "=")
		switch {
		case text == "--":
			if i+1 < len(words) {
				return words[i+1].text, "", loads
			}
			return "", "", loads
		case slices.Contains(run.launch, flag):
			loads = true
		case run.module(text) > 0:
			if module = text[run.module(text):]; module == "" && i+1 < len(words) {
				module = words[i+1].text
			}
			return "", module, loads
		case slices.Contains(run.valued, flag) && value == "":
			i++
		case !strings.HasPrefix(text, "--") && run.cluster(text[1:]):
			loads = true
		}
	}
	return "", "", loads
}

// module is where the name of a module begins in one of Python's options, also
// behind other letters (-um), or 0 when it names none.
func (run runtime) module(text string) int {
	if !slices.Contains(run.programs, "python") || strings.HasPrefix(text, "--") {
		return 0
	}
	if i := strings.IndexAny(text, "mWXceEpr"); i > 0 && text[i] == 'm' {
		return i + 1
	}
	return 0
}

// cluster reports whether letters joined behind one hyphen hold a flag of C5.
func (run runtime) cluster(letters string) bool {
	if slices.Contains(run.programs, "go") {
		return false // go's options have one hyphen and are words
	}
	for _, letter := range letters {
		if strings.ContainsRune(run.rest, letter) {
			return false
		}
		if strings.ContainsRune("cepEr", letter) {
			return true
		}
	}
	return false
}

// goRun holds go to "go run" of files that are here.
func (c *checker) goRun(words []word, line int) {
	if len(words) < 3 || words[1].text != "run" {
		c.add("C5", line, "go may only be used as \"go run SCRIPT\"")
		return
	}
	goTool := runtimes["go"]
	script, _, _ := goTool.script(words[2:])
	first, _, _ := strings.Cut(script, "/")
	loads := slices.ContainsFunc(words[2:], func(w word) bool {
		flag, _, _ := strings.Cut(w.text, "=")
		return slices.Contains(goTool.launch, flag)
	})
	switch {
	case loads:
		c.add("C4", line, "an option of go run starts another program or replaces files; leave it out")
	case script == "":
		c.add("C5", line, "go run names no script")
	case !strings.HasSuffix(script, ".go") && (strings.Contains(first, ".") || strings.Contains(script, "@")):
		c.add("X1", line, "go run of a remote package installs it; run a declared input")
	case !strings.HasPrefix(script, "/"):
		c.warn("I5", line, "%s is no declared input: no hash covers what it holds", show(script))
	}
}
