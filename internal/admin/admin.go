// Package admin changes what calls and approvals are judged by beside policy: agents,
// tools, limits and kill switches, delegations, on-call schedules, endpoints of
// notifications, retention and erasure; and who has an account or a key. Every change is on record with who made it.
// It never judges a call and never decides about an approval.
package admin

import (
	"context"
	"net/netip"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/fair"
	"holdpoint/internal/notify/webpush"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

// Config is what administration needs.
type Config struct {
	Store *store.Store
	// Refresh, when set, is called after every change: this process looks at once;
	// the database tells the others.
	Refresh func(context.Context)
	// AllowPrivate are networks that are not public and may be asked all the same.
	AllowPrivate []netip.Prefix
	// PushKey is what pushes to browsers are signed with; the zero Key for none.
	// PushPrivate are networks that are not public and may have push services all the
	// same. They are not AllowPrivate: anybody who signs in names a push service.
	PushKey     webpush.Key
	PushPrivate []netip.Prefix
	// Roles are those that people may be given; nil where any role may be.
	Roles func(context.Context) ([]string, error)
	// PublicURL is where people reach the console: links by which they set a password
	// lead there.
	PublicURL string
	// MailLink sends a link by which somebody sets a password to their address, once; nil
	// where there is no mail server.
	MailLink func(ctx context.Context, to, link string, until time.Time) error
	// SCIM is the provider whose directory tells of people; nil for none.
	SCIM *sso.Config
	// Hold has people decide about a change that takes their approval; nil where none can be
	// proposed from here.
	Hold func(context.Context, access.Initiator, PendingChange) (PendingApproval, error)
	// Owner says that the store is open as the role that owns the database. Only
	// that role adds agents and says who answers for them.
	Owner bool
}

// Admin is all of administration, by what is administered.
type Admin struct {
	People        People
	Directory     Directory
	Keys          Keys
	Registry      Registry
	Delegations   Delegations
	OnCall        OnCall
	Endpoints     Endpoints
	Push          Push
	Slack         Slack
	Retention     Retention
	Changes       Changes
	AccessReviews AccessReviews
}

type (
	// People are the accounts of those who sign in. They change by command, as the
	// role that owns the database, and elsewhere where there is a login for it.
	People struct{ Config }
	// Directory is what a provider's directory tells of people and groups (SCIM).
	Directory struct{ Config }
	// Keys are the API keys, and the agents that they are for. They change by command, too.
	Keys struct{ Config }
	// Registry registers agents and tools, sets limits, and activates kill switches.
	Registry struct{ Config }
	// Delegations say who decides in whose place.
	Delegations struct {
		Config
		naming *fair.Limit // of each person one at a time names a deputy
	}
	// OnCall keeps the on-call schedules.
	OnCall struct{ Config }
	// Endpoints are where notifications go.
	Endpoints struct{ Config }
	// Push has people's browsers notified, each by its own person.
	Push struct{ Config }
	// Slack links people's accounts in Slack, each by its own person.
	Slack struct{ Config }
	// Retention places legal holds and erases.
	Retention struct{ Config }
	// Changes say which changes of the rules take an approval.
	Changes struct{ Config }
	// AccessReviews have people look through who has which role, and say what is to be
	// taken away.
	AccessReviews struct{ Config }
)

// New returns administration over a store.
func New(c Config) *Admin {
	return &Admin{People: People{c}, Directory: Directory{c}, Keys: Keys{c}, Registry: Registry{c}, Delegations: Delegations{c, fair.NewLimit(1)}, OnCall: OnCall{c}, Endpoints: Endpoints{c}, Push: Push{c}, Slack: Slack{c}, Retention: Retention{c}, Changes: Changes{c}, AccessReviews: AccessReviews{c}}
}
