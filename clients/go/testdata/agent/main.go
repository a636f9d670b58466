// Command agent is an agent for the end-to-end tests (tests/clients_agents_test.go), which
// build it in a module of its own, drive it as a process and kill it.
//
//	agent call TOOL ARGUMENTS [key=K] [timeout=SECONDS] [cancel] [hang] [separate]
//	agent resume TOOL
//	agent settle OUTCOME
//	agent list TOOL
//
// HOLDPOINT_URL and HOLDPOINT_API_KEY say where the server is, JOURNAL and RUNS name files.
// Each run of the tool is a line of RUNS. What happened is one line of JSON on standard output.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	holdpoint "holdpoint.example/client"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func say(what any) {
	if err := json.NewEncoder(os.Stdout).Encode(what); err != nil {
		panic(err)
	}
}

func run(command, first string, rest []string) error {
	options := map[string]string{}
	for _, word := range rest {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}
	c := &holdpoint.Client{URL: os.Getenv("HOLDPOINT_URL"), Key: os.Getenv("HOLDPOINT_API_KEY"), OnWait: func(holdpoint.Approval) {}}
	if path := os.Getenv("JOURNAL"); path != "" {
		journal, err := holdpoint.OpenJournal(path)
		if err != nil {
			return err
		}
		c.Journal = journal
	}
	tool := toolOf(c, first, options)
	ctx := context.Background()
	if text := options["timeout"]; text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			for !waits(ctx, c, first) {
				time.Sleep(20 * time.Millisecond)
			}
			time.AfterFunc(time.Duration(seconds*float64(time.Second)), cancel)
		}()
	}
	switch command {
	case "call":
		var arguments map[string]any
		if err := json.Unmarshal([]byte(rest[0]), &arguments); err != nil {
			return err
		}
		say(outcome(tool.CallAs(ctx, options["key"], arguments)))
	case "resume", "settle":
		left, err := c.Unfinished()
		if err != nil {
			return err
		}
		list := []map[string]any{}
		for _, u := range left {
			if command == "settle" {
				list = append(list, outcome("", u.Settle(ctx, holdpoint.Outcome(first))))
				continue
			}
			came := outcome(tool.Resume(ctx, u))
			came["state"] = u.State
			list = append(list, came)
		}
		say(map[string]any{strings.TrimSuffix(command, "e") + "ed": list})
	case "list":
		list := []map[string]any{}
		for a, err := range c.List(ctx, holdpoint.Filter{ToolName: first}) {
			if err != nil {
				return err
			}
			list = append(list, map[string]any{"id": a.ID, "status": a.Status, "execution": a.Execution, "digest": a.Digest})
		}
		digest, err := holdpoint.Digest(first, map[string]any{"n": 1})
		if err != nil {
			return err
		}
		say(map[string]any{"list": list, "digest": digest})
	}
	return nil
}

// waits reports whether a call of the tool waits for people.
func waits(ctx context.Context, c *holdpoint.Client, tool string) bool {
	for _, err := range c.List(ctx, holdpoint.Filter{ToolName: tool, Status: holdpoint.Pending}) {
		return err == nil
	}
	return false
}

func toolOf(c *holdpoint.Client, name string, options map[string]string) *holdpoint.Tool[map[string]any, string] {
	route := cmp.Or(options["route"], holdpoint.Defer)
	_, cancels := options["cancel"]
	_, separate := options["separate"]
	return &holdpoint.Tool[map[string]any, string]{
		Client: c,
		Event: holdpoint.Event{
			ToolName: name, ToolCategory: holdpoint.PublicRead, AuthorizationState: holdpoint.None, RiskDomain: "research",
			RecommendedRoute: route, Separate: separate,
		},
		KeepsConstraints: true,
		CancelWhenDone:   cancels,
		Run: func(_ context.Context, arguments map[string]any, permit holdpoint.Permit) (string, error) {
			runs, err := os.OpenFile(os.Getenv("RUNS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			if err := json.NewEncoder(runs).Encode(map[string]any{"arguments": arguments, "constraints": permit.Constraints}); err != nil {
				return "", err
			}
			say(map[string]any{"running": true})
			if _, hangs := options["hang"]; hangs {
				_, _ = io.Copy(io.Discard, os.Stdin)
			}
			if arguments["fail"] != nil {
				return "", errors.New("it did not work")
			}
			return "done", runs.Close()
		},
	}
}

// outcome is what a call came to, in the words that the clients of all languages use.
func outcome(value string, err error) map[string]any {
	if err == nil {
		return map[string]any{"value": value}
	}
	came := map[string]any{"error": "Error", "text": err.Error()}
	var refused *holdpoint.Refused
	var problem *holdpoint.Problem
	var done *holdpoint.AlreadyDone
	var unreachable *holdpoint.Unreachable
	switch {
	case errors.As(err, &refused) && refused.Approval != nil:
		came["error"], came["status"] = "NotApproved", refused.Approval.Status
	case errors.As(err, &refused):
		came["error"] = "Refused"
	case errors.As(err, &done):
		came["error"] = "AlreadyDone"
	case errors.Is(err, holdpoint.ErrOutcomeUnknown):
		came["error"] = "OutcomeUnknown"
	case errors.Is(err, holdpoint.ErrOtherCall):
		came["error"] = "JournalError"
	case errors.Is(err, context.Canceled):
		came["error"] = "Stopped"
	case errors.As(err, &problem):
		came["error"], came["code"] = "Problem", problem.Code
	case errors.As(err, &unreachable):
		came["error"] = "Unreachable"
	}
	return came
}
