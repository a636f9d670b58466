package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/store"
)

// Endpoint is where people or programs are told, as its administrators see it.
// What is secret about it is not here.
type Endpoint struct {
	ID, Kind, Name string
	Settings       notify.Settings
	CreatedAt      time.Time
	DisabledAt     *time.Time
	// Waiting, Sent and Dead count its notifications; LastAt is when the last one
	// was sent, nil for never.
	Waiting, Sent, Dead int
	LastAt              *time.Time
	// ApprovalID is of the approval that a change of it waits for, or its being switched on; "" for none.
	ApprovalID string
}

// DeadLetter is a notification that was given up.
type DeadLetter struct {
	ID, EndpointID, Endpoint string
	Recipient, ApprovalID    string
	Kind                     string
	Attempts                 int
	Reason                   string
	At                       time.Time
}

// NewEndpoint is what it takes to add an endpoint.
type NewEndpoint struct {
	Kind, Name string
	Settings   notify.Settings
	// URL is where a webhook or Slack is posted to. Plain allows http inside the
	// house. Ed25519 signs webhooks with a key pair instead of a shared secret.
	URL            string
	Plain, Ed25519 bool
	// Signing is the signing secret of the Slack app, where calls may be decided in Slack.
	Signing string
	// Off adds it switched off.
	Off bool
}

// newKey makes a secret that signs, and what the receiver gets to verify by.
func newKey(pair bool) (secret, shown string) {
	if pair {
		return channel.NewEd25519()
	}
	secret = channel.NewSecret()
	return secret, secret
}

// Add adds an endpoint and returns its id and, for a webhook, what the
// receiver verifies by: it is never shown again. Where endpoints take an approval it is added
// switched off together with that, and the error beside its id says what it waits for.
func (r Endpoints) Add(ctx context.Context, by access.Initiator, e NewEndpoint) (id, shown string, err error) {
	id, e.Name = store.NewID("end"), strings.TrimSpace(e.Name)
	target := notify.EndpointSecrets{URL: strings.TrimSpace(e.URL), Plain: e.Plain, Signing: strings.TrimSpace(e.Signing)}
	if e.Kind == notify.Webhook {
		var secret string
		secret, shown = newKey(e.Ed25519)
		target.Keys = []notify.Key{{Secret: secret}}
	}
	e.Settings = settled(e.Kind, e.Settings, target)
	errs := r.Check(NewEndpoint{Kind: e.Kind, Name: e.Name, Settings: e.Settings})
	if e.Kind == notify.Email && target.URL != "" {
		errs = append(errs, errors.New("url: e-mail has none: addresses stand in “to”"))
	}
	if e.Kind == notify.Push && target.URL != "" {
		errs = append(errs, errors.New("url: web push has none: browsers say where they are reached"))
	}
	errs = append(append(errs, r.reachable(e.Kind, target)...), decides(e.Kind, e.Settings, target)...)
	if err := invalidEntry(errs); err != nil {
		return "", "", err
	}
	settings, secret, err := encodeEndpoint(e.Settings, target)
	if err != nil {
		return "", "", err
	}
	if e.Kind == notify.Email || e.Kind == notify.Push {
		secret = nil
	}
	_, guarded, err := r.guarded(ctx, by, store.EndpointsChange)
	if err != nil {
		return "", "", err
	}
	is := store.Endpoint{ID: id, Kind: e.Kind, Name: e.Name, Settings: settings, CreatedBy: by.Actor.ID}
	added := endpointEvent(by, "ENDPOINT_ADDED", "An endpoint for notifications was added.", id, e.Kind)
	taken := &access.Refusal{Kind: access.Invalid, Code: "name_taken", Detail: "name: there is an endpoint of this name already."}
	if !guarded || e.Off {
		err = r.Store.Endpoints.Create(ctx, is, secret, e.Off, nil, added)
		if errors.Is(err, store.ErrConflict) {
			err = taken
		}
		if err := r.administered(ctx, err); err != nil {
			return "", "", err
		}
		return id, shown, nil
	}
	held, err := r.ask(ctx, by, endpointAct{
		is: store.EndpointEditions{Endpoint: is, Secret: secret, Edition: 1}, becomes: store.EndpointContent{Settings: settings, Secret: secret}, edition: 1,
		event: endpointEvent(by, "ENDPOINT_ENABLED", "The endpoint was switched on.", id, e.Kind), meanwhile: "The endpoint is added, and off",
		write: func(ctx context.Context, opens *store.Submission) error {
			err := r.Store.Endpoints.CreateOff(ctx, is, secret, opens, added)
			if errors.Is(err, store.ErrConflict) {
				err = taken
			}
			return err
		},
	}, nil)
	if err == nil {
		return id, shown, r.administered(ctx, held.refusal())
	}
	if _, collected := WasCollected(err); collected {
		return id, shown, err
	}
	return "", "", err
}

