package setup

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
)

// step is one act of administration, as a single command does it.
type step func(context.Context, *Applier) error

// Secret is something that is shown once.
type Secret struct {
	// Kind and Name are of the entry that it is of.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// What is password_link or webhook_secret.
	What string `json:"what"`
	Text string `json:"text"`
	// Until is when a link lapses.
	Until *time.Time `json:"until,omitempty"`
}

// Applier does what a plan says.
type Applier struct {
	Admin *admin.Admin
	By    access.Initiator
	// AllowUnknownRoles is that of the comparison.
	AllowUnknownRoles bool
	// Show is given each secret as soon as it is made.
	Show func(Secret) error
	// Done is told of each change that was done, or refused, or that waits for its approval
	// (*admin.Waits).
	Done func(c Change, err error)
	// Reason is why, for those who have to approve what takes an approval, and Again has people asked
	// again about what they did not approve before.
	Reason string
	Again  bool
	// Held is what was proposed, once all else was done.
	Held []admin.PendingApproval
}

// Apply does the changes of a plan one after the other, each by the same act as the
// single command. What is refused is left out, and the others are done; anything else
// that goes wrong ends it. What takes an approval is proposed together, after the others. It
// returns how many were done and how many refused, or wait: what was not done is in the next
// plan again. When ctx is over, it ends behind a change.
func (a *Applier) Apply(ctx context.Context, p Plan) (done, refused int, err error) {
	collecting, waits := admin.Collect(context.WithoutCancel(ctx), a.Again)
	later := map[string][]Change{} // by kind
	for _, c := range p.Changes {
		if err := ctx.Err(); err != nil {
			return done, refused, err
		}
		err := a.one(collecting, c)
		if kind, collected := admin.WasCollected(err); collected {
			later[kind] = append(later[kind], c)
			continue
		}
		a.Done(c, err)
		var no *access.Refusal
		var wait *admin.AlreadyPending
		switch {
		case err == nil:
			done++
		case errors.As(err, &no), errors.As(err, &wait):
			refused++
		default:
			return done, refused, err
		}
	}
	if err := ctx.Err(); err != nil {
		return done, refused, err
	}
	a.Held, err = a.Admin.Changes.Propose(ctx, a.By, waits, a.Reason)
	for _, h := range a.Held {
		for _, c := range later[h.Kind] {
			a.Done(c, &admin.AlreadyPending{ApprovalID: h.ApprovalID})
			refused++
		}
	}
	return done, refused, err
}

// one does all steps of a change. What of it waits keeps nothing else of it from being done.
func (a *Applier) one(ctx context.Context, c Change) error {
	var waits error
	for _, do := range c.steps {
		err := do(ctx, a)
		_, collected := admin.WasCollected(err)
		if before := (*admin.AlreadyPending)(nil); collected || errors.As(err, &before) {
			waits, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	return waits
}

func (s Settings) put(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.PutSettings(ctx, a.By, s.registry(), nil)
}

func (p Person) invite(ctx context.Context, a *Applier) error {
	link, err := a.Admin.People.Invite(ctx, a.By, admin.NewPerson{Email: p.Email, Name: p.Name, Roles: p.Roles, SameAs: p.SameAs}, a.AllowUnknownRoles, nil)
	if err != nil || p.Disabled != nil && *p.Disabled {
		return err // nobody needs the link
	}
	return a.link(link)
}

func (a *Applier) link(link admin.PasswordLink) error {
	return a.Show(Secret{Kind: words[peopleSection], Name: link.Person.Email, What: "password_link", Text: link.URL, Until: &link.ExpiresAt})
}

// change changes what differs from was: a role that is the same in both is neither given
// nor taken. A role may wait for its approval, and a name does not.
func (p Person) change(was Person) step {
	return func(ctx context.Context, a *Applier) error {
		c := admin.PersonChange{AddRoles: without(p.Roles, was.Roles), RemoveRoles: without(was.Roles, p.Roles), AllowUnknownRoles: a.AllowUnknownRoles}
		if p.Name != was.Name {
			c.Name = &p.Name
		}
		_, err := a.Admin.People.Change(ctx, a.By, p.Email, c, nil)
		if !errors.Is(err, admin.ErrNameApart) {
			return err
		}
		if _, err := a.Admin.People.Change(ctx, a.By, p.Email, admin.PersonChange{Name: c.Name}, nil); err != nil {
			return err
		}
		c.Name = nil
		_, err = a.Admin.People.Change(ctx, a.By, p.Email, c, nil)
		return err
	}
}

// without are the values that others does not have.
func without(values, others []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(others, v) })
}

