package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

type evalCommand struct {
	Dialect   string `required:"" enum:"aana,spm,threegate,safeai" help:"Which system's rules: aana (Agent Action Contract v1), spm (Agent-SPM v0.3), threegate (ThreeGate tool requests), safeai (SafeAI tool contracts)."`
	Policy    string `type:"existingfile" help:"spm: the bundle for inputs that bring none." placeholder:"FILE"`
	Contracts string `type:"existingfile" help:"safeai: the contracts for inputs that bring none." placeholder:"FILE"`
	File      string `arg:"" optional:"" type:"existingfile" help:"JSON Lines {\"id\",\"input\"}; standard input when left out."`
}

// Help is shown by "holdpoint eval --help".
func (evalCommand) Help() string {
	return `Reads {"id","input"} lines, writes {"id","result"} lines in the same order.
Nothing is stored, and no server is needed. An input is
  aana       the event
  spm        {"policy_bundle","request"}, or the request alone with --policy
  threegate  {"document","now"}
  safeai     {"tool_contracts","call"}, or {"call"} with --contracts

Example:
  echo '{"id":"1","input":{"tool_name":"search_docs","tool_category":"public_read",
    "authorization_state":"none","evidence_refs":[],"risk_domain":"research",
    "proposed_arguments":{"query":"x"},"recommended_route":"accept"}}' |
    tr -d '\n' | holdpoint eval --dialect aana`
}

// judge is the function that turns one input of the dialect into its result.
func (e *evalCommand) judge() (func([]byte) any, error) {
	if e.Policy != "" && e.Dialect != "spm" {
		return nil, errors.New("--policy is for --dialect spm")
	}
	if e.Contracts != "" && e.Dialect != "safeai" {
		return nil, errors.New("--contracts is for --dialect safeai")
	}
	switch e.Dialect {
	case "spm":
		return evalSPM(e.Policy)
	case "threegate":
		return evalThreeGate, nil
	case "safeai":
		return evalSafeAI(e.Contracts)
	}
	return func(input []byte) any { return aana.Eval(input, time.Now()) }, nil
}

// maxLine bounds a line: an input of the largest size that a door takes, and
// what is around it.
const maxLine = 2 * canon.MaxBytes

func (e *evalCommand) Run(*cli) error {
	judge, err := e.judge()
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if e.File != "" {
		f, err := os.Open(e.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	interruptible()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	out := bufio.NewWriter(os.Stdout)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			ID    json.RawMessage `json:"id"`
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Input == nil {
			_ = out.Flush()
			return fmt.Errorf("line %d: want an object with id and input", n)
		}
		encoded, err := json.Marshal(map[string]any{"id": line.ID, "result": judge(line.Input)})
		if err != nil {
			return fmt.Errorf("line %d: encode the result: %w", n, err)
		}
		if _, err := out.Write(append(encoded, '\n')); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return out.Flush()
}
