package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdpoint/engine/policy"
	"holdpoint/engine/policytest"
)

type policyTests struct {
	Policy      string   `help:"Test this policy, whatever the files say." placeholder:"FILE"`
	MinCoverage int      `help:"Fail unless the tests reach this many per cent of the rules." placeholder:"PERCENT"`
	Verbose     bool     `short:"v" help:"Print the tests that pass as well."`
	JSON        bool     `name:"json" help:"Print one JSON object for each policy on standard output."`
	Files       []string `arg:"" name:"file" help:"Files of policy tests."`
}

// Help is shown by "holdpoint policy test --help".
func (policyTests) Help() string {
	return `Ends with 0 when all tests pass, 1 when one fails or too few rules are reached, 2
when a file has mistakes, 3 when one cannot be read. A rule is reached by a test
whose call it decides.

Examples:
  holdpoint policy test tests.yaml
  holdpoint policy test --min-coverage 100 --policy new.yaml tests.yaml

A test file:
  policy: policy.yaml
  tests:
    - name: a large refund needs two of finance
      call: {tool: issue_refund, args: {amount: 1200}, environment: prod}
      expect: {outcome: REQUIRE_APPROVAL, rule: refund-large, approval: {quorum: 2}}`
}

// policyTested is what --json prints for a policy.
type policyTested struct {
	Policy   string              `json:"policy"`
	Digest   string              `json:"digest"`
	Passed   int                 `json:"passed"`
	Failed   int                 `json:"failed"`
	Tests    []policytest.Result `json:"tests"`
	Coverage policytest.Coverage `json:"coverage"`

	bundle *policy.Bundle
}

func (p *policyTests) Run(*cli) error {
	if p.MinCoverage < 0 || p.MinCoverage > 100 {
		return errors.New("--min-coverage: want 0 to 100")
	}
	// Everything is read before anything is run: a mistake is not hidden by results.
	var files []*policytest.File
	worst := exitCode(0)
	for _, name := range p.Files {
		data, err := os.ReadFile(name)
		if err != nil {
			complain(err)
			worst = exitUnreadable
			continue
		}
		f, problems := policytest.Load(data, name)
		printAll(problems)
		switch {
		case f == nil:
			worst = max(worst, exitInvalid)
		case p.Policy == "" && f.Policy == "":
			complain(fmt.Errorf("%s: it names no policy: begin it with policy: FILE, or give --policy", name))
			worst = max(worst, exitInvalid)
		default:
			files = append(files, f)
		}
	}
	if worst != 0 {
		return worst
	}
	now := time.Now()
	var tested []*policyTested
	byPath := map[string]*policyTested{}
	for _, f := range files {
		path := p.Policy
		if path == "" {
			path = f.Policy
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(f.Name), path)
			}
		}
		t := byPath[path]
		if t == nil {
			// Expiry is the tests' time's business, not the clock's.
			b, err := loadPolicy(path, policy.Options{})
			if err != nil {
				return err
			}
			t = &policyTested{Policy: path, Digest: b.Digest, bundle: b}
			byPath[path], tested = t, append(tested, t)
		}
		t.Tests = append(t.Tests, f.Run(t.bundle, now)...)
	}
	failed := false
	for _, t := range tested {
		for _, r := range t.Tests {
			if r.Passed {
				t.Passed++
			} else {
				t.Failed++
			}
		}
		t.Coverage = policytest.Cover(t.bundle, t.Tests)
		failed = failed || t.Failed > 0 || t.Coverage.Percent < p.MinCoverage
		if err := p.print(t); err != nil {
			return err
		}
	}
	if failed {
		return exitCode(1)
	}
	return nil
}

func (p *policyTests) print(t *policyTested) error {
	if p.JSON {
		return json.NewEncoder(os.Stdout).Encode(t)
	}
	for _, r := range t.Tests {
		if p.Verbose || !r.Passed {
			fmt.Fprint(terminal, r.Text())
		}
	}
	fmt.Fprintf(terminal, "%s: %d of %s passed\n", t.Policy, t.Passed, plural(len(t.Tests), "test"))
	fmt.Fprint(terminal, t.Coverage.Text(t.Policy))
	if t.Coverage.Percent < p.MinCoverage {
		fmt.Fprintf(terminal, "%s: %d %% is less than --min-coverage %d\n", t.Policy, t.Coverage.Percent, p.MinCoverage)
	}
	return nil
}
