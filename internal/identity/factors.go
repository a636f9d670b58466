package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/fair"
	"holdpoint/internal/store"
)

// Method is a way to prove who one is, as sessions, events and forms name it.
type Method = string

// The methods. A password and a provider of single sign-on prove nothing here once there
// is a second factor.
const (
	Passkey  Method = "passkey"
	TOTP     Method = "totp"
	Password Method = "password"
	Provider Method = "sso"
)

// What a proof is asked for. A proof that was made for one purpose is none for
// another.
const (
	// ForSession proves again who a session's person is. A person without a second
	// factor may do it by password.
	ForSession = "session"
	// ForApproval is for one approval, to which it is bound by boundTo. It takes a
	// second factor, always.
	ForApproval = "approval"
	// forSignIn is the second step of signing in, bound to the first.
	forSignIn = "sign_in"

	forPasskey = "new_passkey"     // a passkey's registration
	forPending = "pending_sign_in" // a sign-in that lacks its second step
)

// FreshFor is for how long somebody counts as having just proved who they are,
// and how long a challenge is good for.
const FreshFor = approval.FreshFor

// Wrong codes and passwords that a person may give within a time; then it has
// to pass. Passkeys cannot be guessed and are not counted.
const (
	mostWrong   = 5
	wrongWithin = 15 * time.Minute
)

// Factors are people's second factors: it enrols them, and checks what somebody
// shows to prove who they are. Every check, good or bad, is an event; so is every
// factor that comes or goes.
type Factors struct {
	store *store.Store
	// slots are for hashes of passwords, which take memory: only so many at once. Each
	// person takes turns there with the others, and strangers together with one person.
	slots *fair.Pool
	// passkeys is nil where the console has no name that passkeys can be bound to.
	passkeys *webauthn.WebAuthn
	origin   string
}

// NewFactors returns the factors of the people in the store, which has to be
// open with the data key. publicURL is where people reach the console: passkeys
// are bound to its host name. An address of loopback has none; passkeys are then
// bound to localhost, at the same port. Any other bare address, and a name that
// browsers take for none, has no passkeys.
func NewFactors(s *store.Store, publicURL string) (*Factors, error) {
	f := &Factors{store: s, slots: fair.NewPool(parallelHashes)}
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("passkeys: %q is no address that people could reach", publicURL)
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil {
		if !ip.IsLoopback() {
			return f, nil
		}
		u.Host = "localhost:" + u.Port()
		if u.Port() == "" {
			u.Host = "localhost"
		}
	}
	origin := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	limit := webauthn.TimeoutConfig{Timeout: FreshFor, TimeoutUVD: FreshFor}
	passkeys, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "Holdpoint", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: limit, Registration: limit},
	})
	if err == nil {
		f.passkeys, f.origin = passkeys, origin
	}
	return f, nil
}

// Origin is where passkeys work, such as "https://holdpoint.example.com"; "" is
// nowhere.
func (f *Factors) Origin() string { return f.origin }

var (
	verificationFailed = &access.Refusal{Kind: access.Forbidden, Code: "verification_failed", Detail: "That did not prove who you are. Try again; a code is good only once."}
	verificationNeeded = &access.Refusal{Kind: access.Forbidden, Code: "verification_needed", Detail: "Prove who you are again first: it is more than five minutes ago, or you have a second factor since."}
	noPasskeys         = &access.Refusal{Kind: access.Invalid, Code: "passkeys_unavailable", Detail: "Passkeys need a console that is reached by a host name."}
)

