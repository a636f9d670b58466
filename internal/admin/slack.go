package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// CodeLasts is how long a code is good by which a person links their account in Slack.
const CodeLasts = 10 * time.Minute

// codeLength is how many characters a code has, of five random bits each.
const codeLength = 12

// There reports whether anything can be decided in Slack.
func (r Slack) There(ctx context.Context) (bool, error) { return r.Store.Slack.There(ctx) }

// LinkedAccount is a person's account in Slack.
type LinkedAccount struct {
	Team, User string
	LinkedAt   time.Time
}

// Of is the person's account in Slack; nil for none.
func (r Slack) Of(ctx context.Context, p engine.Person) (*LinkedAccount, error) {
	l, err := r.Store.Slack.Of(ctx, p.ID)
	if err != nil || l == nil {
		return nil, err
	}
	return &LinkedAccount{Team: l.Team, User: l.User, LinkedAt: l.LinkedAt}, nil
}

// NewCode makes a code by which the person links an account in Slack, once and within
// CodeLasts. It takes the place of the one before it, and is never shown again.
func (r Slack) NewCode(ctx context.Context, by access.Initiator) (string, error) {
	if there, err := r.There(ctx); err != nil || !there {
		return "", errors.Join(err, noSlack)
	}
	code := rand.Text()[:codeLength]
	err := r.Store.Slack.SetCode(ctx, by.Actor.ID, code, CodeLasts, by.Event("SLACK_CODE", "A person was given a code to link an account in Slack.", "", ""))
	return code[:4] + "-" + code[4:8] + "-" + code[8:], err
}

var noSlack = &access.Refusal{Kind: access.Conflict, Code: "slack_unavailable", Detail: "Nothing is decided in Slack here: an administrator has to allow it first."}

// Link links an account in Slack to the person whose code it is. app is the secret that
// signs the app's requests: no other app speaks for the account.
func (r Slack) Link(ctx context.Context, code string, a store.SlackAccount, app, requestID string) error {
	plain := strings.ToUpper(strings.Map(func(c rune) rune {
		if c == '-' || c == ' ' {
			return -1
		}
		return c
	}, code))
	err := store.ErrNotFound
	if len(plain) == codeLength {
		err = r.Store.Slack.Link(ctx, plain, a, app, func(personID string) engine.Event {
			return access.PersonInitiator(engine.Person{ID: personID}, "slack", requestID).Event("SLACK_LINKED", "A person linked an account in Slack.", "", "")
		})
	}
	if errors.Is(err, store.ErrNotFound) {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such code, or its time is over. Make a new one on the page of your account in Holdpoint."}
	}
	return err
}

// Unlink ends the person's link.
func (r Slack) Unlink(ctx context.Context, by access.Initiator) error {
	err := r.Store.Slack.Unlink(ctx, by.Actor.ID, by.Event("SLACK_UNLINKED", "A person ended the link to an account in Slack.", "", ""))
	if errors.Is(err, store.ErrNotFound) {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "No account in Slack is linked. The link may have been ended already."}
	}
	return err
}
