package identity

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

const (
	maxCredential  = 64 << 10 // bytes of a browser's answer
	maxPasskeyName = 100
)

// PasskeyInfo is what the holder sees of a passkey.
type PasskeyInfo struct {
	ID   []byte
	Name string
	// Synced says that it may be copied to other devices of its holder's.
	Synced     bool
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

// owner is a person and their passkeys, as the library knows a user. The user
// handle is the person's id, which is random and says nothing of them.
type owner struct {
	person engine.Person
	keys   []store.Passkey
}

func (o owner) WebAuthnID() []byte          { return []byte(o.person.ID) }
func (o owner) WebAuthnName() string        { return o.person.Email }
func (o owner) WebAuthnDisplayName() string { return o.person.Name }

func (o owner) WebAuthnCredentials() []webauthn.Credential {
	credentials := make([]webauthn.Credential, len(o.keys))
	for i, k := range o.keys {
		c := webauthn.Credential{
			ID: k.ID, PublicKey: k.PublicKey,
			Flags:         webauthn.CredentialFlags{UserPresent: true, UserVerified: true, BackupEligible: k.BackupEligible, BackupState: k.BackedUp},
			Authenticator: webauthn.Authenticator{AAGUID: k.AAGUID, SignCount: k.SignCount},
		}
		for _, t := range k.Transports {
			c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
		}
		credentials[i] = c
	}
	return credentials
}

func (f *Factors) owner(ctx context.Context, p engine.Person) (owner, error) {
	keys, err := f.store.Factors.Passkeys(ctx, p.ID)
	return owner{p, keys}, err
}

// Passkeys lists the person's passkeys, the oldest first.
func (f *Factors) Passkeys(ctx context.Context, p engine.Person) ([]PasskeyInfo, error) {
	keys, err := f.store.Factors.Passkeys(ctx, p.ID)
	infos := make([]PasskeyInfo, len(keys))
	for i, k := range keys {
		infos[i] = PasskeyInfo{ID: k.ID, Name: k.Name, Synced: k.BackupEligible, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt}
	}
	return infos, err
}

// BeginPasskey starts the registration of a passkey. Refusals:
// verification_needed, passkeys_unavailable, too_many_passkeys.
func (f *Factors) BeginPasskey(ctx context.Context, p engine.Person) (Ceremony, error) {
	if f.passkeys == nil {
		return Ceremony{}, noPasskeys
	}
	if err := f.Fresh(ctx, p); err != nil {
		return Ceremony{}, err
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return Ceremony{}, err
	}
	if len(o.keys) >= store.MaxPasskeys {
		return Ceremony{}, tooManyPasskeys
	}
	known, err := f.store.Factors.Keys(ctx, p.ID)
	if err != nil {
		return Ceremony{}, err
	}
	options, session, err := f.passkeys.BeginRegistration(o, webauthn.WithCredentialParameters(credentialParameters()),
		webauthn.WithExclusions(webauthn.Credentials(o.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin a passkey's registration: %w", err)
	}
	c, err := f.challenge(ctx, p, forPasskey, "", options.Response, session, nil)
	c.Sign = known.Has(p.ID)
	return c, err
}

var (
	tooManyPasskeys = &access.Refusal{Kind: access.Conflict, Code: "too_many_passkeys", Detail: fmt.Sprintf("You have %d passkeys, which is as many as one may have. Remove one first.", store.MaxPasskeys)}
	badPasskeyName  = &access.Refusal{Kind: access.Invalid, Code: "invalid_name", Detail: fmt.Sprintf("Give the passkey a name of 1 to %d characters.", maxPasskeyName)}
	noSuchPasskey   = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "You have no such passkey."}
)

// pendingPasskey is a passkey that waits for the signature of another one.
type pendingPasskey struct {
	Passkey store.Passkey
	Act     passkey.Act
}

// SignPasskey asks for the signature that a passkey takes which a browser has made in
// answer to a challenge of BeginPasskey's, where the log knows another one of the
// person's. Refusals: verification_failed, which never says why, no_signing_key.
func (f *Factors) SignPasskey(ctx context.Context, p engine.Person, challengeID string, credential []byte) (Ceremony, error) {
	if f.passkeys == nil {
		return Ceremony{}, noPasskeys
	}
	m, err := f.registered(ctx, p, challengeID, credential)
	if err != nil {
		return Ceremony{}, err
	}
	challenge, err := passkey.Challenge(m.Act)
	if err != nil {
		return Ceremony{}, err
	}
	return f.BeginSigning(ctx, p, forAddition, "", challenge, m)
}

// registered checks what a browser has made in answer to a challenge of BeginPasskey's.
func (f *Factors) registered(ctx context.Context, p engine.Person, challengeID string, credential []byte) (m pendingPasskey, err error) {
	session, _, ok, err := f.answered(ctx, p, forPasskey, "", challengeID)
	if err != nil {
		return m, err
	}
	if !ok || len(credential) > maxCredential {
		return m, verificationFailed
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return m, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return m, verificationFailed
	}
	created, err := f.passkeys.CreateCredential(o, session, parsed)
	if err != nil {
		return m, verificationFailed
	}
	key, err := f.publicKey(created.ID, created.PublicKey)
	if err != nil {
		return m, verificationFailed
	}
	keys, err := f.store.Factors.Keys(ctx, p.ID)
	if err != nil {
		return m, err
	}
	m.Act = keys.Next(passkey.Add, p.ID, key)
	m.Passkey = store.Passkey{
		ID: created.ID, PersonID: p.ID, PublicKey: created.PublicKey, SignCount: created.Authenticator.SignCount, AAGUID: created.Authenticator.AAGUID,
		Transports: []string{}, BackupEligible: created.Flags.BackupEligible, BackedUp: created.Flags.BackupState,
	}
	for _, t := range created.Transport {
		// What a browser says of transports is a hint for later; only what is short
		// enough to be one is kept.
		if len(t) <= 20 && len(m.Passkey.Transports) < 10 {
			m.Passkey.Transports = append(m.Passkey.Transports, string(t))
		}
	}
	return m, nil
}

// FinishPasskey adds the passkey that a browser has made in answer to a challenge of
// BeginPasskey's; where the log knows another one of the person's, the one that
// SignPasskey was given, and the credential is the assertion of that other one.
// Refusals: verification_failed, which never says why, invalid_name, passkey_known
// (409), too_many_passkeys, passkeys_changed (409).
func (f *Factors) FinishPasskey(ctx context.Context, p engine.Person, name, challengeID string, credential []byte) error {
	if f.passkeys == nil {
		return noPasskeys
	}
	name = strings.TrimSpace(name)
	if !validPasskeyName(name) {
		return badPasskeyName
	}
	keys, err := f.store.Factors.Keys(ctx, p.ID)
	if err != nil {
		return err
	}
	var m pendingPasskey
	var signed *passkey.Assertion
	if keys.Has(p.ID) {
		signed = &passkey.Assertion{}
		*signed, err = f.Signed(ctx, p, forAddition, "", Proof{ChallengeID: challengeID, Assertion: credential}, &m)
	} else {
		m, err = f.registered(ctx, p, challengeID, credential)
	}
	if err != nil {
		return err
	}
	m.Passkey.Name = name
	err = f.store.Factors.CreatePasskey(ctx, m.Passkey, administered(p, passkey.Added, "A passkey was added.", passkey.NewChange(m.Act, signed)))
	switch {
	case errors.Is(err, store.ErrConflict):
		return &access.Refusal{Kind: access.Conflict, Code: "passkey_known", Detail: "This passkey is registered already."}
	case errors.Is(err, store.ErrNotFound):
		return tooManyPasskeys
	}
	return changedMeanwhile(err)
}

// changedMeanwhile is err, or the refusal of what was signed before something else
// changed the person's passkeys.
func changedMeanwhile(err error) error {
	if errors.Is(err, store.ErrNotSigned) {
		return &access.Refusal{Kind: access.Conflict, Code: "passkeys_changed", Detail: "Your passkeys were changed meanwhile, so that this was not signed as they are now. Try again."}
	}
	return err
}

// RenamePasskey gives one of the person's passkeys another name. Refusals:
// invalid_name, not_found.
func (f *Factors) RenamePasskey(ctx context.Context, p engine.Person, id []byte, name string) error {
	name = strings.TrimSpace(name)
	if !validPasskeyName(name) {
		return badPasskeyName
	}
	err := f.store.Factors.RenamePasskey(ctx, p.ID, id, name)
	if errors.Is(err, store.ErrNotFound) {
		return noSuchPasskey
	}
	return err
}

// BeginRemoval asks for the signature that removing a passkey takes. It is the zero
// Ceremony for one that the log does not know, which takes none. Refusals:
// verification_needed, not_found, no_signing_key.
func (f *Factors) BeginRemoval(ctx context.Context, p engine.Person, id []byte) (Ceremony, error) {
	act, err := f.removal(ctx, p, id)
	if err != nil || act == nil {
		return Ceremony{}, err
	}
	challenge, err := passkey.Challenge(*act)
	if err != nil {
		return Ceremony{}, err
	}
	return f.BeginSigning(ctx, p, forRemoval, hex.EncodeToString(id), challenge, act)
}

// removal is the statement that a passkey goes; nil for one that the log does not know.
func (f *Factors) removal(ctx context.Context, p engine.Person, id []byte) (*passkey.Act, error) {
	if err := f.Fresh(ctx, p); err != nil {
		return nil, err
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(o.keys, func(k store.Passkey) bool { return bytes.Equal(k.ID, id) }) {
		return nil, noSuchPasskey
	}
	keys, err := f.store.Factors.Keys(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	for _, key := range keys.Of(p.ID) {
		if bytes.Equal(key.Credential, id) {
			act := keys.Next(passkey.Remove, p.ID, key)
			return &act, nil
		}
	}
	return nil, nil
}

// RemovePasskey removes one of the person's passkeys, with the signature that
// BeginRemoval has asked for. Refusals: verification_needed, not_found,
// signature_required, verification_failed, passkeys_changed (409).
func (f *Factors) RemovePasskey(ctx context.Context, p engine.Person, id []byte, proof Proof) error {
	act, err := f.removal(ctx, p, id)
	if err != nil {
		return err
	}
	told := passkey.Change{Factor: Passkey, Person: p.ID}
	if act != nil {
		if len(proof.Assertion) == 0 {
			return signatureRequired
		}
		signed, err := f.Signed(ctx, p, forRemoval, hex.EncodeToString(id), proof, &passkey.Act{})
		if err != nil {
			return err
		}
		told = passkey.NewChange(*act, &signed)
	}
	err = f.store.Factors.DeletePasskey(ctx, p.ID, id, administered(p, passkey.Removed, "A passkey was removed.", told))
	if errors.Is(err, store.ErrNotFound) {
		return noSuchPasskey
	}
	return changedMeanwhile(err)
}

var signatureRequired = &access.Refusal{Kind: access.Forbidden, Code: "signature_required", Detail: "A passkey of yours has to sign that one is removed. If you have lost it, an administrator can reset your second factors."}

func validPasskeyName(name string) bool {
	return name != "" && utf8.ValidString(name) && utf8.RuneCountInString(name) <= maxPasskeyName && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkAssertion reports whether an assertion is by a passkey of the person's
// and answers their challenge for this purpose and bound to this. The challenge
// is used up either way.
func (f *Factors) checkAssertion(ctx context.Context, p engine.Person, purpose, boundTo string, proof Proof) (bool, error) {
	if f.passkeys == nil {
		return false, nil
	}
	session, _, ok, err := f.answered(ctx, p, purpose, boundTo, proof.ChallengeID)
	if err != nil || !ok {
		return false, err
	}
	return f.validate(ctx, p, session, proof.Assertion)
}

// validate reports whether an assertion is by a passkey of the person's and answers
// the challenge of the session.
func (f *Factors) validate(ctx context.Context, p engine.Person, session webauthn.SessionData, assertion []byte) (bool, error) {
	if len(assertion) > maxCredential {
		return false, nil
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return false, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(assertion)
	if err != nil {
		return false, nil
	}
	used, err := f.passkeys.ValidateLogin(o, session, parsed)
	if err != nil || used.Authenticator.CloneWarning || !parsed.Response.AuthenticatorData.Flags.HasUserVerified() {
		return false, nil
	}
	err = f.store.Factors.UsePasskey(ctx, p.ID, used.ID, used.Authenticator.SignCount, used.Flags.BackupState)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
