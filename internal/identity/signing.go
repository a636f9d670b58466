package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/access"
)

// What a passkey signs. A signature that was made for one purpose is none for another.
const (
	// ForVote is a vote on one approval, to which it is bound by boundTo.
	ForVote = "vote"

	forAddition = "passkey_added"   // another passkey, that is kept
	forRemoval  = "passkey_removed" // bound to its credential
)

// NoSigningKey is the refusal of a signature to a person of whom the log knows no
// passkey.
var NoSigningKey = &access.Refusal{Kind: access.Forbidden, Code: "no_signing_key", Detail: "This takes the signature of a passkey, and the audit log knows none of yours. Add one on the page of your account; one from before the log kept their keys has to be removed and added again."}

// algorithms are those by which passkeys sign, the preferred first, by the names that
// the log has for them (passkey.Key).
var algorithms = []struct {
	id   webauthncose.COSEAlgorithmIdentifier
	name string
}{
	{webauthncose.AlgES256, "ES256"},
	{webauthncose.AlgES384, "ES384"},
	{webauthncose.AlgES512, "ES512"},
	{webauthncose.AlgRS256, "RS256"},
	{webauthncose.AlgRS384, "RS384"},
	{webauthncose.AlgRS512, "RS512"},
	{webauthncose.AlgPS256, "PS256"},
	{webauthncose.AlgPS384, "PS384"},
	{webauthncose.AlgPS512, "PS512"},
	{webauthncose.AlgEdDSA, "EdDSA"},
}

func credentialParameters() (list []protocol.CredentialParameter) {
	for _, a := range algorithms {
		list = append(list, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a.id})
	}
	return list
}

// publicKey is a passkey as the log has it: its key in DER and not in COSE, so that
// everybody has a program that reads it.
func (f *Factors) publicKey(id, cose []byte) (passkey.Key, error) {
	k := passkey.Key{Credential: id, RPID: f.passkeys.Config.RPID}
	read, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return k, fmt.Errorf("read a passkey's public key: %w", err)
	}
	var public any
	var alg int64
	switch key := read.(type) {
	case webauthncose.EC2PublicKeyData:
		alg = key.Algorithm
		curve := map[int64]elliptic.Curve{1: elliptic.P256(), 2: elliptic.P384(), 3: elliptic.P521()}[key.Curve]
		if curve == nil {
			return k, errors.New("read a passkey's public key: its curve is not known")
		}
		public, err = ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, key.XCoord, key.YCoord))
	case webauthncose.RSAPublicKeyData:
		alg = key.Algorithm
		public = &rsa.PublicKey{N: new(big.Int).SetBytes(key.Modulus), E: int(new(big.Int).SetBytes(key.Exponent).Int64())}
	case webauthncose.OKPPublicKeyData:
		alg, public = key.Algorithm, ed25519.PublicKey(key.XCoord)
	}
	for _, a := range algorithms {
		if int64(a.id) == alg {
			k.Algorithm = a.name
		}
	}
	if err == nil {
		k.PublicKey, err = x509.MarshalPKIXPublicKey(public)
	}
	if err == nil {
		err = k.Check()
	}
	if err != nil {
		return k, fmt.Errorf("read a passkey's public key: %w", err)
	}
	return k, nil
}

// Signs reports whether the audit log knows a passkey of the person, so that they can
// sign.
func (f *Factors) Signs(ctx context.Context, p engine.Person) (bool, error) {
	if f.passkeys == nil {
		return false, nil
	}
	keys, err := f.store.Factors.Keys(ctx, p.ID)
	return err == nil && keys.Has(p.ID), err
}

// BeginSigning asks a person's passkeys, of those that the log knows, to sign a
// challenge (passkey.Challenge), and keeps what Signed is to give back. Refusals:
// passkeys_unavailable, no_signing_key.
func (f *Factors) BeginSigning(ctx context.Context, p engine.Person, purpose, boundTo string, challenge [sha256.Size]byte, kept any) (Ceremony, error) {
	if f.passkeys == nil {
		return Ceremony{}, noPasskeys
	}
	o, err := f.owner(ctx, p)
	if err != nil {
		return Ceremony{}, err
	}
	keys, err := f.store.Factors.Keys(ctx, p.ID)
	if err != nil {
		return Ceremony{}, err
	}
	known := keys.Of(p.ID)
	var able []protocol.CredentialDescriptor
	for _, d := range webauthn.Credentials(o.WebAuthnCredentials()).CredentialDescriptors() {
		if slices.ContainsFunc(known, func(k passkey.Key) bool { return slices.Equal(k.Credential, passkey.Bytes(d.CredentialID)) }) {
			able = append(able, d)
		}
	}
	if len(able) == 0 {
		return Ceremony{}, NoSigningKey
	}
	options, session, err := f.passkeys.BeginLogin(o, webauthn.WithChallenge(challenge[:]), webauthn.WithAllowedCredentials(able))
	if err != nil {
		return Ceremony{}, fmt.Errorf("begin a passkey's signature: %w", err)
	}
	return f.challenge(ctx, p, purpose, boundTo, options.Response, session, kept)
}

// Signed returns the assertion that answers a challenge of BeginSigning's, and reads
// what was kept with it into kept. The challenge is used up. The refusal is
// verification_failed, which never says why.
func (f *Factors) Signed(ctx context.Context, p engine.Person, purpose, boundTo string, proof Proof, kept any) (passkey.Assertion, error) {
	if f.passkeys == nil {
		return passkey.Assertion{}, verificationFailed
	}
	session, raw, ok, err := f.answered(ctx, p, purpose, boundTo, proof.ChallengeID)
	if err != nil {
		return passkey.Assertion{}, err
	}
	if !ok {
		return passkey.Assertion{}, verificationFailed
	}
	if ok, err = f.validate(ctx, p, session, proof.Assertion); err != nil {
		return passkey.Assertion{}, err
	}
	if !ok {
		return passkey.Assertion{}, verificationFailed
	}
	if err := json.Unmarshal(raw, kept); err != nil {
		return passkey.Assertion{}, fmt.Errorf("decode what was signed: %w", err)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(proof.Assertion)
	if err != nil {
		return passkey.Assertion{}, verificationFailed
	}
	r := parsed.Raw.AssertionResponse
	made := passkey.Assertion{
		Credential: passkey.Bytes(parsed.RawID), ClientData: passkey.Bytes(r.ClientDataJSON),
		AuthenticatorData: passkey.Bytes(r.AuthenticatorData), Signature: passkey.Bytes(r.Signature),
	}
	if made.Check() != nil {
		return passkey.Assertion{}, verificationFailed
	}
	return made, nil
}