// decides says what is missing where calls may be decided in Slack.
func decides(kind string, s notify.Settings, t notify.EndpointSecrets) []error {
	switch {
	case kind != notify.Slack && t.Signing != "":
		return []error{errors.New("signing secret: only Slack has one")}
	case s.Decide != "" && t.Signing == "" && len(s.Check(kind)) == 0: // one mistake at a time
		return []error{errors.New("signing secret: is missing; without it nobody knows that it is Slack that says who has decided")}
	}
	return nil
}

// settled are an endpoint's settings with what follows from its kind and its address.
func settled(kind string, s notify.Settings, t notify.EndpointSecrets) notify.Settings {
	s.Host = t.Host()
	if kind == notify.Push && len(s.Kinds) == 0 {
		s.Kinds = notify.PushKinds()
	}
	return s
}

// Check says what is wrong with an endpoint that is to be, field by field; with its
// address where one is given.
func (r Endpoints) Check(e NewEndpoint) []error {
	errs := e.Settings.Check(e.Kind)
	if e.Name == "" || len(e.Name) > 200 {
		errs = append(errs, errors.New("name: want 1 to 200 bytes"))
	}
	if e.URL != "" {
		secret, _ := newKey(e.Ed25519) // any will do
		errs = append(errs, r.reachable(e.Kind, notify.EndpointSecrets{URL: e.URL, Plain: e.Plain, Keys: []notify.Key{{Secret: secret}}})...)
	}
	return errs
}

func encodeEndpoint(s notify.Settings, t notify.EndpointSecrets) (settings, target []byte, err error) {
	settings, err1 := json.Marshal(s)
	target, err2 := json.Marshal(t)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("encode an endpoint: %w", err)
	}
	return settings, target, nil
}

// endpointEvent records an act of administration of an endpoint.
func endpointEvent(b access.Initiator, code, message, id, kind string) engine.Event {
	e := b.Event(code, message, "", "")
	_ = e.SetPayload(map[string]string{"endpoint_id": id, "kind": kind}) // strings always encode
	return e
}

var noEndpoint = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such endpoint."}

func (r Endpoints) read(ctx context.Context, id string) (store.Endpoint, notify.Settings, error) {
	e, err := r.Store.Endpoints.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return e, notify.Settings{}, noEndpoint
	}
	if err != nil {
		return e, notify.Settings{}, err
	}
	s, err := notify.ParseSettings(e.Settings)
	return e, s, err
}

// Switch switches an endpoint off, or on again. What still waits for one
// that is off becomes a dead letter when its turn comes.
func (r Endpoints) Switch(ctx context.Context, by access.Initiator, id string, off bool) error {
	e, _, err := r.read(ctx, id)
	if err != nil {
		return err
	}
	code, message := "ENDPOINT_DISABLED", "The endpoint was switched off."
	if !off {
		code, message = "ENDPOINT_ENABLED", "The endpoint was switched on."
		_, guarded, err := r.guarded(ctx, by, store.EndpointsChange)
		switch {
		case err != nil:
			return err
		case e.DisabledAt == nil:
			return nil // it is so already
		case guarded:
			return r.askOn(ctx, by, id)
		}
	}
	err = r.Store.Endpoints.Switch(ctx, id, off, nil, endpointEvent(by, code, message, id, e.Kind))
	if errors.Is(err, store.ErrNotFound) {
		return nil // it is so already
	}
	return r.administered(ctx, err)
}

