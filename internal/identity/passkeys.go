package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"holdpoint/engine"
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
	options, session, err := f.passkeys.BeginRegistration(o, webauthn.WithExclusions(webauthn.Credentials(o.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin a passkey's registration: %w", err)
	}
	return f.challenge(ctx, p, forPasskey, "", options.Response, session)
}

var (
	tooManyPasskeys = &access.Refusal{Kind: access.Conflict, Code: "too_many_passkeys", Detail: fmt.Sprintf("You have %d passkeys, which is as many as one may have. Remove one first.", store.MaxPasskeys)}
	badPasskeyName  = &access.Refusal{Kind: access.Invalid, Code: "invalid_name", Detail: fmt.Sprintf("Give the passkey a name of 1 to %d characters.", maxPasskeyName)}
	noSuchPasskey   = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "You have no such passkey."}
)

// FinishPasskey adds the passkey that a browser has made in answer to a
// challenge of BeginPasskey's. Refusals: verification_failed, which never says
// why, invalid_name, passkey_known (409), too_many_passkeys.
func (f *Factors) FinishPasskey(ctx context.Context, p engine.Person, name, challengeID string, credential []byte) error {
	if f.passkeys == nil {
		return noPasskeys
	}
	name = strings.TrimSpace(name)
	if !validPasskeyName(name) {
		return badPasskeyName
	}
	session, ok, err := f.answered(ctx, p, forPasskey, "", challengeID)
	if err != nil {
		return err
	}
	if !ok || len(credential) > maxCredential {
		return verificationFailed
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return verificationFailed
	}
	made, err := f.passkeys.CreateCredential(o, session, parsed)
	if err != nil {
		return verificationFailed
	}
	k := store.Passkey{
		ID: made.ID, PersonID: p.ID, PublicKey: made.PublicKey, SignCount: made.Authenticator.SignCount, AAGUID: made.Authenticator.AAGUID,
		Transports: []string{}, Name: name, BackupEligible: made.Flags.BackupEligible, BackedUp: made.Flags.BackupState,
	}
	for _, t := range made.Transport {
		// What a browser says of transports is a hint for later; only what is short
		// enough to be one is kept.
		if len(t) <= 20 && len(k.Transports) < 10 {
			k.Transports = append(k.Transports, string(t))
		}
	}
	err = f.store.Factors.CreatePasskey(ctx, k, administered(p, "FACTOR_ADDED", "A passkey was added.", "passkey"))
	switch {
	case errors.Is(err, store.ErrConflict):
		return &access.Refusal{Kind: access.Conflict, Code: "passkey_known", Detail: "This passkey is registered already."}
	case errors.Is(err, store.ErrNotFound):
		return tooManyPasskeys
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

// RemovePasskey removes one of the person's passkeys. Refusals:
// verification_needed, not_found.
func (f *Factors) RemovePasskey(ctx context.Context, p engine.Person, id []byte) error {
	if err := f.Fresh(ctx, p); err != nil {
		return err
	}
	err := f.store.Factors.DeletePasskey(ctx, p.ID, id, administered(p, "FACTOR_REMOVED", "A passkey was removed.", "passkey"))
	if errors.Is(err, store.ErrNotFound) {
		return noSuchPasskey
	}
	return err
}

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
	session, ok, err := f.answered(ctx, p, purpose, boundTo, proof.ChallengeID)
	if err != nil || !ok || len(proof.Assertion) > maxCredential {
		return false, err
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return false, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(proof.Assertion)
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
