package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdpoint/engine"
)

// What becomes of a passkey, in an Act.
const (
	Add    = "add"
	Remove = "remove"
)

// Act is the statement that a passkey comes or goes, which another one of the same
// person signs.
type Act struct {
	V      string `json:"v"`   // "holdpoint-passkey-v1"
	Act    string `json:"act"` // Add or Remove
	Person string `json:"person"`
	// Number is how many changes to the person's passkeys the log has before: so that
	// no statement is good a second time.
	Number  int `json:"number"`
	Passkey Key `json:"passkey"`
}

// Change is the payload of the event that tells of it.
type Change struct {
	Factor  string `json:"factor"` // "passkey"
	Person  string `json:"person"`
	Passkey *Key   `json:"passkey,omitempty"`
	// SignedBy is the assertion over the Act; nil for the first one of a person.
	SignedBy *Assertion `json:"signed_by,omitempty"`
}

// factor is Change.Factor, by which events of authenticator apps are told from these.
const factor = "passkey"

// NewChange is the payload that tells of an act.
func NewChange(act Act, signed *Assertion) Change {
	return Change{Factor: factor, Person: act.Person, Passkey: &act.Passkey, SignedBy: signed}
}

// Codes of the events that Keys follows: the first reason's.
const (
	Added   = "FACTOR_ADDED"
	Removed = "FACTOR_REMOVED"
	Reset   = "FACTORS_RESET"
)

// Codes are all of them.
func Codes() []string { return []string{Added, Removed, Reset} }

// ErrUnknown is the reason of an assertion by a passkey that is not among those that
// the log knows of the person: it was never added, or was removed.
var ErrUnknown = errors.New("the log knows no such passkey of this person at this time")

// The most passkeys of a person, and in all, that are held.
const (
	maxPasskeys = 20
	maxKeys     = 1 << 17
)

// Keys are people's passkeys by the events of a log, followed in order.
type Keys struct {
	// Part says that events may be missing before those that are followed: what only
	// they could prove is believed.
	Part bool
	// Resets counts those that took a passkey from somebody.
	Resets int

	people map[string]*holder
	whose  map[string]string // by credential: whose it is
}

type holder struct {
	live    []Key
	changes int
}

// Event follows an event, and says what is wrong with it: then it changes nothing.
func (k *Keys) Event(e engine.Event) error {
	if e.Type != engine.Admin || e.Outcome == engine.Deny || len(e.Reasons) == 0 || !slices.Contains(Codes(), e.Reasons[0].Code) {
		return nil
	}
	var c Change
	if err := json.Unmarshal(e.SafePayload, &c); err != nil {
		return errors.New("what it tells of a second factor cannot be read")
	}
	code := e.Reasons[0].Code
	if code == Reset {
		k.reset(c.Person)
		return nil
	}
	if c.Factor != factor || c.Passkey == nil {
		return nil // of an authenticator app, or from before the log had keys
	}
	if e.Actor.Kind != engine.HumanActor || e.Actor.ID != c.Person || c.Person == "" {
		return fmt.Errorf("%.80s changes a passkey of %.80s", e.Actor.ID, c.Person)
	}
	if code == Added {
		return k.added(c)
	}
	return k.removed(c)
}

func (k *Keys) reset(person string) {
	h := k.people[person]
	if h == nil || len(h.live) == 0 {
		return
	}
	for _, key := range h.live {
		delete(k.whose, string(key.Credential))
	}
	h.live = nil
	h.changes++
	k.Resets++
}

func (k *Keys) added(c Change) error {
	if err := c.Passkey.Check(); err != nil {
		return fmt.Errorf("a passkey of %s is added, and %w", c.Person, err)
	}
	h := k.people[c.Person]
	switch {
	case k.whose[string(c.Passkey.Credential)] != "":
		return fmt.Errorf("a passkey of %s is added that is there already", c.Person)
	case h != nil && len(h.live) >= maxPasskeys || len(k.whose) >= maxKeys:
		return errors.New("there are more passkeys than there can be")
	}
	if err := k.requireSignature(Add, c); err != nil {
		return err
	}
	if k.people == nil {
		k.people, k.whose = map[string]*holder{}, map[string]string{}
	}
	if h == nil {
		h = &holder{}
		k.people[c.Person] = h
	}
	h.live, h.changes = append(h.live, *c.Passkey), h.changes+1
	k.whose[string(c.Passkey.Credential)] = c.Person
	return nil
}

func (k *Keys) removed(c Change) error {
	if _, known := k.find(c.Person, c.Passkey.Credential); !known {
		return nil // from before the log had keys: it could sign nothing
	}
	if err := k.requireSignature(Remove, c); err != nil {
		return err
	}
	h := k.people[c.Person]
	h.live = slices.DeleteFunc(h.live, func(key Key) bool { return bytes.Equal(key.Credential, c.Passkey.Credential) })
	h.changes++
	delete(k.whose, string(c.Passkey.Credential))
	return nil
}

// requireSignature refuses a change that no passkey has signed of a person who has one.
func (k *Keys) requireSignature(what string, c Change) error {
	if !k.Has(c.Person) {
		return nil
	}
	if c.SignedBy == nil {
		return fmt.Errorf("a passkey of %s comes or goes, and none of theirs has signed that", c.Person)
	}
	challenge, err := Challenge(k.Next(what, c.Person, *c.Passkey))
	if err == nil {
		err = k.Verify(c.Person, challenge, *c.SignedBy)
	}
	if err != nil && k.Part {
		return nil // what is missing before may be why
	}
	if err != nil {
		return fmt.Errorf("a passkey of %s comes or goes, and the signature of that is none: %w", c.Person, err)
	}
	return nil
}

// Next is the statement of the person's next change.
func (k *Keys) Next(what, person string, key Key) Act {
	a := Act{V: "holdpoint-passkey-v1", Act: what, Person: person, Passkey: key}
	if h := k.people[person]; h != nil {
		a.Number = h.changes
	}
	return a
}

// Has reports whether the log knows a passkey of the person.
func (k *Keys) Has(person string) bool { return len(k.Of(person)) > 0 }

// Of are the person's passkeys, in the order in which they were added.
func (k *Keys) Of(person string) []Key {
	if h := k.people[person]; h != nil {
		return slices.Clone(h.live)
	}
	return nil
}

func (k *Keys) find(person string, credential Bytes) (Key, bool) {
	keys := k.Of(person)
	i := slices.IndexFunc(keys, func(key Key) bool { return bytes.Equal(key.Credential, credential) })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

// Verify reports why the assertion is not one of a passkey of the person's for the
// challenge, or nil.
func (k *Keys) Verify(person string, challenge [sha256.Size]byte, a Assertion) error {
	key, known := k.find(person, a.Credential)
	if !known {
		return ErrUnknown
	}
	return key.Verify(challenge, a)
}