func (p Person) disable(ctx context.Context, a *Applier) error {
	_, err := a.Admin.People.Disable(ctx, a.By, p.Email, nil)
	return err
}

func (p Person) enable(ctx context.Context, a *Applier) error {
	link, err := a.Admin.People.Enable(ctx, a.By, p.Email, nil)
	if err != nil {
		return err
	}
	return a.link(link)
}

func (t Tool) register(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RegisterTool(ctx, a.By, t.registry(), nil)
}

func (t Tool) revoke(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RevokeTool(ctx, a.By, t.Name, true, nil)
}

func (t Tool) restore(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RevokeTool(ctx, a.By, t.Name, false, nil)
}

func (g Agent) register(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RegisterAgent(ctx, a.By, g.registry(), nil)
}

func (g Agent) revoke(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RevokeAgent(ctx, a.By, g.ID, true, nil)
}

func (g Agent) restore(ctx context.Context, a *Applier) error {
	return a.Admin.Registry.RevokeAgent(ctx, a.By, g.ID, false, nil)
}

// setWebhook has the agent told at an address; "" ends it.
func (g Agent) setWebhook(address string) step {
	return func(ctx context.Context, a *Applier) error {
		w := admin.AgentWebhook{AgentID: g.ID, URL: address}
		if address != "" {
			w.Plain, w.Format = g.Webhook.Plain, g.Webhook.Format
		}
		made, err := a.Admin.Endpoints.SetAgentWebhook(ctx, a.By, w, nil)
		if made.Secret == "" {
			return err
		}
		return errors.Join(a.Show(Secret{Kind: words[agentsSection], Name: g.ID, What: "webhook_secret", Text: made.Secret}), err)
	}
}

func (e Endpoint) add(address string) step {
	return func(ctx context.Context, a *Applier) error {
		id, shown, err := a.Admin.Endpoints.Add(ctx, a.By, admin.NewEndpoint{
			Kind: e.Kind, Name: e.Name, Settings: e.settings(), URL: address, Plain: e.Plain, Ed25519: e.Ed25519, Off: e.Disabled != nil && *e.Disabled,
		})
		if id != "" && shown != "" {
			err = errors.Join(a.Show(Secret{Kind: words[endpointsSection], Name: e.Name, What: "webhook_secret", Text: shown}), err)
		}
		return err
	}
}

func (e Endpoint) change(id, address string) step {
	return func(ctx context.Context, a *Applier) error {
		return a.Admin.Endpoints.Change(ctx, a.By, id, admin.EndpointChange{
			Settings: func(s *notify.Settings) { *s = e.settings() }, URL: address, Plain: e.Plain,
		})
	}
}

func (e Endpoint) turn(id string, off bool) step {
	return func(ctx context.Context, a *Applier) error { return a.Admin.Endpoints.Switch(ctx, a.By, id, off) }
}

// put has people on call for a shift, or nobody from a moment on; and nobody else from off on,
// nil where the shift begins.
func (s Schedule) put(shift Shift, off *time.Time) step {
	return func(ctx context.Context, a *Applier) error {
		q := admin.OnCallRequest{Schedule: s.Name, Emails: shift.People, Until: shift.Until, OffFrom: off}
		if shift.From != nil {
			q.From = *shift.From
		}
		return a.Admin.OnCall.Set(ctx, a.By, q, nil)
	}
}
