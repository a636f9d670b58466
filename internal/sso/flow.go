package sso

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"holdpoint/internal/seal"
)

// Lasts is how long somebody may take at the provider.
const Lasts = 10 * time.Minute

// Flow is a sign-in that is under way at a provider. Its browser holds it, sealed, in a
// cookie:
//
//	base64url(box.Data) "." base64url(box.Key)
type Flow struct {
	Provider string    `json:"p"`
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of PKCE
	Next     string    `json:"to,omitempty"`
	Begun    time.Time `json:"at"`
	// PersonID is whose session is to be proved anew; "" for a sign-in.
	PersonID string `json:"who,omitempty"`
}

// StateHash is by what it is remembered that the flow has come back.
func (f Flow) StateHash() []byte {
	sum := sha256.Sum256([]byte(f.State))
	return sum[:]
}

// Until is when the flow is over.
func (f Flow) Until() time.Time { return f.Begun.Add(Lasts) }

// is reports whether the state of an answer is the flow's.
func (f Flow) is(state string) bool {
	return f.State != "" && subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) == 1
}

const flowID = "single sign-on"

func (f Flow) seal(s *seal.Sealer) (string, error) {
	plain, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	box, err := s.Seal(flowID, plain)
	encode := base64.RawURLEncoding.EncodeToString
	return encode(box.Data) + "." + encode(box.Key), err
}

// openFlow reads a cookie; what is none of ours is no flow.
func openFlow(s *seal.Sealer, cookie string) (f Flow, ok bool) {
	data, key, _ := strings.Cut(cookie, ".")
	var box seal.Box
	var err error
	decode := base64.RawURLEncoding.Strict().DecodeString
	if box.Data, err = decode(data); err == nil {
		box.Key, err = decode(key)
	}
	if err != nil || len(box.Key) == 0 {
		return f, false
	}
	plain, err := s.Open(flowID, box)
	return f, err == nil && json.Unmarshal(plain, &f) == nil
}
