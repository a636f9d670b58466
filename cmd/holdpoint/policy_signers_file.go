package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"holdpoint/engine/policy"
	"holdpoint/engine/sshsig"
)

// allowedSigners are the people of a file of allowed signers, by the fingerprints of their keys.
type allowedSigners map[string]string

// readAllowedSigners reads a file as ssh-keygen has one of allowed signers: on each line a person, perhaps
// namespaces="…", and a public key. What else such a line may say is refused: it would be passed over.
func readAllowedSigners(path string) (allowedSigners, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	signers := allowedSigners{}
	for n, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		who, key, err := allowedSigner(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		if key.Fingerprint == "" {
			continue // it signs other things
		}
		if other, twice := signers[key.Fingerprint]; twice && other != who {
			return nil, fmt.Errorf("%s:%d: the key %s is %s's and %s's: nobody knows who has signed with it", path, n+1, key.Fingerprint, other, who)
		}
		signers[key.Fingerprint] = who
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("%s: it has no key that signs policies", path)
	}
	return signers, nil
}

var errNotAllowed = errors.New("want a person and a public key: an address, and behind it what a .pub file has")

// allowedSigner reads a line; the key is zero where it is for other namespaces.
func allowedSigner(line []byte) (who string, key sshsig.Key, err error) {
	first, rest, _ := strings.Cut(string(line), " ")
	rest = strings.TrimSpace(rest)
	if rest == "" || strings.HasPrefix(first, "ssh-") || strings.HasPrefix(first, "sk-ssh-") || strings.HasPrefix(first, "ecdsa-") {
		return "", key, errNotAllowed
	}
	if strings.ContainsAny(first, `,*?!"`) {
		return "", key, fmt.Errorf("%q: want one person, and no pattern", first)
	}
	public, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return "", key, errNotAllowed
	}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		if !strings.EqualFold(name, "namespaces") {
			return "", key, fmt.Errorf("%s: it is not known here, and what it restricts would be passed over", name)
		}
		if !slices.Contains(strings.Split(strings.Trim(value, `"`), ","), policy.SignatureNamespace) {
			return first, key, nil
		}
	}
	key, err = sshsig.ParseKey(ssh.MarshalAuthorizedKey(public))
	return first, key, err
}

// signedByAllowed says whose keys have signed the policy for an environment, and whether so many of the people have.
func signedByAllowed(b *policy.Bundle, file, environment, from string, needed int, signers allowedSigners) error {
	var people []string
	for _, key := range b.SignedFor(environment) {
		who, known := signers[key.Fingerprint]
		if !known {
			fmt.Fprintf(terminal, "%s: signed for %s with %s, which does not count: %s does not have the key\n", file, environment, key.Fingerprint, from)
			continue
		}
		fmt.Fprintf(terminal, "%s: signed by %s for %s with %s\n", file, who, environment, key.Fingerprint)
		if !slices.Contains(people, who) {
			people = append(people, who)
		}
	}
	if len(people) >= needed {
		fmt.Fprintf(terminal, "%s: signed as was asked, by %d of %s, %s\n", file, len(people), from, b.Digest)
		return nil
	}
	text := fmt.Sprintf("%s: want the signatures of %d of %s for the environment %q, got %d", file, needed, from, environment, len(people))
	if elsewhere := b.SignedEnvironments(); len(b.SignedFor(environment)) == 0 && len(elsewhere) > 0 {
		text += "; it is signed for " + strings.Join(elsewhere, ", ")
	}
	return errors.New(text)
}
