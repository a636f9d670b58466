package policy

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
	"holdpoint/engine/sshsig"
)

// MaxSignatures is how many people's signatures a bundle has at most.
const MaxSignatures = 20

// SignatureNamespace is the purpose for which people's keys sign ("ssh-keygen -Y sign -n"), so
// that no signature for anything else is one of a policy.
const SignatureNamespace = "holdpoint-policy"

// signedBy is one of the member "signed_by": a key that has signed the bundle for an environment.
type signedBy struct {
	environment string
	key         sshsig.Key
}

// signedByFields are those of an element of signed_by.
var signedByFields = []string{"environment", "ssh"}

// Statement is what people's keys sign: that a policy, named by its digest, is right for an
// environment. The digest covers version and times, so no signature is good for another edition,
// and one for a test environment is none for production.
func Statement(digest, environment string) []byte {
	return canon.Object(
		canon.Member{Name: "v", Value: canon.String("holdpoint-policy-v1")},
		canon.Member{Name: "environment", Value: canon.String(environment)},
		canon.Member{Name: "policy", Value: canon.String(digest)},
	).Canonical()
}

// SignedBy is the member "signed_by" with the signature of a key put in, in place of a former one
// by that key for that environment. v is a bundle that Load takes.
func SignedBy(v canon.Value, environment string, signature []byte, key sshsig.Key) canon.Value {
	own := canon.Object(
		canon.Member{Name: "environment", Value: canon.String(environment)},
		canon.Member{Name: "ssh", Value: canon.String(base64.StdEncoding.EncodeToString(signature))},
	)
	var list []canon.Value
	put := false
	former, _ := v.Get("signed_by")
	for _, one := range former.Elements() {
		text, _ := one.Get("ssh")
		blob, _ := base64.StdEncoding.DecodeString(text.Str())
		by, _ := sshsig.Verify(blob, SignatureNamespace, nil) // only whose it is
		if where, _ := one.Get("environment"); where.Str() == environment && by.Fingerprint == key.Fingerprint {
			if put {
				continue
			}
			one, put = own, true
		}
		list = append(list, one)
	}
	if !put {
		list = append(list, own)
	}
	return canon.Array(list...)
}

// SignedFor is the keys that have signed the bundle for an environment, each once and in the order
// of the bundle. Whose they are is not known here, nor whether they count.
func (b *Bundle) SignedFor(environment string) []sshsig.Key {
	var keys []sshsig.Key
	for _, s := range b.signedBy {
		if s.environment == environment && !slices.Contains(keys, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// SignedEnvironments are those for which keys have signed, sorted.
func (b *Bundle) SignedEnvironments() []string {
	names := []string{}
	for _, s := range b.signedBy {
		names = append(names, s.environment)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// signers reads the signatures of people. One that does not fit is a warning: it counts for
// nothing.
func (c *compiler) signers(root source.Node, b *Bundle) {
	n, ok := root.Get("signed_by")
	if !ok || n.Value.IsNull() {
		return
	}
	if n.Value.Kind() != canon.ArrayKind {
		c.wrongKind(n, "signed_by", "an array of signatures")
		return
	}
	if n.Value.Len() > MaxSignatures {
		c.fail(n, "too_many_signatures", "more than "+strconv.Itoa(MaxSignatures)+" signatures are in signed_by", "take out those that are not needed")
		return
	}
	for i := range n.Value.Len() {
		c.signer(n.Element(i), "signed_by["+strconv.Itoa(i)+"]", b)
	}
}

func (c *compiler) signer(n source.Node, name string, b *Bundle) {
	const anew = "sign anew after every change: holdpoint policy sign --key FILE --environment NAME"
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, name, "an object")
		return
	}
	c.unknown(n, name, signedByFields)
	var texts [2]string
	for i, field := range signedByFields {
		m, ok := n.Get(field)
		if !ok {
			c.fail(n, "missing", name+" has no field "+strconv.Quote(field), "")
			return
		}
		if texts[i], ok = c.text(m, name+"."+field); !ok {
			return
		}
	}
	blob, err := base64.StdEncoding.DecodeString(texts[1])
	if err != nil || base64.StdEncoding.EncodeToString(blob) != texts[1] { // one way to write it
		c.fail(n, "bad_signed_by", name+".ssh is not base64", anew)
		return
	}
	key, err := sshsig.Verify(blob, SignatureNamespace, Statement(b.Digest, texts[0]))
	switch {
	case errors.Is(err, sshsig.ErrSignature):
		c.report(n.Problem("signed_other", "the signature by "+key.Fingerprint+" for "+quote(texts[0])+" is not one of this policy, and does not count", anew), true)
	case err != nil:
		c.fail(n, "bad_signed_by", name+": "+err.Error(), anew)
	default:
		b.signedBy = append(b.signedBy, signedBy{texts[0], key})
	}
}
