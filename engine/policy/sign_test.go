package policy_test

import (
	"errors"
	"strings"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

func signed(t testing.TB, v canon.Value, signature string) canon.Value {
	t.Helper()
	return canon.Object(append(v.Members(), canon.Member{Name: "signature", Value: canon.String(signature)})...)
}

func TestSign(t *testing.T) {
	secret := []byte("secret")
	v := parse(t, exampleJSON)
	good := policy.Sign(v, secret)
	if len(good) != 64 || policy.Sign(signed(t, v, "x"), secret) != good {
		t.Fatalf("got %s, want 64 digits that the old signature does not change", good)
	}
	if err := policy.Verify(signed(t, v, good), secret); err != nil {
		t.Errorf("got %v", err)
	}
	for name, tt := range map[string]struct {
		v      canon.Value
		secret []byte
		want   error
	}{
		"unsigned":      {v, secret, policy.ErrUnsigned},
		"empty":         {signed(t, v, ""), secret, policy.ErrUnsigned},
		"no text":       {canon.Object(append(v.Members(), canon.Member{Name: "signature", Value: canon.Number(1)})...), secret, policy.ErrUnsigned},
		"upper case":    {signed(t, v, strings.ToUpper(good)), secret, policy.ErrSignature},
		"white space":   {signed(t, v, good+" "), secret, policy.ErrSignature},
		"prefix":        {signed(t, v, "sha256:"+good), secret, policy.ErrSignature},
		"other secret":  {signed(t, v, good), []byte("Secret"), policy.ErrSignature},
		"no secret":     {signed(t, v, good), nil, policy.ErrNoSecret},
		"rule changed":  {signed(t, parse(t, strings.Replace(exampleJSON, `"outcome":"ALLOW"`, `"outcome":"DENY"`, 1)), good), secret, policy.ErrSignature},
		"rules swapped": {signed(t, parse(t, strings.Replace(exampleJSON, `"lte":100`, `"lte":101`, 1)), good), secret, policy.ErrSignature},
		"unknown field": {signed(t, parse(t, strings.Replace(exampleJSON, `{"version"`, `{"x":1,"version"`, 1)), good), secret, policy.ErrSignature},
	} {
		if err := policy.Verify(tt.v, tt.secret); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	// Spelling does not count, and the digest names the bundle signed or not.
	a, problems := policy.Compile(signed(t, v, good), policy.Options{Now: now, Secret: secret})
	if a == nil || !a.Signed || a.Digest != load(t, exampleYAML).Digest {
		t.Errorf("got %v %v", a, problems)
	}
	for text, want := range map[string]string{exampleJSON: "unsigned", strings.Replace(exampleJSON, `{"version"`, `{"signature":"`+good[1:]+`0","version"`, 1): "bad_signature"} {
		if b, problems := policy.Load([]byte(text), policy.Options{Now: now, Secret: secret}); b != nil || problems[0].Code != want || problems[0].Line != 1 {
			t.Errorf("got %v, want %s", problems, want)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	// Ascending; each is newer than all before it.
	for _, list := range [][]string{
		{"0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.2", "v1.10.0", "2", "99999999999999999999.0.0"},
		{"2026-04-2", "2026-04-10", "2026-10-01", "2027"},
		{"policy-9", "policy-10", "policy-10b"},
		{"", "1a", "01a1", "a"},
	} {
		for i := range list {
			for j := range list {
				got := policy.CompareVersions(list[i], list[j])
				if (got < 0) != (i < j) || (got > 0) != (i > j) {
					t.Errorf("%q against %q: got %d", list[i], list[j], got)
				}
			}
		}
	}
	for _, pair := range [][2]string{{"1.0.0", "v1.0.0"}, {"1", "1.0.0"}, {"1.0.0+a", "1.0.0+b"}} {
		if got := policy.CompareVersions(pair[0], pair[1]); got != 0 {
			t.Errorf("%q: got %d, want 0", pair, got)
		}
	}
	older := load(t, bundleOf())
	newer := load(t, strings.Replace(bundleOf(), "2026-01-01", "2026-01-02", 1))
	other := load(t, strings.Replace(bundleOf(), `"1.0.0"`, `"0.9.0"`, 1))
	if policy.Compare(newer, older) <= 0 || policy.Compare(older, newer) >= 0 || policy.Compare(older, older) != 0 || policy.Compare(other, older) >= 0 {
		t.Error("bundles are not ordered by version, then generated_at")
	}
}
