package threegate_test

import (
	"slices"
	"testing"
)

// TestCommandRules has C1 to C5, I5, O3, and the X rules as the command breaks them.
func TestCommandRules(t *testing.T) {
	for _, c := range []struct{ rule, text string }{
		{"C1", " python /in/code/average.py"},
		{"C1", "```\npython /in/code/average.py\n```"},
		{"C2", "python /in/code/average.py --title é"},
		{"C2", "python\u00a0/in/code/average.py"},
		{"C2", "pуthon /in/code/average.py"}, // with a Cyrillic letter
		{"C3", `python /in/code/average.py --title "a`},
		{"C3", `python /in/code/average.py --title 'a" "b`},
		{"C4", "/usr/bin/python /in/code/average.py"},
		{"C4", "./python /in/code/average.py"},
		{"C4", "env python /in/code/average.py"},
		{"C4", "A=1 python /in/code/average.py"},
		{"C4", "bash /in/code/average.py"},
		{"C4", "time python /in/code/average.py"},
		{"C4", "Python /in/code/average.py"},
		{"C4", "python2 /in/code/average.py"},
		{"C4", "python3.12 /in/code/average.py"},
		{"C4", "node /in/code/average.py"},
		{"C4", `"python" /in/code/average.py`},
		{"C4", `py"th"on /in/code/average.py`},
		{"C4", "- python /in/code/average.py"},
		{"C4", "> python /in/code/average.py"},
		{"C5", "python -c pass"},
		{"C5", "python -cpass"},
		{"C5", "python -Bc pass"},
		{"C5", "python -W ignore -cpass"},
		{"C5", `python "-c" pass`},
		{"C5", `python -'c' pass`},
		{"C5", "python -"},
		{"C5", "python"},
		{"C5", "python -u"},
		{"C5", "python -i /in/code/average.py"},
		{"C5", "python -m timeit pass"},
		{"C5", "python -mtimeit pass"},
		{"C5", "python -um timeit pass"},
		{"C5", "python -m pdb /in/code/average.py"},
		{"C5", "python /in/code/average.py --eval=1"},
		{"X1", "python -m pip list"},
		{"X1", "python -mpip install x"},
		{"X1", "python -m venv x"},
		{"X1", "python setup.py install"},
		{"X1", `python /in/code/average.py p"ip" install`},
		{"X2", "python /in/code/average.py --in //in/levels.csv"},
		{"X2", "python /in/code/average.py --in /in/./levels.csv"},
		{"X2", "python /in/code/average.py --in /in//levels.csv"},
		{"X2", "python /in/code/average.py --in /in"},
		{"X2", "python /in/code/average.py --out /out"},
		{"X2", "python /in/code/average.py --in /"},
		{"X2", "python /in/code/average.py ."},
		{"X2", "python /in/code/average.py --in=."},
		{"X2", "python /in/code/average.py .."},
		{"X2", "python /in/code/average.py ../x"},
		{"X2", "python /in/code/average.py x/../../y"},
		{"X2", "python /in/code/average.py --in=../x"},
		{"X2", "python /in/code/average.py -I/in/code"},
		{"X2", "python /in/code/average.py -o../x"},
		{"X2", "python /in/code/average.py @/in/levels.csv"},
		{"X2", "python /in/code/average.py data@/etc/x"},
		{"X2", "python /in/code/average.py --in=/in/levels.csv,/etc/x"},
		{"X2", "python /in/code/average.py --path /in/levels.csv:/etc/x"},
		{"X2", `python /in/code/average.py --note "see /etc/x"`},
		{"X2", `python /in/code/average.py /e"tc"/x`},
		{"X2", `python /in/code/average.py ""/etc/x`},
		{"X2", "python /in/code/average.py https://example.org/x"},
		{"X2", "python /in/code/average.py --url=http://x"},
		{"X2", "python /in/code/average.py file:/etc/x"},
		{"X2", "python /in/code/average.py C:/x"},
		{"X2", "python /in/code/average.py %2e%2e%2fetc"},
		{"X2", "python .ssh/id"},
		{"X2", "python /in/.ssh/id"},
		{"I5", "python /in/code/other.py"},
		{"I5", "python /in/code/average.py --in=/in/other.csv"},
		{"I5", "python /in/code/average.py /in/levels.csv,/in/other.csv"},
		{"I5", "python /in/code/average.py /in/levels.csv/"},
		{"I5", "python /in/code"},
		{"O3", "python /in/code/average.py --out /out/other.csv"},
		{"O3", "python /in/code/average.py --out=/out/"},
		{"X3", "python /in/code/average.py --device cpu"},
		{"X3", `python /in/code/average.py --pri"vileged"`},
		{"X3", "python /in/code/average.py --gpus all"},
		{"X4", "python /in/code/average.py --password x"},
		{"X4", "python /in/code/average.py --db-password=letmein"},
		{"X4", "python /in/code/average.py --api-key abc"},
		{"X4", `python /in/code/average.py --tok"en" abc`},
		{"X4", "python /in/code/average.py sk-abcdefghijklmnopqrstuvwx"},
	} {
		wantRule(t, c.text, command(t, c.text), c.rule, commandLine)
	}
	wantRule(t, "no language", changeIn(t, command(t, "bash -x y"), `language: "python"`, "language: bash"), "C4", commandLine)
	wantRule(t, "only a command", "\n## Command\nsh -c x", "C4", 3)
	wantRule(t, "no command", command(t, ""), "C1", 28)
	wantRule(t, "two commands", command(t, commandText+"\n\n"+commandText), "C1", 32)
	wantValid(t, "a secret from a declared file", command(t, "python /in/code/average.py --token /in/levels.csv"))
	for _, bad := range ";&|<>`$(){}\\!#~*?[]^" {
		wantRule(t, string(bad), command(t, commandText+" x"+string(bad)), "C3", commandLine)
		wantRule(t, "quoted "+string(bad), command(t, commandText+" 'x"+string(bad)+"'"), "C3", commandLine)
	}
}

