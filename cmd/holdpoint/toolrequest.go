package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"holdpoint/engine/dialect/threegate"
)

type toolRequestCommand struct {
	Check toolRequestCheckCommand `cmd:"" help:"Say what is wrong with ThreeGate tool execution requests."`
}

type toolRequestCheckCommand struct {
	Draft bool     `help:"Check drafts, whose approval fields are left out or empty."`
	JSON  bool     `name:"json" help:"Print one JSON object for each file on standard output."`
	Files []string `arg:"" name:"file" help:"Requests, in Markdown with front matter; - is standard input."`
}

// Help is shown by "holdpoint toolrequest check --help".
func (toolRequestCheckCommand) Help() string {
	return `Prints each violation on a line of its own, as file:line: rule message; line 0 is
the whole document. Warnings go to standard error. Ends with 0 when all requests
are valid, 2 when one is not, 3 when one cannot be read. That a request is valid
does not prove that anybody has approved it.

Examples:
  holdpoint toolrequest check request.md
  holdpoint toolrequest check --draft - < draft.md
  holdpoint toolrequest check --json *.md | jq '.violations[].message'`
}

// toolRequestReport is what --json prints for a file.
type toolRequestReport struct {
	File   string `json:"file"`
	Digest string `json:"digest,omitempty"`
	threegate.Report
	Error string `json:"error,omitempty"`
}

func (c *toolRequestCheckCommand) Run(*cli) error {
	worst := exitCode(0)
	for _, file := range c.Files {
		report := toolRequestReport{File: file, Report: threegate.Report{Violations: []threegate.Violation{}, Warnings: []threegate.Violation{}}}
		document, err := readRequest(file)
		switch {
		case err != nil:
			worst, report.Error = exitUnreadable, err.Error()
		case c.Draft:
			report.Digest, report.Report = threegate.Digest(document), threegate.JudgeDraft(document, time.Now())
		default:
			report.Digest, report.Report = threegate.Digest(document), threegate.Judge(document, time.Now())
		}
		if err == nil && !report.Valid {
			worst = max(worst, exitInvalid)
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

// readRequest reads a file, or standard input, up to a little more than a
// request may have.
func readRequest(file string) ([]byte, error) {
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	interruptible()
	return io.ReadAll(io.LimitReader(in, threegate.MaxBytes+1))
}

func (c *toolRequestCheckCommand) print(r toolRequestReport) error {
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	if r.Error != "" {
		fmt.Fprintln(terminalError, "holdpoint:", r.Error)
		return nil
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(terminalError, "%s:%d: warning: %s\n", r.File, w.Line, w.Message)
	}
	for _, v := range r.Violations {
		if _, err := fmt.Fprintf(terminal, "%s:%s\n", r.File, v); err != nil {
			return err
		}
	}
	if r.Valid {
		_, err := fmt.Fprintf(terminal, "%s: valid\n", r.File)
		return err
	}
	return nil
}
