package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	holdpoint "holdpoint.example/client"
)

type order struct {
	Order  string `json:"order"`
	Amount string `json:"amount"`
}

func refund(o order) error {
	_, err := fmt.Println("paid", o.Amount, "for", o.Order)
	return err
}

func settle(ctx context.Context, c *holdpoint.Client, o order, ticket, information string) (string, error) {
	d, err := c.Check(ctx, holdpoint.Event{
		ToolName: "refund", ToolCategory: holdpoint.Write, AuthorizationState: holdpoint.Authenticated,
		RiskDomain: "unknown", RecommendedRoute: holdpoint.Defer, Arguments: o,
	})
	switch {
	case err != nil:
		return "", err
	case holdpoint.ShouldExecute(d):
		return "accepted", refund(o) // within d.Constraints
	case d.Approval == nil:
		return "refused: " + strings.Join(d.HardBlockers, ", "), nil
	}
	a := *d.Approval
	for err == nil && !a.Status.Final() {
		if a.Question != nil {
			a, err = c.Inform(ctx, a.ID, information)
		} else if a.NextAction == "attach_ticket" {
			a, err = c.AttachTicket(ctx, a.ID, "", ticket)
		}
		if err == nil { // wait, answer (by the runtime), verify (by its user): it is others' turn
			a, err = waitAWhile(ctx, c, a.ID)
		}
	}
	switch {
	case err != nil:
		return "", err
	case a.Status != holdpoint.Approved && a.Denial != nil:
		return string(a.Status) + " " + a.Denial.Kind, nil // wrong_args, needs_info: another call; not_now: later; never
	case a.Status != holdpoint.Approved:
		return string(a.Status), nil
	case a.Edited != nil:
		if err := json.Unmarshal(a.Edited.Arguments, &o); err != nil {
			return "", err
		}
	}
	if _, err := c.Redeem(ctx, a.Token, "refund", o); err != nil { // it may not run (any more); else there may be constraints
		return "", err
	}
	if err := refund(o); err != nil {
		return "", errors.Join(err, c.Report(ctx, a.ID, holdpoint.Failed, 0)) // or Uncertain
	}
	return "approved", c.Report(ctx, a.ID, holdpoint.Succeeded, 0)
}

// waitAWhile returns the approval as it is when it is over, or after 30 seconds: is there a
// question by now?
func waitAWhile(ctx context.Context, c *holdpoint.Client, id string) (holdpoint.Approval, error) {
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	a, err := c.Wait(within, id)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return c.Get(ctx, id)
	}
	return a, err
}

func main() {
	c := &holdpoint.Client{URL: os.Getenv("HOLDPOINT_URL"), Key: os.Getenv("HOLDPOINT_API_KEY")}
	ended, err := settle(context.Background(), c, order{"4711", "12.50"}, "OPS-1", "The parcel was lost.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ended)
}
