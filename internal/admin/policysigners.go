package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdpoint/engine/sshsig"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// AddSigner registers a public key with which somebody signs policies, as a line of a .pub file
// has it, and returns its fingerprint. It takes the role that owns the database.
func (r Changes) AddSigner(ctx context.Context, by access.Initiator, email string, line []byte) (fingerprint string, err error) {
	key, err := sshsig.ParseKey(line)
	if err != nil {
		return "", err
	}
	person, err := People(r).Find(ctx, strings.TrimSpace(email))
	if err != nil {
		return "", err
	}
	if person.Disabled {
		return "", fmt.Errorf("the account of %s is disabled: nothing that it signs would count", person.Email)
	}
	e := changed(by, "POLICY_SIGNER_ADDED", "A key with which a person signs policies was registered.", person.ID, map[string]any{"person": person.ID, "key": key.Fingerprint, "public_key": key.Line})
	err = r.Store.Rules.AddPolicySigner(ctx, store.PolicySigner{Fingerprint: key.Fingerprint, PublicKey: key.Line, Person: person}, e)
	if errors.Is(err, store.ErrConflict) {
		return "", fmt.Errorf("%s is registered already: a key is one person's for good (“holdpoint policy signer list”)", key.Fingerprint)
	}
	return key.Fingerprint, err
}

// RevokeSigner has what a key signs count for nothing from now on. A policy that is in force stays
// so. It takes the role that owns the database.
func (r Changes) RevokeSigner(ctx context.Context, by access.Initiator, fingerprint string) error {
	in, err := r.Store.Rules.Signing(ctx)
	if err != nil {
		return err
	}
	none := fmt.Errorf("there is no key %q that signs policies and is not revoked (“holdpoint policy signer list”)", fingerprint)
	key, known := in.Key(fingerprint)
	if !known {
		return none
	}
	e := changed(by, "POLICY_SIGNER_REVOKED", "A key with which a person signed policies was revoked.", key.Person.ID, map[string]any{"person": key.Person.ID, "key": fingerprint})
	if err := r.Store.Rules.RevokePolicySigner(ctx, fingerprint, e); errors.Is(err, store.ErrNotFound) {
		return none
	} else if err != nil {
		return err
	}
	return nil
}
