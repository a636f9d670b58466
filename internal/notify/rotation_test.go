package notify_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
)

func TestRotationOverlaps(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	id, old := h.add(webhook(r, notify.Settings{}))
	next, err := h.Endpoints.RotateSecret(context.Background(), h.by, id, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(want map[string]bool) {
		t.Helper()
		h.open()
		h.deliverAll()
		p := r.take()[0]
		for secret, good := range want {
			if err := channel.Verify([]string{secret}, p.header, p.body, time.Now()); (err == nil) != good {
				t.Errorf("a secret that should verify, %t: %v", good, err)
			}
		}
	}
	verify(map[string]bool{old: true, next: true})
	last, err := h.Endpoints.RotateSecret(context.Background(), h.by, id, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	verify(map[string]bool{old: false, next: false, last: true})
	if rows := h.everything(); strings.Contains(rows, last) || strings.Contains(rows, "hidden-path") {
		t.Error("a secret is in the rows in the clear")
	}
}

// TestRotationsAtOnce: of two people who change a secret at once, and of those that it had
// before within its overlap, nobody is cut off.
func TestRotationsAtOnce(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	id, old := h.add(webhook(r, notify.Settings{}))
	var both sync.WaitGroup
	secrets := make([]string, 2)
	for i := range secrets {
		both.Go(func() {
			var err error
			if secrets[i], err = h.Endpoints.RotateSecret(context.Background(), h.by, id, "", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	h.open()
	h.deliverAll()
	p := r.take()[0]
	for i, secret := range append(secrets, old) {
		if err := channel.Verify([]string{secret}, p.header, p.body, time.Now()); err != nil {
			t.Errorf("secret %d: %v", i, err)
		}
	}
}
