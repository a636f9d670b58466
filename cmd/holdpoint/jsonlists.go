package main

import (
	"encoding/json"
	"os"
	"time"

	"holdpoint/engine/registry"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
)

// listing is the flag of commands that list something.
type listing struct {
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// printEach prints what is listed, one JSON object a line, as of makes them.
func printEach[T, J any](list []T, of func(T) J) error {
	out := json.NewEncoder(os.Stdout)
	for _, one := range list {
		if err := out.Encode(of(one)); err != nil {
			return err
		}
	}
	return nil
}

// asIs is for what is JSON as it is.
func asIs[T any](one T) T { return one }

// listedAgent is what "agent list --json" prints of an agent.
type listedAgent struct {
	registry.Agent
	Stopped bool `json:"stopped"` // by its kill switch, or that for all
}

// listedEndpoint is what "notify list --json" prints of an endpoint.
type listedEndpoint struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Settings   notify.Settings `json:"settings"`
	CreatedAt  time.Time       `json:"created_at"`
	DisabledAt *time.Time      `json:"disabled_at,omitempty"`
	Sent       int             `json:"sent"`
	Waiting    int             `json:"waiting"`
	Dead       int             `json:"dead"`
	LastAt     *time.Time      `json:"last_at,omitempty"`
	ApprovalID string          `json:"approval_id,omitempty"` // of a change that waits
}

func endpointListed(e admin.Endpoint) listedEndpoint {
	return listedEndpoint{e.ID, e.Kind, e.Name, e.Settings, e.CreatedAt.UTC(), e.DisabledAt, e.Sent, e.Waiting, e.Dead, e.LastAt, e.ApprovalID}
}

// listedDead is what "notify dead --json" prints of a notification.
type listedDead struct {
	ID         string    `json:"id"`
	GivenUpAt  time.Time `json:"given_up_at"`
	EndpointID string    `json:"endpoint_id"`
	Endpoint   string    `json:"endpoint"`
	Recipient  string    `json:"recipient,omitempty"`
	Kind       string    `json:"kind"`
	ApprovalID string    `json:"approval_id,omitempty"`
	Attempts   int       `json:"attempts"`
	Reason     string    `json:"reason"`
}

func deadListed(n admin.DeadLetter) listedDead {
	return listedDead{n.ID, n.At, n.EndpointID, n.Endpoint, n.Recipient, n.Kind, n.ApprovalID, n.Attempts, n.Reason}
}

// listedHold is what "hold list --json" prints of a legal hold.
type listedHold struct {
	ID         string     `json:"id"`
	Covers     string     `json:"covers"`
	Subject    string     `json:"subject,omitempty"`
	Reason     string     `json:"reason"`
	PlacedBy   string     `json:"placed_by"`
	PlacedAt   time.Time  `json:"placed_at"`
	ReleasedAt *time.Time `json:"released_at,omitempty"`
	ReleasedBy string     `json:"released_by,omitempty"`
}

func holdListed(h store.Hold) listedHold {
	return listedHold{h.ID, h.Covers, h.Subject, h.Reason, h.By, h.At.UTC(), h.ReleasedAt, h.ReleasedBy}
}

// listedDue is what "retention show --json" prints of an approval.
type listedDue struct {
	ApprovalID string    `json:"approval_id"`
	EndedAt    time.Time `json:"ended_at"`
	AgentID    string    `json:"agent_id"`
	Tool       string    `json:"tool_name"`
	Kept       string    `json:"kept,omitempty"` // why; left out when it could be erased
}

func dueListed(d store.Due) listedDue {
	return listedDue{d.ID, d.EndedAt.UTC(), d.AgentID, d.Tool, d.Why}
}