// Methods lists how a person can prove who they are: by their second factors, or when
// they have none by what began their session: at the provider, or by password. Nobody
// who is disabled can.
func (f *Factors) Methods(ctx context.Context, p engine.Person) ([]Method, error) {
	factors, err := f.store.Factors.Of(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	switch {
	case err != nil || len(factors) > 0:
		return factors, err
	case p.Provider != "":
		return []Method{Provider}, nil
	}
	return []Method{Password}, nil
}

// Proof is what somebody shows to prove who they are: exactly one of a code, a
// password, and a passkey's assertion with the challenge that it answers.
type Proof struct {
	Code     string
	Password string
	// Assertion is the browser's PublicKeyCredential as JSON, ChallengeID what
	// Begin returned.
	Assertion   []byte
	ChallengeID string
}

// Given reports whether a passkey has made it.
func (p Proof) Given() bool { return len(p.Assertion) > 0 }

// method is what the proof is made by, or "" for none or several at once.
func (p Proof) method() Method {
	found := ""
	for method, there := range map[Method]bool{TOTP: p.Code != "", Password: p.Password != "", Passkey: len(p.Assertion) > 0} {
		if there && found != "" {
			return ""
		}
		if there {
			found = method
		}
	}
	return found
}

// Ceremony is what a browser needs to ask a passkey.
type Ceremony struct {
	ChallengeID string `json:"challenge_id"`
	// PublicKey is the argument of navigator.credentials.get or create, with
	// binary values in base64url.
	PublicKey json.RawMessage `json:"publicKey"`
	// Sign says that what was made has to be signed by a passkey that is there.
	Sign bool `json:"sign,omitempty"`
}

// Begin starts a proof by passkey, for one purpose and bound to boundTo, such as
// an approval and its digest. It is good once, for FreshFor.
func (f *Factors) Begin(ctx context.Context, p engine.Person, purpose, boundTo string) (Ceremony, error) {
	if f.passkeys == nil {
		return Ceremony{}, noPasskeys
	}
	owner, err := f.owner(ctx, p)
	if err != nil {
		return Ceremony{}, err
	}
	if len(owner.keys) == 0 {
		return Ceremony{}, &access.Refusal{Kind: access.Invalid, Code: "no_passkey", Detail: "You have no passkey yet."}
	}
	options, session, err := f.passkeys.BeginLogin(owner)
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin a passkey's assertion: %w", err)
	}
	return f.challenge(ctx, p, purpose, boundTo, options.Response, session, nil)
}

// Verify checks a proof that was made for the purpose and boundTo, and says by
// what it was made. ForApproval and forSignIn take second factors only, and
// ForSession a password only from a person without any. Refusals are
// verification_failed (403), which never says why, and too_many_attempts (429).
func (f *Factors) Verify(ctx context.Context, p engine.Person, purpose, boundTo string, proof Proof) (Method, error) {
	method, err := f.check(ctx, p, purpose, boundTo, proof)
	if errors.Is(err, verificationFailed) {
		why := engine.Reason{Code: verificationFailed.Code, Message: "Did not prove who they are, " + asked[purpose] + "."}
		if unrecorded := record(ctx, f.store, engine.Deny, p.ID, why); unrecorded != nil {
			return "", unrecorded
		}
	}
	if err != nil {
		return "", err
	}
	return method, record(ctx, f.store, engine.Allow, p.ID, engine.Reason{Code: "VERIFIED", Message: "Proved who they are by " + by[method] + ", " + asked[purpose] + "."})
}

// check is Verify without its events.
func (f *Factors) check(ctx context.Context, p engine.Person, purpose, boundTo string, proof Proof) (Method, error) {
	methods, err := f.Methods(ctx, p)
	if err != nil {
		return "", err
	}
	method := proof.method()
	if !slices.Contains(methods, method) || method == Password && purpose != ForSession {
		return "", verificationFailed
	}
	right := false
	switch method {
	case Passkey:
		right, err = f.checkAssertion(ctx, p, purpose, boundTo, proof)
	case TOTP:
		right, err = f.checkCode(ctx, p, proof.Code)
	case Password:
		_, right, err = f.checkPassword(ctx, p, proof.Password)
	}
	if err != nil {
		return "", fmt.Errorf("check the proof of %s: %w", p.ID, err)
	}
	if !right {
		return "", verificationFailed
	}
	return method, nil
}

// Words for events.
var (
	by    = map[Method]string{Passkey: "a passkey", TOTP: "a code of an authenticator app", Password: "password"}
	asked = map[string]string{ForSession: "for the session", ForApproval: "for an approval", forSignIn: "to sign in"}
)

// Fresh refuses (verification_needed) somebody whose session has not proved
// within FreshFor who they are, by a second factor if they have one.
func (f *Factors) Fresh(ctx context.Context, p engine.Person) error {
	methods, err := f.Methods(ctx, p)
	if err != nil {
		return err
	}
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	first := p.VerifiedBy == Password || p.VerifiedBy == Provider
	if len(methods) == 0 || p.VerifiedAt.IsZero() || now.Sub(p.VerifiedAt) > FreshFor || first && !slices.Contains(methods, p.VerifiedBy) {
		return verificationNeeded
	}
	return nil
}

