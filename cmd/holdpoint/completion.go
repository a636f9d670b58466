package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown by "holdpoint completion --help".
func (completionCommand) Help() string {
	return `Prints what has a shell complete holdpoint's commands and flags.

Examples:
  source <(holdpoint completion bash)                 in ~/.bashrc
  source <(holdpoint completion zsh)                  in ~/.zshrc
  holdpoint completion fish > ~/.config/fish/completions/holdpoint.fish`
}

func (c *completionCommand) Run(k *kong.Context) error {
	commands := completions("", k.Model.Node, nil)
	var script string
	switch c.Shell {
	case "fish":
		script = fishCompletion(commands)
	case "zsh":
		// zsh runs scripts of bash for this.
		script = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(commands)
	default:
		script = bashCompletion(commands)
	}
	_, err := os.Stdout.WriteString(script)
	return err
}

// completed is a command, and what can come behind it.
type completed struct {
	path  string // "" is holdpoint itself; "agent set" a command of a command
	words []completedWord
	// values are those of flags that take one of a few.
	values map[string][]string
	// valued are the flags that take a value.
	valued []string
}

type completedWord struct{ word, help string }

// completions lists a command and those below it.
func completions(path string, n *kong.Node, flags []*kong.Flag) []completed {
	one := completed{path: path, values: map[string][]string{}}
	for _, sub := range n.Children {
		if sub.Type == kong.CommandNode && !sub.Hidden {
			one.words = append(one.words, completedWord{sub.Name, sub.Help})
		}
	}
	for _, p := range n.Positional {
		if p.Enum != "" {
			for word := range strings.SplitSeq(p.Enum, ",") {
				one.words = append(one.words, completedWord{word, ""})
			}
		}
	}
	flags = append(slices.Clip(flags), n.Flags...)
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		one.words = append(one.words, completedWord{"--" + f.Name, f.Help})
		if !f.IsBool() {
			one.valued = append(one.valued, "--"+f.Name)
		}
		if f.Enum != "" {
			one.values["--"+f.Name] = strings.Split(f.Enum, ",")
		}
	}
	all := []completed{one}
	for _, sub := range n.Children {
		if sub.Type == kong.CommandNode && !sub.Hidden {
			all = append(all, completions(strings.TrimSpace(path+" "+sub.Name), sub, flags)...)
		}
	}
	return all
}

// bashCompletion finds the command in what was typed, and offers what can come behind it;
// where nothing fits, names of files.
func bashCompletion(commands []completed) string {
	var paths []string
	var words, values, valued strings.Builder
	for _, c := range commands {
		var list []string
		for _, w := range c.words {
			list = append(list, w.word)
		}
		fmt.Fprintf(&words, "    %q) words=%q ;;\n", c.path, strings.Join(list, " "))
		if c.path != "" {
			paths = append(paths, fmt.Sprintf("%q", c.path))
		}
		for _, flag := range slices.Sorted(slices.Values(c.valued)) {
			if list, few := c.values[flag]; few {
				fmt.Fprintf(&values, "    %q) words=%q ;;\n", c.path+" "+flag, strings.Join(list, " "))
			} else {
				fmt.Fprintf(&valued, "    %q) words= ;;\n", c.path+" "+flag)
			}
		}
	}
	return `# bash completion of holdpoint
_holdpoint() {
  local path= next word words= cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="${path:+$path }$word"
    case "$next" in
    ` + strings.Join(paths, "|") + `) path=$next ;;
    esac
  done
  case "$path $prev" in
` + values.String() + valued.String() + `    *) case "$path" in
` + words.String() + `    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ $cur != -* ]]; then
    for word in "${!COMPREPLY[@]}"; do
      [[ ${COMPREPLY[word]} == -* ]] && unset "COMPREPLY[word]"
    done
    COMPREPLY=("${COMPREPLY[@]}")
  fi
}
complete -o default -F _holdpoint holdpoint
`
}

// fishCompletion has a line for each word that can come behind a command.
func fishCompletion(commands []completed) string {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	var out strings.Builder
	out.WriteString("# fish completion of holdpoint\nfunction __holdpoint_path\n  set -l path ''\n  for word in (commandline -opc)[2..-1]\n    switch (string trim -- \"$path $word\")\n")
	var paths []string
	for _, c := range commands[1:] {
		paths = append(paths, quote(c.path))
	}
	fmt.Fprintf(&out, "      case %s\n        set path (string trim -- \"$path $word\")\n    end\n  end\n  echo $path\nend\n", strings.Join(paths, " "))
	for _, c := range commands {
		for _, w := range c.words {
			at := quote(`test "$(__holdpoint_path)" = "` + c.path + `"`)
			name, flag := strings.CutPrefix(w.word, "--")
			switch {
			case !flag:
				fmt.Fprintf(&out, "complete -c holdpoint -n %s -a %s -d %s\n", at, quote(name), quote(w.help))
			case len(c.values[w.word]) > 0:
				fmt.Fprintf(&out, "complete -c holdpoint -n %s -l %s -x -a %s -d %s\n", at, name, quote(strings.Join(c.values[w.word], " ")), quote(w.help))
			case slices.Contains(c.valued, w.word):
				fmt.Fprintf(&out, "complete -c holdpoint -n %s -l %s -r -d %s\n", at, name, quote(w.help))
			default:
				fmt.Fprintf(&out, "complete -c holdpoint -n %s -l %s -d %s\n", at, name, quote(w.help))
			}
		}
	}
	return out.String()
}
