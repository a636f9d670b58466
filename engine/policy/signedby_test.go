package policy_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/sshsig"
)

// person is a key, always the same for a number.
func person(t *testing.T, n byte) ssh.Signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signBy is the bundle with a person's signature.
func signBy(t *testing.T, v canon.Value, n byte, environment string) canon.Value {
	t.Helper()
	b, problems := policy.Compile(v, policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	statement := policy.Statement(b.Digest, environment)
	blob, err := sshsig.Sign(nil, person(t, n), policy.SignatureNamespace, statement)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sshsig.Verify(blob, policy.SignatureNamespace, statement)
	if err != nil {
		t.Fatal(err)
	}
	return with(v, "signed_by", policy.SignedBy(v, environment, blob, key))
}

// with is an object with a member put in.
func with(v canon.Value, name string, value canon.Value) canon.Value {
	members := slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return m.Name == name })
	return canon.Object(append(members, canon.Member{Name: name, Value: value})...)
}

func fingerprints(b *policy.Bundle, environment string) (list []string) {
	for _, k := range b.SignedFor(environment) {
		list = append(list, k.Fingerprint)
	}
	return list
}

func TestSignedBy(t *testing.T) {
	v := parse(t, exampleJSON)
	plain := load(t, exampleJSON)
	ada, ben := ssh.FingerprintSHA256(person(t, 1).PublicKey()), ssh.FingerprintSHA256(person(t, 2).PublicKey())
	v = signBy(t, signBy(t, signBy(t, signBy(t, v, 1, "production"), 2, "production"), 1, "staging"), 1, "production")
	b, problems := policy.Compile(v, policy.Options{})
	if b == nil || len(problems) > 0 || b.Digest != plain.Digest {
		t.Fatalf("a signature is no part of what is signed: %v", problems)
	}
	for environment, want := range map[string][]string{"production": {ada, ben}, "staging": {ada}, "Production": nil, "": nil} {
		if got := fingerprints(b, environment); !slices.Equal(got, want) {
			t.Errorf("%s is signed by %q, want %q", environment, got, want)
		}
	}
	if list, _ := v.Get("signed_by"); list.Len() != 3 {
		t.Errorf("signed again by the same key: %d signatures", list.Len())
	}
	// The shared secret signs these signatures, too.
	secret := []byte("secret")
	if policy.Sign(v, secret) == policy.Sign(parse(t, exampleJSON), secret) {
		t.Error("the shared secret signs less than the whole policy")
	}

	// What is signed is the policy as it stands, for a place, and nothing else.
	list, _ := v.Get("signed_by")
	first, _ := list.At(0).Get("ssh")
	other := func(environment, ssh string) canon.Value {
		return canon.Object(canon.Member{Name: "environment", Value: canon.String(environment)}, canon.Member{Name: "ssh", Value: canon.String(ssh)})
	}
	for name, changed := range map[string]canon.Value{
		"another rule":             with(parse(t, strings.Replace(exampleJSON, `"lte":100`, `"lte":101`, 1)), "signed_by", list),
		"another version":          with(with(v, "version", canon.String("99.0.0")), "signed_by", list),
		"another time":             with(with(v, "expires_at", canon.String("2098-01-01T00:00:00Z")), "signed_by", list),
		"an unknown field":         with(with(v, "x", canon.Number(1)), "signed_by", list),
		"for another environment":  with(v, "signed_by", canon.Array(other("elsewhere", first.Str()))),
		"without signatures":       with(v, "signed_by", canon.Array()),
		"with no list":             with(v, "signed_by", canon.Null()),
		"with one of other things": with(v, "signed_by", canon.Array(other("production", otherPurpose(t, plain)))),
	} {
		b, problems := policy.Compile(changed, policy.Options{})
		if b == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		for _, environment := range []string{"production", "staging", "elsewhere"} {
			if got := fingerprints(b, environment); len(got) > 0 {
				t.Errorf("%s: signed for %s by %q", name, environment, got)
			}
		}
	}
	for name, tt := range map[string]struct {
		value canon.Value
		code  string
	}{
		"no list":             {canon.String("ada"), "type"},
		"no object":           {canon.Array(canon.String("ada")), "type"},
		"no environment":      {canon.Array(canon.Object(canon.Member{Name: "ssh", Value: first})), "missing"},
		"no signature":        {canon.Array(canon.Object(canon.Member{Name: "environment", Value: canon.String("production")})), "missing"},
		"no base64":           {canon.Array(other("production", "*")), "bad_signed_by"},
		"base64 otherwise":    {canon.Array(other("production", first.Str()+"\n")), "bad_signed_by"},
		"no signature at all": {canon.Array(other("production", base64.StdEncoding.EncodeToString([]byte("SSHSIG")))), "bad_signed_by"},
		"too many":            {canon.Array(slices.Repeat([]canon.Value{list.At(0)}, policy.MaxSignatures+1)...), "too_many_signatures"},
	} {
		if b, problems := policy.Compile(with(v, "signed_by", tt.value), policy.Options{}); b != nil || problems[0].Code != tt.code {
			t.Errorf("%s: got %v, want %s", name, problems, tt.code)
		}
	}
	stale := with(with(v, "version", canon.String("2.0.0")), "signed_by", list)
	if _, problems := policy.Compile(stale, policy.Options{}); len(problems) != 3 || problems[0].Code != "signed_other" || !problems[0].Warning || !strings.Contains(problems[0].Message, ada) {
		t.Errorf("a signature of another version: %v", problems)
	}
}

// otherPurpose is a signature by a person over the right words, made for something else.
func otherPurpose(t *testing.T, b *policy.Bundle) string {
	t.Helper()
	blob, err := sshsig.Sign(nil, person(t, 1), "git", policy.Statement(b.Digest, "production"))
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(blob)
}