// EndpointChange is what an endpoint is to be told from now on. Settings changes the
// settings that there are at the moment of the change: of two changes at once, the second
// is given what the first has made. URL "" leaves the address as it is; Plain is that of
// an address that is given.
type EndpointChange struct {
	Settings func(*notify.Settings)
	URL      string
	Plain    bool
	// Signing is another signing secret of the Slack app; "" leaves the one that there is.
	Signing string
	// Idempotency keeps the answer with the change; nil for none.
	Idempotency *access.Idempotency[access.Done]
}

// Change changes an endpoint's settings, and its address where one is given. What a
// webhook is signed with stays. Where endpoints take an approval, one that is on goes on as it is
// until then.
func (r Endpoints) Change(ctx context.Context, by access.Initiator, id string, c EndpointChange) error {
	e, _, err := r.read(ctx, id)
	if err != nil {
		return err
	}
	waits, err := r.takesApproval(ctx, by, e)
	if err != nil {
		return err
	}
	if waits {
		return r.askChange(ctx, by, id, endpointEvent(by, "ENDPOINT_CHANGED", "The endpoint’s settings were changed.", id, e.Kind),
			func(settings json.RawMessage, secret []byte, _ time.Duration) (json.RawMessage, []byte, error) {
				return r.rewritten(e.Kind, settings, secret, c)
			})
	}
	err = r.Store.Endpoints.Rotate(ctx, id, c.Idempotency, func(settings json.RawMessage, sealed []byte) (json.RawMessage, []byte, error) {
		return r.rewritten(e.Kind, settings, sealed, c)
	}, endpointEvent(by, "ENDPOINT_CHANGED", "The endpoint’s settings were changed.", id, e.Kind))
	return r.administered(ctx, err)
}

// rewritten are an endpoint's settings, and what is secret about it, after a change.
func (r Endpoints) rewritten(kind string, now json.RawMessage, sealed []byte, c EndpointChange) (json.RawMessage, []byte, error) {
	settings, err := notify.ParseSettings(now)
	if err != nil {
		return nil, nil, err
	}
	target, err := notify.ParseTarget(sealed)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	if c.URL = strings.TrimSpace(c.URL); c.URL != "" {
		target.URL, target.Plain = c.URL, c.Plain
		if kind == notify.Email || kind == notify.Push {
			errs = append(errs, errors.New("url: an endpoint for e-mail or web push has none"))
		} else {
			errs = append(errs, r.reachable(kind, target)...)
		}
	}
	if c.Signing = strings.TrimSpace(c.Signing); c.Signing != "" {
		target.Signing = c.Signing
		if err := target.Check(kind); err != nil && c.URL == "" {
			errs = append(errs, err)
		}
	}
	c.Settings(&settings)
	settings = settled(kind, settings, target)
	if err := invalidEntry(append(append(errs, settings.Check(kind)...), decides(kind, settings, target)...)); err != nil {
		return nil, nil, err
	}
	encoded, secret, err := encodeEndpoint(settings, target)
	if c.URL == "" && c.Signing == "" {
		secret = sealed // stays as it is
	}
	return encoded, secret, err
}

// Targets opens what is secret about all endpoints, by id.
func (r Endpoints) Targets(ctx context.Context) (map[string]notify.EndpointSecrets, error) {
	secrets, err := r.Store.Endpoints.Secrets(ctx)
	if err != nil {
		return nil, err
	}
	targets := make(map[string]notify.EndpointSecrets, len(secrets))
	for id, secret := range secrets {
		if targets[id], err = notify.ParseTarget(secret); err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", id, err)
		}
	}
	return targets, nil
}