// TestLanguages has C4, C5 and X1 for what each language's programs can do.
func TestLanguages(t *testing.T) {
	for _, c := range []struct{ language, rule, text string }{
		{"node", "C5", "node -e 1"},
		{"node", "C5", "node --eval=1"},
		{"node", "C5", "node -pe 1"},
		{"node", "C5", "node --import data.js x.js"},
		{"node", "C5", "node -r x y.js"},
		{"node", "C5", "node --require=x y.js"},
		{"node", "C5", "node"},
		{"node", "C4", "npx x.js"},
		{"node", "C4", "npm run x"},
		{"node", "C4", "nodejs x.js"},
		{"ts", "C5", "deno eval 1"},
		{"ts", "C5", "deno repl"},
		{"ts", "C5", "deno task x"},
		{"ts", "C5", "deno run -"},
		{"ts", "C5", "deno run --preload x.ts y.ts"},
		{"ts", "C5", "deno run"},
		{"ts", "X3", "deno run -A x.ts"},
		{"ts", "X3", "deno run --allow-all x.ts"},
		{"ts", "C5", "tsx watch x.ts"},
		{"ts", "C5", "tsx repl"},
		{"node", "C5", "node inspect x.js"},
		{"node", "C5", "node debug x.js"},
		{"ts", "X1", "deno run npm:cowsay"},
		{"ts", "X1", "deno install x.ts"},
		{"ts", "C4", "node x.js"},
		{"ts", "C5", "tsx -e 1"},
		{"go", "C5", "go build x.go"},
		{"go", "C5", "go test"},
		{"go", "C5", "go run"},
		{"go", "C5", "go"},
		{"go", "C4", "go run -exec sh x.go"},
		{"go", "C4", "go run -tags x --toolexec=sh x.go"},
		{"go", "X1", "go get example.org/x"},
		{"go", "X1", "go install x"},
		{"go", "X1", "go run example.org/x@latest"},
		{"go", "X1", "go run example.org/x"},
		{"go", "X2", "go run ."},
		{"go", "X2", "go run ./..."},
		{"ruby", "C5", "ruby -e 1"},
		{"ruby", "C5", "ruby -ne puts x.rb"},
		{"ruby", "C5", "ruby -I lib -eputs"},
		{"ruby", "C5", "ruby -rnet/http x.rb"},
		{"ruby", "C5", "ruby -S x"},
		{"ruby", "X1", "ruby -S gem install x"},
		{"ruby", "C4", "irb x.rb"},
	} {
		doc := changeIn(t, command(t, c.text), `language: "python"`, "language: "+c.language)
		wantRule(t, c.text, doc, c.rule, commandLine)
	}
}

// TestSplit: quotes are taken off as a shell takes them off.
func TestSplit(t *testing.T) {
	doc := command(t, `python  average.py --title "it's  'one' word" a'b "c'd '' --n=1 `)
	got := check(doc).Request.Command.Argv
	want := []string{"python", "average.py", "--title", "it's  'one' word", `ab "cd`, "", "--n=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
