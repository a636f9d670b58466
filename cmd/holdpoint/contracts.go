package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"holdpoint/engine/dialect/safeai"
)

type contractsCommand struct {
	Check  contractsCheckCommand  `cmd:"" help:"Say what is wrong with files of tool contracts."`
	Import contractsImportCommand `cmd:"" help:"Join files of tool contracts, SafeAI's own too, into one."`
}

type contractsImportCommand struct {
	Files []string `arg:"" name:"file" help:"Files of tool contracts: of Holdpoint's form, or SafeAI's v1alpha1."`
}

// Help is shown by "holdpoint contracts import --help".
func (contractsImportCommand) Help() string {
	return `Prints one file for contracts_file. A tool may be in one of the files only. Ends with
0 when it was printed, 2 when a file is not valid, 3 when one cannot be read.

Examples:
  holdpoint contracts import safeai/contracts/*.yaml > contracts.yaml`
}

func (c *contractsImportCommand) Run(*cli) error {
	from, all := map[string]string{}, map[string]safeai.Terms{}
	worst := exitCode(0)
	for _, file := range c.Files {
		data, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(terminalError, "holdpoint:", err)
			worst = exitUnreadable
			continue
		}
		set, problems := safeai.Load(data, file)
		for _, p := range problems {
			fmt.Fprintln(terminalError, p)
			worst = max(worst, exitInvalid)
		}
		if set == nil {
			continue
		}
		for _, tool := range set.Tools() {
			if other, twice := from[tool]; twice {
				fmt.Fprintf(terminalError, "%s: %s has a contract in %s already\n", file, strconv.Quote(tool), other)
				worst = max(worst, exitInvalid)
			}
			from[tool] = file
			all[tool], _ = set.Terms(tool)
		}
	}
	if worst != 0 {
		return worst
	}
	printContracts(all)
	return nil
}

// printContracts writes contracts as YAML, texts in quotes as JSON has them.
func printContracts(all map[string]safeai.Terms) {
	quoted := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			return `""` // texts always encode
		}
		return string(text)
	}
	fmt.Fprintln(terminal, "tool_contracts:")
	for _, tool := range slices.Sorted(maps.Keys(all)) {
		t := all[tool]
		fmt.Fprintf(terminal, "  %s:\n    allowed_request_tags: %s\n", quoted(tool), quoted(append([]string{}, t.Tags...)))
		if t.RequestFields != nil {
			fmt.Fprintf(terminal, "    allowed_request_fields: %s\n", quoted(t.RequestFields))
		}
		fmt.Fprintf(terminal, "    allowed_response_fields: %s\n", quoted(append([]string{}, t.Fields...)))
		if t.Masks {
			fmt.Fprintln(terminal, "    mask_response: true")
		}
		if t.NeedsHuman {
			fmt.Fprintln(terminal, "    requires_approval: true")
		}
	}
}

type contractsCheckCommand struct {
	JSON  bool     `name:"json" help:"Print one JSON object for each file on standard output."`
	Files []string `arg:"" name:"file" help:"Files of tool contracts, in YAML or JSON."`
}

// Help is shown by "holdpoint contracts check --help".
func (contractsCheckCommand) Help() string {
	return `Prints each mistake on a line of its own, as file:line:column. Ends with 0 when
all files are valid, 2 when one is not, 3 when one cannot be read.

Examples:
  holdpoint contracts check contracts.yaml
  holdpoint contracts check --json *.yaml | jq '.problems[].message'`
}

// The exit codes of "contracts check".
const (
	exitInvalid    = 2
	exitUnreadable = 3
)

// contractsReport is what --json prints for a file.
type contractsReport struct {
	File     string           `json:"file"`
	Valid    bool             `json:"valid"`
	Digest   string           `json:"digest,omitempty"`
	Tools    []string         `json:"tools,omitempty"`
	Problems []safeai.Problem `json:"problems"`
	Error    string           `json:"error,omitempty"`
}

func (c *contractsCheckCommand) Run(*cli) error {
	worst := exitCode(0)
	for _, file := range c.Files {
		report := contractsReport{File: file, Problems: []safeai.Problem{}}
		data, err := os.ReadFile(file)
		if err != nil {
			worst, report.Error = exitUnreadable, err.Error()
		} else if set, problems := safeai.Load(data, file); len(problems) > 0 {
			worst, report.Problems = max(worst, exitInvalid), problems
		} else {
			report.Valid, report.Digest, report.Tools = true, set.Digest(), set.Tools()
		}
		if err := c.print(report); err != nil {
			return err
		}
	}
	if worst != 0 {
		return worst
	}
	return nil
}

func (c *contractsCheckCommand) print(r contractsReport) error {
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	switch {
	case r.Error != "":
		fmt.Fprintln(terminalError, "holdpoint:", r.Error)
	case !r.Valid:
		for _, p := range r.Problems {
			fmt.Fprintln(terminalError, p)
		}
	default:
		fmt.Fprintf(terminal, "%s: %d tools, %s\n", r.File, len(r.Tools), r.Digest)
	}
	return nil
}
