package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdpoint/engine/policy"
	"holdpoint/internal/config"
)

type policyCheck struct {
	databaseFlags
	Strict     bool     `help:"Warnings fail, too."`
	Reviewers  string   `help:"File with people and their roles, to judge whether enough of them exist for each rule." placeholder:"FILE"`
	SecretFile string   `help:"File with the secret that the policies have to be signed with." placeholder:"FILE"`
	JSON       bool     `name:"json" help:"Print one JSON object for each file on standard output."`
	Files      []string `arg:"" name:"file" help:"Policies, in YAML or JSON."`
}

// Help is shown by "holdpoint policy check --help".
func (policyCheck) Help() string {
	return `Prints each mistake and warning on a line of its own, as file:line:column. Ends
with 0 when all files are valid, 2 when one is not (with --strict: or has a
warning), 3 when something cannot be read. Calendars that rules name are looked
up in the settings: those of --data, or else of --config.

Examples:
  holdpoint policy check policy.yaml
  holdpoint policy check --strict --data .holdpoint policy.yaml
  holdpoint --config holdpoint.yaml policy check policy.yaml
  holdpoint policy check --json *.yaml | jq '.problems[].message'`
}

// policyReport is what --json prints for a file.
type policyReport struct {
	File        string     `json:"file"`
	Valid       bool       `json:"valid"`
	Version     string     `json:"version,omitempty"`
	Digest      string     `json:"digest,omitempty"`
	Rules       int        `json:"rules,omitempty"`
	Default     string     `json:"default,omitempty"`
	Roles       []string   `json:"roles,omitempty"`
	GeneratedAt *time.Time `json:"generated_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Signed      bool       `json:"signed"`
	// SignedBy are the keys of people that have signed it, by environment.
	SignedBy map[string][]string `json:"signed_by,omitempty"`
	Problems []policy.Problem    `json:"problems"`
	Error    string              `json:"error,omitempty"`
}

func (p *policyCheck) Run(ctx context.Context, c *cli) error {
	now := time.Now()
	o := policy.Options{Now: now}
	var err error
	switch {
	case p.Reviewers != "" && p.Data != "":
		err = errors.New("--reviewers and --data: give one of them")
	case p.Reviewers != "":
		o.Reviewers, err = reviewersOf(p.Reviewers)
	case p.Data != "":
		o.Reviewers, err = reviewersIn(ctx, p.databaseFlags, c)
	}
	if err == nil {
		o.Calendars, err = p.calendars(c)
	}
	if err == nil && p.SecretFile != "" {
		o.Secret, err = readSecret(ctx, c, p.SecretFile)
	}
	if err != nil {
		return unreadable(err)
	}
	worst := exitCode(0)
	for _, file := range p.Files {
		r := policyReport{File: file, Problems: []policy.Problem{}}
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if err != nil {
			worst, r.Error = exitUnreadable, err.Error()
		} else {
			o.File = file
			worst = max(worst, r.check(data, o, p.Strict))
		}
		if err := p.print(r, now); err != nil {
			return err
		}
	}
	if worst != 0 {
		return worst
	}
	return nil
}

// calendars tells the calendars of the settings that are named, nil if none are.
func (p *policyCheck) calendars(c *cli) (func(name string) bool, error) {
	path := c.Config
	if p.Data != "" {
		path = filepath.Join(p.Data, settingsFile)
	}
	if path == "" {
		return nil, nil
	}
	cfg, err := config.Load(path, nil)
	if err != nil {
		return nil, err
	}
	return cfg.Routing.Knows, nil
}

func (r *policyReport) check(data []byte, o policy.Options, strict bool) exitCode {
	b, problems := policy.Load(data, o)
	if b != nil {
		problems = append(problems, policy.Lint(b)...)
		slices.SortStableFunc(problems, func(a, b policy.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		r.Valid, r.Version, r.Digest, r.Signed = true, b.Version, b.Digest, b.Signed
		r.Rules, r.Default, r.Roles, r.GeneratedAt, r.ExpiresAt = len(b.Rules()), string(b.Default), b.Roles(), &b.GeneratedAt, &b.ExpiresAt
	}
	if b != nil {
		for _, environment := range b.SignedEnvironments() {
			for _, key := range b.SignedFor(environment) {
				if r.SignedBy == nil {
					r.SignedBy = map[string][]string{}
				}
				r.SignedBy[environment] = append(r.SignedBy[environment], key.Fingerprint)
			}
		}
	}
	r.Problems = append(r.Problems, problems...)
	if b == nil || strict && len(problems) > 0 {
		return exitInvalid
	}
	return 0
}

func (p *policyCheck) print(r policyReport, now time.Time) error {
	if p.JSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	if r.Error != "" {
		fmt.Fprintln(terminalError, "holdpoint:", r.Error)
		return nil
	}
	printAll(r.Problems)
	if r.Valid {
		signed := ""
		if r.Signed {
			signed = ", signed"
		}
		for _, environment := range slices.Sorted(maps.Keys(r.SignedBy)) {
			signed += ", signed for " + environment + " by " + plural(len(r.SignedBy[environment]), "key")
		}
		fmt.Fprintf(terminal, "%s: version %s, %s, default %s, %s%s, %s\n", r.File, r.Version, plural(r.Rules, "rule"), r.Default,
			left(&policy.Bundle{ExpiresAt: *r.ExpiresAt}, now), signed, r.Digest)
	}
	return nil
}

// plural is a number of things.
func plural[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
