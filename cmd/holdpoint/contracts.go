package main

import (
	"encoding/json"
	"fmt"
	"os"

	"holdpoint/engine/dialect/safeai"
)

type contractsCommand struct {
	Check contractsCheckCommand `cmd:"" help:"Say what is wrong with files of tool contracts."`
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
