package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// What every authenticator app can do, and some do only (RFC 6238 with its
// defaults): 6 digits of HMAC-SHA-1, a new code every 30 s. The code before and
// the one after count as well: clocks differ and people take their time.
const (
	totpSecret = 20 // bytes
	totpDigits = 6
	totpPeriod = 30 // seconds
	totpSkew   = 1  // steps
	// enrolWithin is how long somebody may take from seeing a secret to showing
	// its first code.
	enrolWithin = 15 * time.Minute
)

var base32Secret = base32.StdEncoding.WithPadding(base32.NoPadding)

// Enrolment is a secret that is yet to be confirmed. It is shown once.
type Enrolment struct {
	Secret string // base32, as it is typed
	URI    string // otpauth://totp/…
	// QR is the URI as a code to scan: rows of modules, true is dark, without the
	// margin of 4 light ones that it needs around.
	QR [][]bool
}

// EnrolTOTP makes a secret for the person's authenticator app. It counts for
// nothing until ConfirmTOTP. Refusals: verification_needed, and totp_enrolled
// (409) when there is an app already.
func (f *Factors) EnrolTOTP(ctx context.Context, p engine.Person) (Enrolment, error) {
	if err := f.Fresh(ctx, p); err != nil {
		return Enrolment{}, err
	}
	raw := make([]byte, totpSecret)
	rand.Read(raw)
	if err := f.store.Factors.PutTOTP(ctx, p.ID, raw); errors.Is(err, store.ErrNotFound) {
		return Enrolment{}, &access.Refusal{Kind: access.Conflict, Code: "totp_enrolled", Detail: "You have an authenticator app already. Remove it first."}
	} else if err != nil {
		return Enrolment{}, err
	}
	e := Enrolment{Secret: base32Secret.EncodeToString(raw)}
	e.URI = (&url.URL{Scheme: "otpauth", Host: "totp", Path: "/Holdpoint:" + p.Email, RawQuery: "issuer=Holdpoint&secret=" + e.Secret}).String()
	var err error
	e.QR, err = modules(e.URI)
	return e, err
}

// modules draws a QR code. The library paints it; a module is as large as a
// seventh of the square in the corner, where the painting begins.
func modules(text string) ([][]bool, error) {
	key, err := otp.NewKeyFromURL(text)
	if err != nil {
		return nil, fmt.Errorf("read the authenticator's URI: %w", err)
	}
	const painted = 800
	picture, err := key.Image(painted, painted)
	if err != nil {
		return nil, fmt.Errorf("draw the QR code: %w", err)
	}
	dark := func(x, y int) bool {
		return color.GrayModel.Convert(picture.At(x, y)).(color.Gray).Y < 128
	}
	start := 0
	for start < painted && !dark(start, start) {
		start++
	}
	end := start
	for end < painted && dark(end, start) {
		end++
	}
	size := (end - start) / 7
	if size == 0 || !picture.Bounds().Eq(image.Rect(0, 0, painted, painted)) {
		return nil, errors.New("draw the QR code: it has no corner")
	}
	n := (painted - 2*start) / size
	rows := make([][]bool, n)
	for y := range rows {
		rows[y] = make([]bool, n)
		for x := range rows[y] {
			rows[y][x] = dark(start+x*size+size/2, start+y*size+size/2)
		}
	}
	return rows, nil
}

// ConfirmTOTP makes the enrolled app a factor, once its holder has shown a code
// of it. Refusals: verification_failed, too_many_attempts, and not_enrolling
// (409) when there is nothing to confirm or it was too long ago.
func (f *Factors) ConfirmTOTP(ctx context.Context, p engine.Person, code string) error {
	t, err := f.store.Factors.TOTP(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && (t.Confirmed || t.Now.Sub(t.CreatedAt) > enrolWithin) {
		return notEnrolling
	}
	if err != nil {
		return err
	}
	attempt, err := f.attempt(ctx, p)
	if err != nil {
		return err
	}
	step, ok, err := matching(t.Secret, code, t.Now)
	if err != nil {
		return err
	}
	if !ok {
		return verificationFailed
	}
	err = f.store.Factors.ConfirmTOTP(ctx, p.ID, t.CreatedAt, step, administered(p, "FACTOR_ADDED", "An authenticator app was enrolled.", passkey.Change{Factor: TOTP, Person: p.ID}))
	if errors.Is(err, store.ErrNotFound) {
		return notEnrolling
	}
	if err != nil {
		return err
	}
	return f.store.Factors.ReturnAttempt(ctx, attempt)
}

var notEnrolling = &access.Refusal{Kind: access.Conflict, Code: "not_enrolling", Detail: "There is no authenticator app to confirm any more. Start again."}

// RemoveTOTP removes the person's authenticator app. Refusals:
// verification_needed, and not_found when there is none.
func (f *Factors) RemoveTOTP(ctx context.Context, p engine.Person) error {
	if err := f.Fresh(ctx, p); err != nil {
		return err
	}
	err := f.store.Factors.DeleteTOTP(ctx, p.ID, administered(p, "FACTOR_REMOVED", "An authenticator app was removed.", passkey.Change{Factor: TOTP, Person: p.ID}))
	if errors.Is(err, store.ErrNotFound) {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "You have no authenticator app."}
	}
	return err
}

// RestoreTOTP enrols and confirms a secret that is known, in base32, for a
// person who has no authenticator app. It is for whoever sets an installation
// up, with an event that says so.
func RestoreTOTP(ctx context.Context, s *store.Store, personID, secret string, e engine.Event) error {
	raw, err := base32Secret.DecodeString(secret)
	if err != nil || len(raw) != totpSecret {
		return fmt.Errorf("a TOTP secret is %d bytes in base32", totpSecret)
	}
	if err := s.Factors.PutTOTP(ctx, personID, raw); err != nil {
		return err
	}
	t, err := s.Factors.TOTP(ctx, personID)
	if err != nil {
		return err
	}
	return s.Factors.ConfirmTOTP(ctx, personID, t.CreatedAt, 0, e)
}

// NewTOTPSecret makes a secret, in base32.
func NewTOTPSecret() string {
	raw := make([]byte, totpSecret)
	rand.Read(raw)
	return base32Secret.EncodeToString(raw)
}

// checkCode reports whether a code is the person's, and takes it.
func (f *Factors) checkCode(ctx context.Context, p engine.Person, code string) (bool, error) {
	attempt, err := f.attempt(ctx, p)
	if err != nil {
		return false, err
	}
	t, err := f.store.Factors.TOTP(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !t.Confirmed {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	step, ok, err := matching(t.Secret, code, t.Now)
	if err != nil || !ok {
		return false, err
	}
	err = f.store.Factors.UseTOTP(ctx, p.ID, step, attempt)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// matching finds the latest step around now whose code this is. It takes as
// long whichever it is, or none.
func matching(secret []byte, code string, now time.Time) (step int64, ok bool, err error) {
	code = strings.Map(func(r rune) rune {
		if r == ' ' || r == '\u00a0' || r == '\t' {
			return -1
		}
		return r
	}, code)
	at := now.Unix() / totpPeriod
	for s := at - totpSkew; s <= at+totpSkew; s++ {
		want, err := hotp.GenerateCodeCustom(base32Secret.EncodeToString(secret), uint64(s), // #nosec G115 -- after 1970
			hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil {
			return 0, false, fmt.Errorf("make a code: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok, nil
}
