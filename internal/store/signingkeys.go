package store

import (
	"context"
	"crypto/hmac"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// SigningKeyID is the length of a signing key's id: a SHA-256 in base64url.
const SigningKeyID = 43

// SigningKey is the public half of a key that tokens are signed with.
type SigningKey struct {
	ID     string
	Public []byte
	// For is how long it has been published, and SeenAt when a process last had it.
	For                 time.Duration
	PublishedAt, SeenAt time.Time
}

// seenEvery is how often a key is said to be in use.
const seenEvery = 5 * time.Minute

func (s Keys) signingKeyMac(id string, public []byte) []byte {
	return s.sealer.Row("signing key", id, string(public))
}

// PublishSigningKey makes a key known to every process. One that is known, and was seen
// within kept, leaves no event; it is now in use.
func (s Keys) PublishSigningKey(ctx context.Context, id string, public []byte, kept time.Duration, e engine.Event) error {
	mac := s.signingKeyMac(id, public)
	if known, err := s.seeSigningKey(ctx, id, public, mac, kept); err != nil || known {
		return err
	}
	err := s.admin(ctx, e, `INSERT INTO signing_keys AS k (kid, public, mac) VALUES ($1, $2, $3)
		ON CONFLICT (kid) DO UPDATE SET public = excluded.public, mac = excluded.mac, published_at = clock_timestamp(), seen_at = clock_timestamp()
		WHERE (k.public, k.mac) IS DISTINCT FROM (excluded.public, excluded.mac) OR k.seen_at < clock_timestamp() - make_interval(secs => $4)`,
		id, public, mac, kept.Seconds())
	if errors.Is(err, ErrNotFound) {
		return nil // another process was first
	}
	return err
}

// seeSigningKey reports whether a key is published, and notes that it is in use.
func (s Keys) seeSigningKey(ctx context.Context, id string, public, mac []byte, kept time.Duration) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var noted bool
	err = s.pool.QueryRow(ctx, `SELECT seen_at > clock_timestamp() - make_interval(secs => $5) FROM signing_keys
		WHERE kid = $1 AND public = $2 AND mac = $3 AND seen_at >= clock_timestamp() - make_interval(secs => $4)`,
		id, public, mac, kept.Seconds(), seenEvery.Seconds()).Scan(&noted)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && !noted {
		_, err = s.pool.Exec(ctx, `UPDATE signing_keys SET seen_at = clock_timestamp() WHERE kid = $1`, id)
	}
	return err == nil, translate(err)
}

// SigningKeys lists the keys that some process has had within kept, the newest first.
// What the programs have not written is left out.
func (s Keys) SigningKeys(ctx context.Context, kept time.Duration) ([]SigningKey, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT kid, public, mac, published_at, seen_at, extract(epoch FROM clock_timestamp() - published_at)::float8 FROM signing_keys
		WHERE seen_at >= clock_timestamp() - make_interval(secs => $1) ORDER BY published_at DESC, kid`, kept.Seconds())
	if err != nil {
		return nil, translate(err)
	}
	var list []SigningKey
	var k SigningKey
	var mac []byte
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&k.ID, &k.Public, &mac, &k.PublishedAt, &k.SeenAt, &age}, func() error {
		if hmac.Equal(mac, s.signingKeyMac(k.ID, k.Public)) {
			k.For = time.Duration(age * float64(time.Second))
			list = append(list, k)
		}
		k.Public, mac = nil, nil // the next row's are their own
		return nil
	})
	return list, translate(err)
}
