package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

// where says which database an administrative command works on.
type where struct {
	Data string `help:"Data directory of a running “holdpoint dev”; without it, HOLDPOINT_DATABASE_ADMIN_URL says where." type:"path" placeholder:"DIR"`
}

// open opens the database as the role that owns it.
func (w where) open(ctx context.Context, c *cli) (*store.Store, error) {
	var url string
	if w.Data != "" {
		running, err := readDevFile(w.Data)
		if err != nil {
			return nil, err
		}
		url = running.DatabaseAdminURL
	} else {
		cfg, err := c.load(config.Admin)
		if err != nil {
			return nil, fmt.Errorf("%w\n(or name the data directory of a running “holdpoint dev” with --data)", err)
		}
		url = cfg.DatabaseAdminURL
	}
	return store.Open(ctx, store.Config{URL: url, MaxConns: 4})
}

// settingsFile is a data directory's: the settings of serve and worker.
const settingsFile = "settings.yaml"

// logKeyFile is a data directory's: the audit log's key, with its public half
// beside it in a file that ends in .pub.
const logKeyFile = "log-key"

// devFile is DIR/dev.json: how to reach a running "holdpoint dev" (docs/spec/wire.md).
type devFile struct {
	URL              string        `json:"url"`
	AdminKey         string        `json:"admin_key"`
	AgentKey         string        `json:"agent_key"`
	RuntimeKey       string        `json:"runtime_key"`
	Reviewers        []devReviewer `json:"reviewers"`
	Owner            devReviewer   `json:"owner"`
	Auditor          devReviewer   `json:"auditor"`
	DatabaseURL      string        `json:"database_url"`
	DatabaseAdminURL string        `json:"database_admin_url"`
	TemporalAddress  string        `json:"temporal_address"`
	PID              int           `json:"pid"`
	// LogKey is the public key that the audit log is verified with.
	LogKey string `json:"log_key"`
}

type devReviewer struct {
	Email    string   `json:"email"`
	Password string   `json:"password"`
	Roles    []string `json:"roles"`
	Name     string   `json:"name"`
	// TOTPSecret is the secret of the person's authenticator app, in base32; ""
	// when they have none.
	TOTPSecret string `json:"totp_secret,omitempty"`
}

func readDevFile(dir string) (devFile, error) {
	var d devFile
	data, err := os.ReadFile(filepath.Join(dir, "dev.json")) // #nosec G304 -- the user names the directory
	if err != nil {
		return d, fmt.Errorf("%s is no data directory of a running “holdpoint dev”: %w", dir, err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("read %s/dev.json: %w", dir, err)
	}
	return d, nil
}

// changed is the event of an administrative change made from the command line.
// what says what there was before and after, where the reports want to know.
func changed(code, message, subject string, what ...map[string]any) engine.Event {
	told := map[string]any{"subject": subject}
	for _, one := range what {
		maps.Copy(told, one)
	}
	payload, err := json.Marshal(told)
	if err != nil {
		payload = []byte(`{}`) // texts and times always encode
	}
	return engine.Event{
		ID: uuid.NewString(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code, Message: message}},
		SafePayload: payload, Actor: operator(),
	}
}

// rolesOf says whose roles changed, and how: the account's own, without those of
// being on call.
func rolesOf(personID string, before, after []string) map[string]any {
	own := func(roles []string) []string {
		return slices.DeleteFunc(append([]string{}, roles...), func(role string) bool { return strings.HasPrefix(role, engine.OnCallPrefix) })
	}
	return map[string]any{"person": personID, "roles_before": own(before), "roles_after": own(after)}
}

// keyOf says what a key is for.
func keyOf(k store.Key) map[string]any {
	told := map[string]any{"kind": k.Kind, "scopes": k.Scopes, "max_state": k.MaxState}
	if k.AgentID != "" {
		told["agent"] = k.AgentID
	}
	if k.ExpiresAt != nil {
		told["expires_at"] = k.ExpiresAt.UTC()
	}
	return told
}

// operator is whoever runs this command, for the audit log.
func operator() engine.Actor {
	user := os.Getenv("USER")
	if user == "" {
		user = fmt.Sprintf("uid %d", os.Getuid())
	}
	return engine.Actor{Kind: engine.ServiceActor, ID: user, Channel: "cli"}
}

// registrar opens the database for changes of agents, tools and switches.
func (w where) registrar(ctx context.Context, c *cli) (*admin.Admin, access.By, func(), error) {
	s, err := w.open(ctx, c)
	if err != nil {
		return nil, access.By{}, nil, err
	}
	return admin.New(admin.Config{Store: s, Owner: true}), access.By{Actor: operator()}, s.Close, nil
}

// plain is a refusal without its code: the sentence is enough at a terminal.
func plain(err error) error {
	var refused *access.Refusal
	if errors.As(err, &refused) {
		return errors.New(refused.Detail)
	}
	return err
}
