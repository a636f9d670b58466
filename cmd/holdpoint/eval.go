package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/contract"
)

type evalCommand struct {
	Dialect string `required:"" enum:"aana" help:"Which system's rules: aana (Agent Action Contract v1)."`
	File    string `arg:"" optional:"" type:"existingfile" help:"JSON Lines {\"id\",\"input\"}; standard input when left out."`
}

// Help is shown by "holdpoint eval --help".
func (evalCommand) Help() string {
	return `Reads {"id","input"} lines, writes {"id","result"} lines in the same order.
Nothing is stored, and no server is needed.

Example:
  echo '{"id":"1","input":{"tool_name":"search_docs","tool_category":"public_read",
    "authorization_state":"none","evidence_refs":[],"risk_domain":"research",
    "proposed_arguments":{"query":"x"},"recommended_route":"accept"}}' |
    tr -d '\n' | holdpoint eval --dialect aana`
}

// evalResult is the answer to one line: the whole answer of the contract, and
// at its top what the conformance cases compare.
type evalResult struct {
	Route    engine.Route `json:"route"`
	Executes bool         `json:"executes"`
	contract.Envelope
}

// maxLine bounds a line: an input of the largest size that a door takes, and
// what is around it.
const maxLine = 2 * canon.MaxBytes

func (e *evalCommand) Run(*cli) error {
	in := io.Reader(os.Stdin)
	if e.File != "" {
		f, err := os.Open(e.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
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
		encoded, err := json.Marshal(map[string]any{"id": line.ID, "result": evalAANA(line.Input)})
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

// evalAANA judges one event with the authorization that it declares. What the
// strict reader refuses has not the contract's structure either.
func evalAANA(input []byte) evalResult {
	var result contract.Result
	v, err := canon.Parse(input)
	if err != nil {
		result = contract.Invalid(v, []contract.ValidationError{{Path: "", Message: err.Error()}})
	} else if event, invalid := contract.Parse(v); len(invalid) > 0 {
		result = contract.Invalid(v, invalid)
	} else {
		result = event.Judge(time.Now())
	}
	decision := engine.Evaluate(engine.Call{Dialect: "aana"}, "", func(engine.Call) engine.Opinion { return result.Opinion() })
	return evalResult{Route: result.Route, Executes: result.Executes, Envelope: result.Envelope(decision)}
}