// RotateSecret gives a webhook a new secret, and returns what its receiver
// verifies by, which is never shown again. The former secret goes on signing
// beside it for overlap; 0 drops it at once. A Slack endpoint's secret is its
// address: url is the new one. Where endpoints take an approval, the secret of one that is on is
// another one from then on, and the error says what it waits for; but the owner's command
// rotates a webhook at once.
func (r Endpoints) RotateSecret(ctx context.Context, by access.Initiator, id, url string, overlap time.Duration) (shown string, err error) {
	e, _, err := r.read(ctx, id)
	if err != nil {
		return "", err
	}
	if overlap < 0 || overlap > notify.MaxOverlap {
		return "", &access.Refusal{Kind: access.Invalid, Code: "overlap", Detail: fmt.Sprintf("overlap: want 0s to %s.", notify.MaxOverlap)}
	}
	now, err := r.Store.Now(ctx)
	if err != nil {
		return "", err
	}
	event := endpointEvent(by, "ENDPOINT_ROTATED", "The endpoint was given a new secret.", id, e.Kind)
	var key, public string
	once := func(pair bool) (string, string) { // the one that is shown, however often it is asked for
		if key == "" {
			key, public = newKey(pair)
		}
		return key, public
	}
	fresh := func(settings json.RawMessage, secret []byte, wait time.Duration) (json.RawMessage, []byte, error) {
		longer := overlap
		if longer > 0 {
			longer += wait // it may take so long until the new one signs at all
		}
		var err error
		settings, secret, shown, err = rotated(e.Kind, settings, secret, url, once, now, longer)
		return settings, secret, err
	}
	waits, err := r.takesApproval(ctx, by, e)
	switch {
	case err != nil:
		return "", err
	case waits && !(r.Owner && e.Kind == notify.Webhook):
		err = r.askChange(ctx, by, id, event, fresh)
	default:
		err = r.administered(ctx, r.Store.Endpoints.Rotate(ctx, id, nil, func(settings json.RawMessage, secret []byte) (json.RawMessage, []byte, error) {
			return fresh(settings, secret, 0)
		}, event))
	}
	if refusal := (*access.Refusal)(nil); err != nil && !(errors.As(err, &refusal) && refusal.Successor != "") {
		return "", err
	}
	return shown, err
}

// rotated is what is kept of an endpoint with a new secret, and what is shown of that.
func rotated(kind string, settings json.RawMessage, secret []byte, url string, key func(pair bool) (secret, shown string), now time.Time, overlap time.Duration) (_ json.RawMessage, _ []byte, shown string, err error) {
	known, err := notify.ParseSettings(settings)
	if err != nil {
		return nil, nil, "", err
	}
	target, err := notify.ParseTarget(secret)
	if err != nil {
		return nil, nil, "", err
	}
	switch kind {
	case notify.Webhook:
		var fresh string
		fresh, shown = key(target.Pair())
		target = target.Rotate(fresh, now, overlap)
	case notify.Slack:
		target.URL = strings.TrimSpace(url)
		known.Host = target.Host()
	default:
		return nil, nil, "", &access.Refusal{Kind: access.Invalid, Code: "no_secret", Detail: "An endpoint for e-mail or web push has no secret of its own: it is in the settings."}
	}
	if err := target.Check(kind); err != nil {
		return nil, nil, "", invalidEntry([]error{err})
	}
	settings, secret, err = encodeEndpoint(known, target)
	return settings, secret, shown, err
}

