package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/engine/source"
	"holdpoint/internal/simulation"
)

type policySimulate struct {
	Calls         []string `help:"File of calls, one JSON object a line (“-” is standard input), instead of recorded approvals." placeholder:"FILE"`
	Against       string   `help:"The old policy. Recorded approvals are compared with the policy of their time when it is left out." placeholder:"FILE"`
	Data          string   `help:"Data directory of a running “holdpoint dev”, whose approvals are judged again; without it, the configuration says where." type:"path" placeholder:"DIR"`
	AcceptDenials []string `help:"Approvals that a person denied and that may pass all the same." placeholder:"ID"`
	JSON          bool     `name:"json" help:"Print a JSON object."`
	Policy        string   `arg:"" help:"The new policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy simulate --help".
func (policySimulate) Help() string {
	return `Judges calls by the new policy and says what would change: which outcomes, of which
tools, by which rules, and which calls that a person has denied would now pass
without one. Nothing is written, and no argument is shown.

The calls are those of a file, each as in a policy test, as an AgentActionRequest
or as CheckToolCallParams; or the approvals that a database has recorded. Calls
that were decided at once are not among those: their arguments were not kept.
For recorded approvals it takes the database URL and the data key of serve.

Ends with 0, with 1 when a past denial would pass that --accept-denials does not
name, 2 when a policy or a call has mistakes, 3 when something cannot be read.

Examples:
  holdpoint policy simulate new.yaml --data .holdpoint
  holdpoint policy simulate new.yaml --against policy.yaml --calls calls.jsonl
  holdpoint policy simulate new.yaml --accept-denials apr_…,apr_… --json`
}

// simulationReport is what --json prints.
type simulationReport struct {
	Policy string `json:"policy"`
	Digest string `json:"digest"`
	policysim.Report
	simulation.Result

	what string
}

func (p *policySimulate) Run(ctx context.Context, c *cli) error {
	if len(p.Calls) > 0 && p.Data != "" {
		return errors.New("--calls and --data: give one of them")
	}
	now := time.Now()
	next, err := loadPolicy(p.Policy, policy.Options{Now: now})
	if err != nil {
		return err
	}
	var old *policy.Bundle
	if p.Against != "" {
		if old, err = loadPolicy(p.Against, policy.Options{}); err != nil {
			return err
		}
	}
	out := simulationReport{Policy: p.Policy, Digest: next.Digest}
	noun := "call"
	if len(p.Calls) > 0 {
		out.Cases, err = p.fromFiles(next, old, now)
	} else {
		noun = "recorded approval"
		out.Result, err = simulateRecorded(ctx, c, p.Data, next, old)
	}
	if err != nil {
		return err
	}
	out.what = plural(len(out.Cases), noun)
	out.Report = policysim.Compare(out.Cases, p.AcceptDenials)
	if err := p.print(out); err != nil {
		return err
	}
	if out.Open() > 0 {
		return exitCode(1)
	}
	return nil
}

// fromFiles judges the calls of files. An old bundle judges as if it had not
// expired: it was in force when it was.
func (p *policySimulate) fromFiles(next, old *policy.Bundle, now time.Time) ([]policysim.Case, error) {
	then := now
	if old != nil && old.Expired(now) {
		then = old.GeneratedAt
	}
	var cases []policysim.Case
	for _, name := range p.Calls {
		data, err := readFileOrStdin(name)
		if err != nil {
			return nil, unreadable(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(make([]byte, 64<<10), 2*canon.MaxBytes)
		for n := 1; lines.Scan(); n++ {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			place := fmt.Sprintf("%s:%d", name, n)
			v, err := canon.Parse(lines.Bytes())
			if err != nil {
				complain(fmt.Errorf("%s: %w", place, err))
				return nil, exitCode(exitInvalid)
			}
			call, err := checkedCall(source.Of(v), place)
			if err != nil {
				return nil, err
			}
			c := policysim.Case{ID: place, Tool: call.Tool, New: policysim.VerdictOf(next.Decide(call, now))}
			if old != nil {
				was := policysim.VerdictOf(old.Decide(call, then))
				c.Old = &was
			}
			cases = append(cases, c)
		}
		if err := lines.Err(); err != nil {
			return nil, unreadable(fmt.Errorf("%s: %w", name, err))
		}
	}
	return cases, nil
}

func (p *policySimulate) print(s simulationReport) error {
	if p.JSON {
		out := json.NewEncoder(os.Stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(s)
	}
	changed := 0
	for _, c := range s.Changes {
		if c.Old != nil {
			changed += c.Count
		}
	}
	fmt.Fprintf(terminal, "%s judged by %s: %d as before, %d change\n", s.what, s.Policy, s.Same, changed)
	fmt.Fprint(terminal, s.Text())
	if len(s.Unreplayable) > 0 {
		fmt.Fprintln(terminal)
		total := 0
		var rows []string
		for _, u := range s.Unreplayable {
			var parts []string
			for outcome, n := range u.Outcomes {
				parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
				total += n
			}
			slices.Sort(parts)
			rows = append(rows, fmt.Sprintf("  %s: %s\n", u.Tool, strings.Join(parts, ", ")))
		}
		fmt.Fprintf(terminal, "%s cannot be replayed: they were decided at once, and their arguments were not kept:\n%s", plural(total, "event"), strings.Join(rows, ""))
	}
	if s.Erased > 0 {
		fmt.Fprintf(terminal, "%s cannot be replayed: their arguments have been erased\n", plural(s.Erased, "approval"))
	}
	if s.Unreadable > 0 {
		fmt.Fprintf(terminal, "%s cannot be replayed: their documents are not read any more as calls\n", plural(s.Unreadable, "approval"))
	}
	for _, id := range p.AcceptDenials {
		if !slices.ContainsFunc(s.Passing, func(d policysim.NowPassing) bool { return d.ID == id }) {
			fmt.Fprintf(terminal, "--accept-denials: %s is none of the past denials that would pass\n", id)
		}
	}
	if open := s.Open(); open > 0 {
		fmt.Fprintf(terminal, "\n%s by a person would now pass: change the policy, or accept them with --accept-denials\n", plural(open, "denial"))
	}
	return nil
}
