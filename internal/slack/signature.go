package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Window is by how much the time of a request may differ from ours.
const Window = 5 * time.Minute

// version is that of Slack's signatures.
const version = "v0"

// Sign is a request's signature:
//
//	"v0=" and the hex digits of HMAC-SHA-256(secret, "v0:" timestamp ":" body)
//
// over the bytes of the body as they came
// (https://api.slack.com/authentication/verifying-requests-from-slack).
func Sign(secret, timestamp string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(version + ":" + timestamp + ":"))
	m.Write(body)
	return version + "=" + hex.EncodeToString(m.Sum(nil))
}

// signed is the signature's bytes; nil where it is not the secret's.
func signed(secret string, r Request) []byte {
	if secret == "" || !hmac.Equal([]byte(Sign(secret, r.Timestamp, r.Body)), []byte(r.Signature)) {
		return nil
	}
	mac, err := hex.DecodeString(strings.TrimPrefix(r.Signature, version+"="))
	if err != nil {
		return nil
	}
	return mac
}

// plausible refuses, before anything is read for it, what cannot be a signed request.
func plausible(r Request) (at time.Time, ok bool) {
	seconds, err := strconv.ParseInt(r.Timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != r.Timestamp || len(r.Signature) != len(version)+1+2*sha256.Size {
		return at, false
	}
	return time.Unix(seconds, 0), true
}