// Test queues a test and returns its notification's id. to is where
// e-mail goes; "" means the endpoint's first address.
func (r Endpoints) Test(ctx context.Context, by access.Initiator, id, to string) (string, error) {
	e, settings, err := r.read(ctx, id)
	if err != nil {
		return "", err
	}
	if e.DisabledAt != nil {
		return "", &access.Refusal{Kind: access.Invalid, Code: "endpoint_off", Detail: "The endpoint is switched off. Switch it on before you test it."}
	}
	if e.Kind == notify.Push {
		return "", &access.Refusal{Kind: access.Invalid, Code: "no_addressee", Detail: "Web push goes to people's own browsers. Each of them sends a test to theirs, on the page of their account."}
	}
	if e.Kind != notify.Email {
		to = ""
	}
	for _, address := range settings.To {
		if to == "" && address != notify.Reviewers {
			to = address
		}
	}
	if e.Kind == notify.Email && !access.ValidEmail(to) {
		return "", &access.Refusal{Kind: access.Invalid, Code: "no_addressee", Detail: "The endpoint writes to whoever could act. Say to which address the test goes."}
	}
	now, err := r.Store.Now(ctx)
	if err != nil {
		return "", err
	}
	test := notify.NewTest(store.NewID("ntf"), now)
	body, err := json.Marshal(test)
	if err != nil {
		return "", fmt.Errorf("encode a test: %w", err)
	}
	err = r.Store.Notifications.Queue(ctx, store.Notification{ID: test.ID, EndpointID: id, Recipient: to, Kind: string(test.Kind), Body: body},
		endpointEvent(by, "ENDPOINT_TESTED", "A test was sent to the endpoint.", id, e.Kind))
	return test.ID, r.administered(ctx, err)
}

// Delivery is how far a notification has come: "waiting", "bundled", "sent", "dropped" or
// "dead", after how many attempts, and why the last one failed.
type Delivery struct {
	Status   string
	Attempts int
	Reason   string
}

// Delivery says how far a notification has come.
func (r Endpoints) Delivery(ctx context.Context, id string) (Delivery, error) {
	n, err := r.Store.Notifications.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such notification."}
	}
	return Delivery{Status: n.Status, Attempts: n.Attempts, Reason: n.LastError}, err
}

// Overview lists the endpoints by name, and up to limit notifications that were
// given up, the last one first: both as they are at one moment.
func (r Endpoints) Overview(ctx context.Context, limit int) ([]Endpoint, []DeadLetter, error) {
	overview, err := r.Store.Notifications.Overview(ctx, limit)
	if err != nil {
		return nil, nil, err
	}
	waits, err := r.waiting(ctx)
	if err != nil {
		return nil, nil, err
	}
	endpoints, names := make([]Endpoint, len(overview.Endpoints)), map[string]string{}
	for i, e := range overview.Endpoints {
		n := overview.Counts[e.ID]
		endpoints[i] = Endpoint{
			ID: e.ID, Kind: e.Kind, Name: e.Name, CreatedAt: e.CreatedAt, DisabledAt: e.DisabledAt, Waiting: n.Waiting, Sent: n.Sent, Dead: n.Dead, LastAt: n.LastAt, ApprovalID: waits[e.ID],
		}
		if endpoints[i].Settings, err = notify.ParseSettings(e.Settings); err != nil {
			return nil, nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
		}
		names[e.ID] = e.Name
	}
	dead := make([]DeadLetter, len(overview.Dead))
	for i, n := range overview.Dead {
		dead[i] = DeadLetter{
			ID: n.ID, EndpointID: n.EndpointID, Endpoint: names[n.EndpointID], Recipient: n.Recipient, ApprovalID: n.ApprovalID, Kind: n.Kind,
			Attempts: n.Attempts, Reason: n.LastError,
		}
		if n.EndedAt != nil {
			dead[i].At = n.EndedAt.UTC()
		}
	}
	return endpoints, dead, nil
}

// Resend has a dead letter sent again, under the id that it has.
func (r Endpoints) Resend(ctx context.Context, by access.Initiator, id string) error {
	e := by.Event("NOTIFICATION_RESENT", "A notification that had been given up is sent again.", "", "")
	e.Type = engine.Notified
	n, err := r.Store.Notifications.Get(ctx, id)
	if err == nil {
		e.ApprovalID = n.ApprovalID
		if err = e.SetPayload(map[string]string{"notification_id": id, "endpoint_id": n.EndpointID}); err == nil {
			err = r.Store.Notifications.Resend(ctx, id, e)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such dead letter. Somebody may have sent it again already."}
	}
	return r.administered(ctx, err)
}
