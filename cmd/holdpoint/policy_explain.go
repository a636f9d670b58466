package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/engine/policytest"
	"holdpoint/engine/source"
)

type policyExplain struct {
	Call        string   `help:"File with the call (“-” is standard input): as in a policy test, an AgentActionRequest, or CheckToolCallParams." placeholder:"FILE"`
	Tool        string   `help:"The call's tool, instead of --call." placeholder:"NAME"`
	Args        string   `help:"Its arguments, a JSON object." placeholder:"JSON"`
	Environment string   `help:"Its environment; dev when left out." placeholder:"NAME"`
	AgentType   string   `help:"Its agent's type." placeholder:"NAME"`
	TrustLevel  string   `help:"Its agent's trust level." placeholder:"LEVEL"`
	Role        []string `help:"A role of its agent; may be given several times." placeholder:"ROLE"`
	Provider    string   `help:"Its tool's provider." placeholder:"NAME"`
	UserInput   string   `help:"The user's words." placeholder:"TEXT"`
	Label       []string `help:"A data label; may be given several times." placeholder:"LABEL"`
	Category    string   `name:"tool-category" help:"What its tool is registered as: public_read, private_read, write or unknown." placeholder:"NAME"`
	At          string   `help:"The time at which it is judged; now when left out." placeholder:"TIME"`
	JSON        bool     `name:"json" help:"Print a JSON object."`
	Policy      string   `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy explain --help".
func (policyExplain) Help() string {
	return `Shows the decision, and of every rule which of its conditions hold. What an agent
is and may claim is taken as given here; the gate takes it from its registry.
Ends with 0, whatever the decision is, 2 when policy or call have mistakes, 3 when
one cannot be read.

Examples:
  holdpoint policy explain policy.yaml --tool issue_refund --args '{"amount": 1200}'
  holdpoint policy explain policy.yaml --call request.json --json`
}

func (p *policyExplain) Run(*cli) error {
	now := time.Now()
	if p.At != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, p.At); err != nil {
			return errors.New("--at: want a time such as 2026-11-21T12:00:00Z")
		}
	}
	b, err := loadPolicy(p.Policy, policy.Options{})
	if err != nil {
		return err
	}
	call, err := p.read()
	if err != nil {
		return err
	}
	x := b.Explain(call, now)
	if p.JSON {
		out := json.NewEncoder(os.Stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(struct {
			Policy string `json:"policy"`
			Digest string `json:"digest"`
			policy.Explanation
		}{p.Policy, b.Digest, x})
	}
	fmt.Fprint(terminal, explained(x))
	return nil
}

// read is the call of the flags.
func (p *policyExplain) read() (*policy.Request, error) {
	if (p.Call == "") == (p.Tool == "") {
		return nil, errors.New("want a call: either --call FILE, or --tool NAME and what else the call says")
	}
	if p.Call != "" {
		given := []any{p.Args, p.Environment, p.AgentType, p.TrustLevel, p.Provider, p.UserInput, p.Category}
		if slices.ContainsFunc(given, func(s any) bool { return s != "" }) || len(p.Role)+len(p.Label) > 0 {
			return nil, errors.New("--call has the whole call: leave out the flags beside it")
		}
		data, err := readFileOrStdin(p.Call)
		if err != nil {
			return nil, unreadable(err)
		}
		return readCall(data, p.Call)
	}
	members := []canon.Member{{Name: "tool", Value: canon.String(p.Tool)}}
	var agent []canon.Member
	text := func(to *[]canon.Member, name, value string) {
		if value != "" {
			*to = append(*to, canon.Member{Name: name, Value: canon.String(value)})
		}
	}
	list := func(to *[]canon.Member, name string, values []string) {
		if len(values) > 0 {
			elements := make([]canon.Value, len(values))
			for i, v := range values {
				elements[i] = canon.String(v)
			}
			*to = append(*to, canon.Member{Name: name, Value: canon.Array(elements...)})
		}
	}
	given := []string{p.Tool, p.Environment, p.AgentType, p.TrustLevel, p.Provider, p.UserInput, p.Category}
	if slices.ContainsFunc(slices.Concat(given, p.Role, p.Label), func(s string) bool { return !utf8.ValidString(s) }) {
		return nil, errors.New("a flag is not valid UTF-8")
	}
	if p.Args != "" {
		v, err := canon.Parse([]byte(p.Args))
		if err != nil {
			complain(fmt.Errorf("--args: %w", err))
			return nil, exitCode(exitInvalid)
		}
		members = append(members, canon.Member{Name: "args", Value: v})
	}
	text(&members, "environment", p.Environment)
	text(&members, "provider", p.Provider)
	text(&members, "user_input", p.UserInput)
	text(&members, "tool_category", p.Category)
	list(&members, "data_labels", p.Label)
	text(&agent, "agent_type", p.AgentType)
	text(&agent, "trust_level", p.TrustLevel)
	list(&agent, "roles", p.Role)
	members = append(members, canon.Member{Name: "agent", Value: canon.Object(agent...)})
	return checkedCall(source.Of(canon.Object(members...)), "")
}

func readFileOrStdin(path string) ([]byte, error) {
	if path == "-" {
		interruptible()
		return io.ReadAll(io.LimitReader(os.Stdin, 2*canon.MaxBytes))
	}
	return os.ReadFile(path) // #nosec G304 -- the user names the file
}

// readCall reads a call from JSON or YAML; problems are printed.
func readCall(data []byte, name string) (*policy.Request, error) {
	n, problems := source.Read(data, source.Options{File: name})
	if len(problems) > 0 {
		printAll(problems)
		return nil, exitCode(exitInvalid)
	}
	return checkedCall(n, name)
}

func checkedCall(n source.Node, name string) (*policy.Request, error) {
	call, problems := policytest.ReadCall(n)
	if len(problems) > 0 {
		printAll(source.Sort(problems, name))
		return nil, exitCode(exitInvalid)
	}
	return call, nil
}

// explained is an explanation for a person.
func explained(x policy.Explanation) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", name, value)
		}
	}
	line("outcome", string(x.Decision.Outcome))
	rule := cmp.Or(x.Decision.Rule, "none")
	line("rule", rule)
	for _, r := range x.Decision.Reasons {
		line("reason", r.Message)
	}
	line("terms", policysim.VerdictOf(x.Decision).Terms)
	if x.Expired {
		return b.String()
	}
	ids, names := 0, 0
	for _, r := range x.Rules {
		ids = max(ids, utf8.RuneCountInString(r.ID))
		for _, c := range r.Conditions {
			names = max(names, utf8.RuneCountInString(c.Name))
		}
	}
	for i, r := range x.Rules {
		state := "does not match"
		switch {
		case r.Decided:
			state = "decides"
		case r.Matched:
			state = "matches, too late"
		}
		fmt.Fprintf(&b, "\n%3d  %-*s  %-16s  %s\n", i+1, ids, r.ID, r.Outcome, state)
		for _, c := range r.Conditions {
			held := "no "
			switch {
			case c.Held:
				held = "yes"
			case c.Unknown:
				held = " ? "
			}
			fmt.Fprintf(&b, "     %s  %-*s  %s\n", held, names, c.Name, c.Why)
		}
	}
	return b.String()
}
