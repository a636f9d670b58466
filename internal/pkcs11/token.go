// Package pkcs11 encrypts and decrypts with an AES key that stays inside a token: a
// hardware security module, or whatever else has a PKCS#11 library. The library is loaded
// into the process without cgo, which makes a program that imports this package depend on
// the system's C library: no program but holdpoint-pkcs11 does. It makes, changes and
// deletes no key, and takes none that may leave its token.
package pkcs11

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

const (
	nonceSize = 12
	tagSize   = 16
	// mostPlain is the most that is encrypted at once, in bytes: keys, not files.
	mostPlain = 512
)

// bound is authenticated with everything that is encrypted, so that nothing else that the
// token's key may be used for is taken for it.
var bound = []byte("holdpoint-pkcs11 v1")

// ErrForeign is of what no key of this token that is known by its name has encrypted.
var ErrForeign = errors.New("no key of this token opens it")

// ErrPIN is of a PIN that the token refused, or was not given because that might lock it.
var ErrPIN = errors.New("it is not tried again")

// Token is a token in which somebody is logged in. It may be used by several at once.
type Token struct {
	uri URI
	pin []byte
	lib *library

	mu      sync.Mutex
	session ulong
	label   string
	// key encrypts; id is its name.
	key ulong
	id  string
	// wrong is why nobody logs in any more: a second wrong PIN is one too many.
	wrong error
}

