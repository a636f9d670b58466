package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/webpush"
	"holdpoint/internal/outbound"
	"holdpoint/internal/store"
)

// Browser is one that its person has notified, as the person sees it.
type Browser struct {
	ID, Name string
	// Details says that a notification there tells what the call will do.
	Details    bool
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

// NewBrowser is what a browser says of itself when it subscribes.
type NewBrowser struct {
	Name                   string
	Endpoint, P256DH, Auth string
	Details                bool
}

const (
	maxBrowserName = 100 // characters
	// maxTests is how many tests a person sends within a minute: whoever signs in names the addresses.
	maxTests = 10
)

// PublicKey is what browsers subscribe to; "" where nobody can be notified: there is no
// key, or no endpoint for web push that is switched on.
func (r Push) PublicKey(ctx context.Context) (string, error) {
	if !r.PushKey.There() {
		return "", nil
	}
	_, there, err := r.Store.Push.There(ctx)
	if err != nil || !there {
		return "", err
	}
	return r.PushKey.Public(), nil
}

// Of lists the person's browsers, the oldest first.
func (r Push) Of(ctx context.Context, p engine.Person) ([]Browser, error) {
	list, err := r.Store.Push.Of(ctx, p.ID)
	browsers := make([]Browser, len(list))
	for i, s := range list {
		browsers[i] = Browser{ID: s.ID, Name: s.Name, Details: s.Details, CreatedAt: s.CreatedAt, LastUsedAt: s.LastUsedAt}
	}
	return browsers, err
}

// Add has a person's browser notified and returns its id. The address is what any
// browser may say: it has to be public and reached by https, unless PushPrivate names
// its network. Where the person has too many then, the oldest ones go.
func (r Push) Add(ctx context.Context, by access.Initiator, b NewBrowser) (string, error) {
	var errs []error
	if b.Name = strings.Join(strings.Fields(b.Name), " "); b.Name == "" || utf8.RuneCountInString(b.Name) > maxBrowserName || !utf8.ValidString(b.Name) || strings.ContainsRune(b.Name, 0) {
		errs = append(errs, fmt.Errorf("name: want 1 to %d characters", maxBrowserName))
	}
	if _, err := (outbound.Config{AllowPrivate: r.PushPrivate, AllowHTTP: len(r.PushPrivate) > 0}).CheckURL(b.Endpoint); err != nil {
		errs = append(errs, fmt.Errorf("the browser's push service: %w", err))
	}
	if err := (webpush.Subscription{Endpoint: b.Endpoint, P256DH: b.P256DH, Auth: b.Auth}).Check(); err != nil {
		errs = append(errs, fmt.Errorf("the browser's keys: %w", err))
	}
	if err := invalidEntry(errs); err != nil {
		return "", err
	}
	if key, err := r.PublicKey(ctx); err != nil {
		return "", err
	} else if key == "" {
		return "", noPush
	}
	id := store.NewID("psh")
	err := r.Store.Push.Create(ctx, store.PushSubscription{
		ID: id, PersonID: by.Actor.ID, Name: b.Name, PushSecret: store.PushSecret{Endpoint: b.Endpoint, P256DH: b.P256DH, Auth: b.Auth, Details: b.Details},
	}, func(oldest []string) engine.Event {
		e := pushEvent(by, "PUSH_ADDED", "A browser is notified by web push.", id, b.Details)
		if len(oldest) > 0 {
			_ = e.SetPayload(map[string]any{"subscription_id": id, "details": b.Details, "instead_of": oldest}) // strings and a bool always encode
		}
		return e
	})
	return id, r.administered(ctx, err)
}

// SetDetails says whether notifications in one of the person's browsers tell what calls
// will do.
func (r Push) SetDetails(ctx context.Context, by access.Initiator, id string, details bool) error {
	message := "Notifications in a browser do not say what calls will do."
	if details {
		message = "Notifications in a browser say what calls will do."
	}
	return r.done(r.Store.Push.SetDetails(ctx, by.Actor.ID, id, details, pushEvent(by, "PUSH_DETAILS", message, id, details)))
}

// Remove ends the notifications of one of the person's browsers.
func (r Push) Remove(ctx context.Context, by access.Initiator, id string) error {
	return r.done(r.Store.Push.Remove(ctx, by.Actor.ID, id, pushEvent(by, "PUSH_REMOVED", "A browser is not notified any more.", id, false)))
}

// Test has a test sent to one of the person's browsers. Refusals: not_found,
// too_many_attempts, push_unavailable.
func (r Push) Test(ctx context.Context, by access.Initiator, id string) error {
	s, err := r.Store.Push.Get(ctx, id)
	if err == nil && s.PersonID != by.Actor.ID {
		err = store.ErrNotFound
	}
	if err != nil {
		return r.done(err)
	}
	endpoint, there, err := r.Store.Push.There(ctx)
	if err != nil {
		return err
	}
	if !there {
		return noPush
	}
	now, err := r.Store.Now(ctx)
	if err != nil {
		return err
	}
	n, err := notify.NewTestOf(endpoint, id, notify.NewTest(store.NewID("ntf"), now))
	if err != nil {
		return err
	}
	err = r.Store.Push.Test(ctx, by.Actor.ID, n, maxTests, pushEvent(by, "PUSH_TESTED", "A test was sent to a browser.", id, false))
	if errors.Is(err, store.ErrTooMany) {
		return &access.Refusal{Kind: access.RateLimited, Code: "too_many_attempts", Detail: fmt.Sprintf("%d tests were sent to your browsers within a minute. Wait a moment before the next one.", maxTests), RetryAfter: time.Minute}
	}
	return err
}

var noPush = &access.Refusal{Kind: access.Conflict, Code: "push_unavailable", Detail: "Nobody is notified by web push here: an administrator has to switch it on first."}

func (r Push) done(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "You have no such browser. It may have been removed already."}
	}
	return err
}

func pushEvent(by access.Initiator, code, message, id string, details bool) engine.Event {
	e := by.Event(code, message, "", "")
	_ = e.SetPayload(map[string]any{"subscription_id": id, "details": details}) // a string and a bool always encode
	return e
}
