package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
)

// Registry is everything that is registered, read now.
type Registry interface {
	Snapshot(ctx context.Context) (*registry.Snapshot, error)
}

// by is the person as the one who administers, under a request id of its own.
func by(p engine.Person) access.Initiator {
	return access.PersonInitiator(p, "console", "web_"+rand.Text())
}

// confirmedChange makes sure that a form that revokes or restores says which,
// and that the second step was taken.
func confirmedChange(form url.Values) error {
	if to := form.Get("to"); to != "revoked" && to != "restored" {
		return invalid("incomplete_form", "The form said neither revoke nor restore.")
	}
	if form.Get("confirm") != "yes" {
		return invalid("not_confirmed", "Nothing was changed: tick the box to confirm it.")
	}
	return nil
}

// missingIsChanged words the refusal of a change that somebody else has made meanwhile.
func missingIsChanged(err error) error {
	var refusal *access.Refusal
	if errors.As(err, &refusal) && refusal.Kind == access.NotFound {
		return errChanged
	}
	return err
}

// fingerprint names a registered value, so that a form that was made of an older one
// can be told.
func fingerprint(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:12])
}