// Open loads the library, logs in to the token, finds the key, and tries it.
func Open(uri URI, pin []byte) (*Token, error) {
	lib, err := load(uri.Module)
	if err != nil {
		return nil, err
	}
	t := &Token{uri: uri, pin: pin, lib: lib}
	if err = t.open(); err == nil {
		err = t.selfTest()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// selfTest has the key encrypt and decrypt something.
func (t *Token) selfTest() error {
	probe := []byte("probe")
	sealed, id, err := t.Encrypt(probe)
	if err != nil {
		return err
	}
	again, err := t.Decrypt(id, sealed)
	if err == nil && !bytes.Equal(again, probe) {
		err = fmt.Errorf("%s does not decrypt what it encrypts", id)
	}
	return err
}

// Close logs out.
func (t *Token) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave()
	t.lib.close()
}

func (t *Token) leave() {
	if t.session != 0 {
		t.lib.closeSession(t.session)
		t.session = 0
	}
}

// open finds the token, logs in, and finds the key.
func (t *Token) open() error {
	if t.wrong != nil {
		return t.wrong
	}
	slot, info, err := t.find()
	if err != nil {
		return err
	}
	t.label = padded(info.label[:])
	switch {
	case info.flags&pinLocked != 0:
		return fmt.Errorf("the PIN of the token %q is locked: its security officer unlocks it (%w)", t.label, ErrPIN)
	case info.flags&pinFinalTry != 0:
		return fmt.Errorf("one more wrong PIN locks the token %q: log in by hand first, by pkcs11-tool --login --list-objects (%w)", t.label, ErrPIN)
	}
	if err := returnError(t.lib.openSession(slot, serialSession, nil, nil, &t.session)); err != nil {
		return fmt.Errorf("open a session with the token %q: %w", t.label, err)
	}
	if len(t.pin) > 0 {
		if err := returnError(t.lib.login(t.session, userType, &t.pin[0], ulong(len(t.pin)))); err != nil && !errors.Is(err, alreadyLoggedIn) {
			t.leave()
			err = fmt.Errorf("log in to the token %q: %w", t.label, err)
			if errors.Is(err, pinIncorrect) || errors.Is(err, pinIsLocked) {
				err = fmt.Errorf("%w (%w)", err, ErrPIN)
				t.wrong = err
			}
			return err
		}
	}
	if t.key, t.id, err = t.named(t.uri.Object, t.uri.ID); err != nil {
		t.leave()
		return err
	}
	return nil
}

// padded is a text of the standard without the blanks behind it.
func padded(text []byte) string { return strings.TrimRight(string(text), " \x00") }

// find is the one token that the address names.
func (t *Token) find() (slot ulong, info tokenInfo, err error) {
	slots, err := t.lib.slots()
	if err != nil {
		return 0, info, fmt.Errorf("list the tokens: %w", err)
	}
	var all []string
	found := 0
	for _, s := range slots {
		var i tokenInfo
		if err := returnError(t.lib.getTokenInfo(s, &i)); err != nil {
			continue // it was taken out meanwhile
		}
		if i.flags&initialized == 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%q", padded(i.label[:])))
		same := func(want string, got []byte) bool { return want == "" || want == padded(got) }
		if same(t.uri.Token, i.label[:]) && same(t.uri.Serial, i.serial[:]) && same(t.uri.Manufacturer, i.manufacturer[:]) && same(t.uri.Model, i.model[:]) {
			slot, info = s, i
			found++
		}
	}
	slices.Sort(all)
	there := "there is none at all"
	if len(all) > 0 {
		there = "there is " + strings.Join(all, ", ")
	}
	switch {
	case found == 0:
		return 0, info, fmt.Errorf("no token is the one that the address names (token, serial, …): %s", there)
	case found > 1:
		return 0, info, fmt.Errorf("%d tokens are what the address names: say which by token=LABEL or serial=NUMBER; %s", found, there)
	}
	return slot, info, nil
}

// named is the one AES key with a label and an id, either of which may be "", and its
// full name. A key that may leave the token, or be used without a PIN, is refused.
func (t *Token) named(object, id string) (key ulong, full string, err error) {
	class, kind := ulong(secretKey), ulong(aesKey)
	want := []attribute{
		{classAttribute, unsafe.Pointer(&class), ulong(unsafe.Sizeof(class))},
		{keyTypeAttribute, unsafe.Pointer(&kind), ulong(unsafe.Sizeof(kind))},
	}
	for _, a := range []struct {
		kind ulong
		text []byte
	}{{labelAttribute, []byte(object)}, {idAttribute, []byte(id)}} {
		if len(a.text) > 0 {
			want = append(want, attribute{a.kind, unsafe.Pointer(&a.text[0]), ulong(len(a.text))})
		}
	}
	found, err := t.lib.objects(t.session, want)
	asked := name(t.label, object, id)
	switch {
	case err != nil:
		return 0, "", fmt.Errorf("look for the key %s: %w", asked, err)
	case len(found) == 0:
		return 0, "", fmt.Errorf("there is no AES key %s", asked)
	case len(found) > 1:
		return 0, "", fmt.Errorf("there are several AES keys %s: say which by object=LABEL and id=%%01", asked)
	}
	key = found[0]
	for _, a := range []struct {
		kind ulong
		want byte
		why  string
	}{
		{sensitiveAttribute, 1, "its value may be read in clear (CKA_SENSITIVE is false)"},
		{extractableAttribute, 0, "it may leave the token (CKA_EXTRACTABLE is true)"},
		{privateAttribute, 1, "it may be used without a PIN (CKA_PRIVATE is false)"},
	} {
		value, err := t.lib.attribute(t.session, key, a.kind)
		if err != nil {
			return 0, "", fmt.Errorf("look at the key %s: %w", asked, err)
		}
		if len(value) != 1 || value[0] != a.want {
			return 0, "", fmt.Errorf("the key %s is not taken: %s", asked, a.why)
		}
	}
	label, err := t.lib.attribute(t.session, key, labelAttribute)
	if err != nil {
		return 0, "", fmt.Errorf("look at the key %s: %w", asked, err)
	}
	ident, err := t.lib.attribute(t.session, key, idAttribute)
	if err != nil {
		return 0, "", fmt.Errorf("look at the key %s: %w", asked, err)
	}
	return key, name(t.label, string(label), string(ident)), nil
}

// KeyID is the name of the key that encrypts.
func (t *Token) KeyID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// Alive says whether the token is there and its key can be used.
func (t *Token) Alive() error { return t.selfTest() }

// Encrypt encrypts a key of at most 512 bytes inside the token, and says by which key:
// nonce ‖ ciphertext ‖ tag.
func (t *Token) Encrypt(plain []byte) (sealed []byte, id string, err error) {
	if len(plain) == 0 || len(plain) > mostPlain {
		return nil, "", fmt.Errorf("want 1 to %d bytes to encrypt, got %d", mostPlain, len(plain))
	}
	err = t.withSession(func() error {
		// A token that makes its nonces itself puts it here.
		nonce := make([]byte, nonceSize)
		rand.Read(nonce)
		out, err := t.lib.gcm(t.lib.encryptInit, t.lib.encrypt, t.session, t.key, nonce, bound, plain, tagSize)
		if err == nil && len(out) != len(plain)+tagSize {
			err = fmt.Errorf("the token made %d bytes of %d", len(out), len(plain))
		}
		sealed, id = append(nonce, out...), t.id
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("encrypt with %s: %w", t.KeyID(), err)
	}
	return sealed, id, nil
}

// Decrypt decrypts, inside the token, what the key of that name has encrypted. It may be a
// former one: a key opens for as long as it is in the token.
func (t *Token) Decrypt(id string, sealed []byte) (plain []byte, err error) {
	of, err := ParseURI(id)
	if err != nil || of.Module != "" || of.PINFile != "" {
		return nil, fmt.Errorf("%w: %q is not the name of a key in a token", ErrForeign, id)
	}
	if len(sealed) <= nonceSize+tagSize || len(sealed) > nonceSize+mostPlain+tagSize {
		return nil, fmt.Errorf("%w: %d bytes are no key", ErrForeign, len(sealed))
	}
	err = t.withSession(func() error {
		key, _, err := t.named(of.Object, of.ID)
		if err != nil {
			return err
		}
		nonce := bytes.Clone(sealed[:nonceSize])
		plain, err = t.lib.gcm(t.lib.decryptInit, t.lib.decrypt, t.session, key, nonce, bound, sealed[nonceSize:], 0)
		return err
	})
	var rv ReturnValue
	switch {
	case err == nil && len(plain) == len(sealed)-nonceSize-tagSize:
		return plain, nil
	case err == nil:
		return nil, fmt.Errorf("decrypt with %s: the token made %d bytes of %d", id, len(plain), len(sealed))
	case errors.As(err, &rv) && slices.Contains([]ReturnValue{dataInvalid, encryptedInvalid, encryptedLength}, rv),
		errors.As(err, &rv) && slices.Contains([]ReturnValue{generalError, functionFailed}, rv) && t.matches(of):
		// By the standard it is 0x40; some tokens say so by what others say when they are not well.
		return nil, fmt.Errorf("%w: the key %s of this token has not encrypted it: %w", ErrForeign, id, rv)
	}
	return nil, fmt.Errorf("decrypt with %s: %w", id, err)
}

// matches reports whether the key of a name opens what it encrypts: then a token is well that did
// not open something else.
func (t *Token) matches(of URI) bool {
	probe := []byte("probe")
	var again []byte
	err := t.withSession(func() error {
		key, _, err := t.named(of.Object, of.ID)
		if err != nil {
			return err
		}
		nonce := make([]byte, nonceSize)
		rand.Read(nonce)
		out, err := t.lib.gcm(t.lib.encryptInit, t.lib.encrypt, t.session, key, nonce, bound, probe, tagSize)
		if err == nil {
			again, err = t.lib.gcm(t.lib.decryptInit, t.lib.decrypt, t.session, key, nonce, bound, out, 0)
		}
		return err
	})
	if err == nil && bytes.Equal(again, probe) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave() // whatever it is, the next use begins in another session
	return false
}

// withSession runs f in the session. When that is gone, as after a token was taken out and put
// back, it logs in again, once.
func (t *Token) withSession(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != 0 {
		err := f()
		var rv ReturnValue
		if !errors.As(err, &rv) || !slices.Contains([]ReturnValue{sessionClosed, sessionInvalid, notLoggedIn, deviceRemoved, deviceError, tokenNotPresent, tokenUnrecognized}, rv) {
			return err
		}
		t.leave()
	}
	if err := t.open(); err != nil {
		return err
	}
	return f()
}
