package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// TestDataKeysAreTaken: what was read is taken in the end, whatever happens to the file
// and to the database meanwhile; what was refused for good is taken up when asked for.
func TestDataKeysAreTaken(t *testing.T) {
	keys, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	away, wrong, unread := fmt.Errorf("away: %w", store.ErrUnavailable), errors.New("wrong"), errors.New("unread")
	type look struct {
		fresh   bool
		readErr error
		asked   bool
		takeErr error
		takes   bool
		want    error
	}
	for name, looks := range map[string][]look{
		"the file cannot be read while the database is away": {
			{fresh: true, takeErr: away, takes: true, want: away}, {readErr: unread, want: unread}, {takes: true}, {},
		},
		"refused for good": {
			{fresh: true, takeErr: wrong, takes: true, want: wrong}, {want: wrong}, {readErr: unread, want: unread}, {want: wrong}, {asked: true, takes: true}, {},
		},
		"another file": {{fresh: true, takeErr: wrong, takes: true, want: wrong}, {fresh: true, takes: true}, {asked: true}},
	} {
		taking := &dataKeysTaking{}
		for i, l := range looks {
			taken := false
			taking.read = func() (*seal.Keys, error) {
				if l.fresh {
					return keys, nil
				}
				return nil, l.readErr
			}
			taking.take = func(context.Context, *seal.Keys) error { taken = true; return l.takeErr }
			if err := taking.look(t.Context(), l.asked); !errors.Is(err, l.want) || (err == nil) != (l.want == nil) || taken != l.takes {
				t.Errorf("%s, %d: taken %t, %v, want %t, %v", name, i, taken, err, l.takes, l.want)
			}
		}
	}
}

// TestSealerOfSeveralKeys: commands that read recorded calls open those of every data key in the
// file, also while they are being changed.
func TestSealerOfSeveralKeys(t *testing.T) {
	first, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	box, err := first.Sealer().Seal("apr_a", []byte("what was proposed"))
	if err != nil {
		t.Fatal(err)
	}
	next, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	both, err := first.Add(next)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := both.SealWith(both.IDs()[1])
	if err != nil {
		t.Fatal(err)
	}
	s, err := sealerOf(string(changed.Marshal()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open("apr_a", box); err != nil || string(got) != "what was proposed" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := sealerOf(""); err == nil {
		t.Error("no key is a key")
	}
}