// newID is a random id for a browser to hold, and the hash by which it is kept.
func newID() (string, []byte) {
	raw := make([]byte, 32)
	rand.Read(raw)
	id := base64.RawURLEncoding.EncodeToString(raw)
	return id, hashID(id)
}

func hashID(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:]
}

// pending is what is kept of a ceremony until it is answered.
type pending struct {
	webauthn.SessionData
	Kept json.RawMessage `json:"kept,omitempty"`
}

// challenge keeps a passkey's ceremony until it is answered, and what it is about.
func (f *Factors) challenge(ctx context.Context, p engine.Person, purpose, boundTo string, options any, session *webauthn.SessionData, kept any) (Ceremony, error) {
	about, err := json.Marshal(kept)
	if err != nil {
		return Ceremony{}, fmt.Errorf("encode what a challenge is about: %w", err)
	}
	data, err := json.Marshal(pending{*session, about})
	if err != nil {
		return Ceremony{}, fmt.Errorf("encode a challenge: %w", err)
	}
	shown, err := json.Marshal(options)
	if err != nil {
		return Ceremony{}, fmt.Errorf("encode a passkey's options: %w", err)
	}
	id, hash := newID()
	c := store.Challenge{IDHash: hash, PersonID: p.ID, Purpose: purpose, BoundTo: boundTo, Data: data}
	if err := f.store.Factors.CreateChallenge(ctx, c, FreshFor); err != nil {
		return Ceremony{}, err
	}
	return Ceremony{ChallengeID: id, PublicKey: shown}, nil
}

// answered takes the challenge that a browser answers. It is used up, also when
// it was made for something else, of which nothing is said.
func (f *Factors) answered(ctx context.Context, p engine.Person, purpose, boundTo, id string) (session webauthn.SessionData, kept json.RawMessage, ok bool, err error) {
	c, err := f.store.Factors.TakeChallenge(ctx, hashID(id), p.ID)
	if errors.Is(err, store.ErrNotFound) {
		return session, nil, false, nil
	}
	if err != nil {
		return session, nil, false, err
	}
	if c.Purpose != purpose || c.BoundTo != boundTo {
		return session, nil, false, nil
	}
	var data pending
	if err := json.Unmarshal(c.Data, &data); err != nil {
		return session, nil, false, fmt.Errorf("decode a challenge: %w", err)
	}
	return data.SessionData, data.Kept, true, nil
}

// attempt counts a guess before it is looked at.
func (f *Factors) attempt(ctx context.Context, p engine.Person) (int64, error) {
	attempt, wait, err := f.store.Factors.TakeAttempt(ctx, p.ID, mostWrong, wrongWithin)
	if errors.Is(err, store.ErrTooMany) {
		return 0, &access.Refusal{Kind: access.RateLimited, Code: tooManyAttempts.Code, Detail: fmt.Sprintf("Too many wrong codes. Try again in %d min.", max(1, int((wait+time.Minute-1)/time.Minute))), RetryAfter: wait}
	}
	return attempt, err
}

// checkPassword reports whether it is the person's password, of which it returns the hash.
func (f *Factors) checkPassword(ctx context.Context, p engine.Person, password string) (hash string, right bool, err error) {
	attempt, err := f.attempt(ctx, p)
	if err != nil {
		return "", false, err
	}
	_, hash, err = f.store.People.ByEmail(ctx, p.Email)
	if err != nil {
		return "", false, err
	}
	give, err := f.slots.Take(ctx, p.ID, 1)
	if err != nil {
		return "", false, err
	}
	defer give()
	right, err = CheckPassword(hash, password)
	if err != nil || !right {
		return "", false, err
	}
	return hash, true, f.store.Factors.ReturnAttempt(ctx, attempt)
}

// administered is the event of a factor that comes or goes.
func administered(p engine.Person, code, message string, payload any) engine.Event {
	e := engine.Event{
		ID: uuid.NewString(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code, Message: message}},
		SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: p.ID, Channel: "console"},
	}
	if encoded, err := json.Marshal(payload); err == nil { // texts and bytes always encode
		e.SafePayload = encoded
	}
	return e
}
