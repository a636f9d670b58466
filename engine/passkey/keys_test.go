package passkey_test

import (
	"encoding/json"
	"errors"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/passkeytest"
)

// log follows events and remembers them.
type log struct {
	t *testing.T
	passkey.Keys
	events []engine.Event
}

func event(t *testing.T, actor, code string, payload any) engine.Event {
	t.Helper()
	told, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Event{
		Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code}}, SafePayload: told,
		Actor: engine.Actor{Kind: engine.HumanActor, ID: actor},
	}
}

// change is the event of a passkey of a person's that comes or goes, signed by another.
func (l *log) change(what, person string, key passkey.Key, by *passkeytest.Authenticator) engine.Event {
	l.t.Helper()
	act, code := l.Next(what, person, key), passkey.Added
	if what == passkey.Remove {
		code = passkey.Removed
	}
	var signed *passkey.Assertion
	if by != nil {
		challenge, err := passkey.Challenge(act)
		if err != nil {
			l.t.Fatal(err)
		}
		made := by.Assert(challenge[:])
		signed = &made
	}
	return event(l.t, person, code, passkey.NewChange(act, signed))
}

func (l *log) follow(e engine.Event) error {
	l.events = append(l.events, e)
	return l.Event(e)
}

func (l *log) good(e engine.Event) {
	l.t.Helper()
	if err := l.follow(e); err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) knows(when, person string, a *passkeytest.Authenticator, want bool) {
	l.t.Helper()
	challenge := [32]byte{1}
	err := l.Verify(person, challenge, a.Assert(challenge[:]))
	if (err == nil) != want || !want && !errors.Is(err, passkey.ErrUnknown) {
		l.t.Errorf("%s: %v", when, err)
	}
}

func TestPasskeysComeAndGoSigned(t *testing.T) {
	l := &log{t: t}
	first, second, foreign := passkeytest.New(t, host), passkeytest.New(t, host), passkeytest.New(t, host)
	l.good(l.change(passkey.Add, "usr_1", first.Key(), nil))
	l.good(l.change(passkey.Add, "usr_2", foreign.Key(), nil))
	l.knows("the first one", "usr_1", first, true)
	l.knows("another's", "usr_1", foreign, false)
	for name, e := range map[string]engine.Event{
		"signed by nobody":     l.change(passkey.Add, "usr_1", second.Key(), nil),
		"signed by itself":     l.change(passkey.Add, "usr_1", second.Key(), second),
		"signed by another":    l.change(passkey.Add, "usr_1", second.Key(), foreign),
		"said by another":      event(t, "usr_2", passkey.Added, passkey.NewChange(l.Next(passkey.Add, "usr_1", second.Key()), nil)),
		"there already":        l.change(passkey.Add, "usr_1", first.Key(), first),
		"another's passkey":    l.change(passkey.Add, "usr_1", foreign.Key(), first),
		"removed by nobody":    l.change(passkey.Remove, "usr_1", first.Key(), nil),
		"removed by another":   l.change(passkey.Remove, "usr_1", first.Key(), foreign),
		"with a key of no use": l.change(passkey.Add, "usr_1", passkey.Key{Credential: []byte("x"), Algorithm: "ES256", RPID: host}, first),
	} {
		if err := l.follow(e); err == nil {
			t.Errorf("a passkey that is %s is believed", name)
		}
	}
	added := l.change(passkey.Add, "usr_1", second.Key(), first)
	l.good(added)
	l.knows("the second one", "usr_1", second, true)
	l.good(l.change(passkey.Remove, "usr_1", second.Key(), first))
	l.knows("a removed one", "usr_1", second, false)
	if l.Event(added) == nil {
		t.Error("what added a passkey adds it again after it was removed")
	}
	// Its own removal it may sign.
	l.good(l.change(passkey.Remove, "usr_1", first.Key(), first))
	l.knows("the last one, removed", "usr_1", first, false)
	l.good(l.change(passkey.Add, "usr_1", second.Key(), nil))
	if l.Resets != 0 {
		t.Error("a removal counts as a reset")
	}
	l.good(event(t, "key_admin", passkey.Reset, map[string]string{"subject": "usr_1", "person": "usr_1"}))
	l.knows("after a reset", "usr_1", second, false)
	l.good(l.change(passkey.Add, "usr_1", first.Key(), nil))
	l.knows("a first one after a reset", "usr_1", first, true)
	l.knows("nobody else's", "usr_2", foreign, true)
	if l.Resets != 1 {
		t.Errorf("%d resets are counted", l.Resets)
	}
}

func TestOldEventsOfFactorsTellNoKeys(t *testing.T) {
	l := &log{t: t}
	for _, code := range []string{passkey.Added, passkey.Removed} {
		l.good(event(t, "usr_1", code, map[string]string{"factor": "passkey", "person": "usr_1"}))
		l.good(event(t, "usr_1", code, map[string]string{"factor": "totp", "person": "usr_1"}))
	}
	// One that was added before the log had keys can go as it could.
	l.good(l.change(passkey.Remove, "usr_1", passkeytest.New(t, host).Key(), nil))
	if l.Has("usr_1") {
		t.Error("it knows a passkey")
	}
	refused := event(t, "usr_1", passkey.Added, map[string]any{"factor": "passkey", "person": "usr_1", "passkey": passkeytest.New(t, host).Key()})
	refused.Outcome = engine.Deny
	l.good(refused)
	if l.Has("usr_1") {
		t.Error("a refusal adds a passkey")
	}
}

// Of a part of a log, what only the missing events could prove is believed.
func TestPartOfALogIsBelieved(t *testing.T) {
	whole := &log{t: t}
	first, second := passkeytest.New(t, host), passkeytest.New(t, host)
	whole.good(whole.change(passkey.Add, "usr_1", first.Key(), nil))
	whole.good(whole.change(passkey.Add, "usr_1", second.Key(), first))
	part := &log{t: t, Keys: passkey.Keys{Part: true}}
	part.good(whole.events[1])
	part.knows("one of a part", "usr_1", second, true)
}
