package gate_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/token"
	"holdpoint/internal/gate"
)

// ringOf is the ring with one more key in front.
func ringOf(t *testing.T, former token.Ring) token.Ring {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	ring, err := former.Add(seed)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// beside is a further gate on the harness's database, with keys of its own.
func (h *harness) beside(ring token.Ring, delay time.Duration) *gate.Gate {
	h.t.Helper()
	cfg := h.config
	cfg.Store, cfg.Ring, cfg.KeyDelay = h.db.Runtime(), ring, delay
	g, err := gate.New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := g.TokenKeys.Use(context.Background(), ring); err != nil {
		h.t.Fatal(err)
	}
	return g
}

// token is what a gate signs for a newly approved call.
func (h *harness) token(g *gate.Gate) string {
	h.t.Helper()
	a := h.open(another(asked))
	if err := h.vote("ada", a, true); err != nil {
		h.t.Fatal(err)
	}
	h.settle(a.ID)
	v, err := g.Queries.ForAgent(context.Background(), h.agent, a.ID)
	if err != nil || v.Token == "" {
		h.t.Fatalf("no token: %v", err)
	}
	return v.Token
}

func kid(t *testing.T, raw string) string {
	t.Helper()
	head, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[0])
	var h struct{ Kid string }
	if err == nil {
		err = json.Unmarshal(head, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h.Kid
}

func published(t *testing.T, g *gate.Gate) []string {
	t.Helper()
	data, err := g.Queries.JWKS(context.Background())
	var set struct{ Keys []struct{ Kid, D string } }
	if err == nil {
		err = json.Unmarshal(data, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, k := range set.Keys {
		if k.D != "" {
			t.Error("a private key is published")
		}
		ids = append(ids, k.Kid)
	}
	return ids
}

// opens reports whether a gate takes a token for one of ours: what is not is invalid,
// and what is is refused here for the lease.
func (h *harness) opens(g *gate.Gate, raw string) bool {
	h.t.Helper()
	_, err := g.Redeem(context.Background(), h.agent, gate.RedeemRequest{Token: raw, Tool: "pay", Arguments: parse(h.t, args), Lease: -1}, nil)
	switch c := code(err); c {
	case "lease":
		return true
	case "token_invalid":
		return false
	default:
		h.t.Fatalf("%v", err)
		return false
	}
}

// TestGatesWithDifferentKeys: in the midst of a change of keys, and with files that have
// no key in common, each gate takes the other's tokens and publishes the other's keys.
func TestGatesWithDifferentKeys(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	former := ringOf(t, token.Ring{})
	a, b := h.beside(former, 0), h.beside(ringOf(t, former), 0)
	c := h.beside(ringOf(t, token.Ring{}), 0)
	gates := []*gate.Gate{a, b, c}
	for i, signs := range gates {
		raw := h.token(signs)
		for j, opens := range gates {
			if !h.opens(opens, raw) {
				t.Errorf("gate %d refuses the token of gate %d", j, i)
			}
			if !slices.Contains(published(t, opens), kid(t, raw)) {
				t.Errorf("gate %d does not publish the key of gate %d", j, i)
			}
		}
	}
	var told int
	if err := h.db.Connect(h.db.URL).QueryRow(context.Background(), `SELECT count(*) FROM events WHERE position('SIGNING_KEY_ADDED'::bytea IN body) > 0`).Scan(&told); err != nil || told != 3 {
		t.Errorf("the log tells of %d keys, want 3 (%v)", told, err)
	}
}

// TestKeyIsPublishedBeforeItSigns: a new key signs when it has been published for the
// delay; with its file put back, the former signs again and the tokens of both are good.
func TestKeyIsPublishedBeforeItSigns(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	former := ringOf(t, token.Ring{})
	g := h.beside(former, time.Hour)
	old := h.token(g)
	if kid(t, old) != former.IDs()[0] {
		t.Fatal("an only key does not sign at once")
	}
	both := ringOf(t, former)
	if err := g.TokenKeys.Use(ctx, both); err != nil {
		t.Fatal(err)
	}
	if raw := h.token(g); kid(t, raw) != former.IDs()[0] || !slices.Contains(published(t, g), both.IDs()[0]) {
		t.Error("a key signs that is not published long enough, or is not published")
	}
	h.db.Exec(`UPDATE signing_keys SET published_at = published_at - interval '2 hours'`)
	if err := g.TokenKeys.Use(ctx, both); err != nil {
		t.Fatal(err)
	}
	fresh := h.token(g)
	if kid(t, fresh) != both.IDs()[0] || !h.opens(g, old) {
		t.Error("the new key does not sign, or the former does not verify")
	}
	if err := g.TokenKeys.Use(ctx, former); err != nil {
		t.Fatal(err)
	}
	if raw := h.token(g); kid(t, raw) != former.IDs()[0] || !h.opens(g, fresh) {
		t.Error("with the former file, its key does not sign, or the other's tokens are refused")
	}
	// A key that nobody has any more is dropped when its last token is over.
	h.db.Exec(`UPDATE signing_keys SET seen_at = seen_at - interval '26 hours' WHERE kid = $1`, both.IDs()[0])
	if slices.Contains(published(t, g), both.IDs()[0]) || h.opens(h.beside(former, 0), fresh) {
		t.Error("a retired key is still published, or its tokens are good")
	}
	// When it comes back, it is published anew, and waits again.
	if err := g.TokenKeys.Use(ctx, both); err != nil {
		t.Fatal(err)
	}
	if raw := h.token(g); kid(t, raw) != former.IDs()[0] || !slices.Contains(published(t, g), both.IDs()[0]) {
		t.Error("a key that comes back signs at once, or is not published")
	}
}

// TestRevokedKeySignsNoMore: a key that is revoked makes way at once for one that has
// not waited long enough.
func TestRevokedKeySignsNoMore(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	former := ringOf(t, token.Ring{})
	both := ringOf(t, former)
	g := h.beside(former, time.Hour)
	if err := g.TokenKeys.Use(ctx, both); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`INSERT INTO revoked_signing_keys (kid) VALUES ($1)`, former.IDs()[0])
	if ids := published(t, g); slices.Contains(ids, former.IDs()[0]) {
		t.Error("a revoked key is published")
	}
	raw := h.token(g)
	if kid(t, raw) != both.IDs()[0] {
		t.Error("a revoked key signs")
	}
	if err := h.redeem(h.agent, raw, "pay", args); err != nil && code(err) == "token_invalid" {
		t.Error("what the new key has signed is refused by a gate that has not heard of it")
	}
}

// TestKeysAreWrittenByThePrograms: whoever holds the runtime role alone publishes no key.
func TestKeysAreWrittenByThePrograms(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	g := h.beside(ringOf(t, token.Ring{}), 0)
	mine := ringOf(t, token.Ring{})
	public := []byte(mine.Keys()[0].Key)
	conn := h.db.Connect(h.db.RuntimeURL)
	if _, err := conn.Exec(context.Background(), `INSERT INTO signing_keys (kid, public, mac) SELECT $1, $2, mac FROM signing_keys LIMIT 1`, mine.IDs()[0], public); err != nil {
		t.Fatal(err)
	}
	forger, err := gate.New(func() gate.Config { cfg := h.config; cfg.Ring = mine; return cfg }())
	if err != nil {
		t.Fatal(err)
	}
	if h.opens(g, h.token(forger)) || slices.Contains(published(t, g), mine.IDs()[0]) {
		t.Error("a key counts that the programs have not written")
	}
}

// TestKeyFileThatCannotBeRead: the keys of before go on signing, and those of a file that
// is whole again are taken.
func TestKeyFileThatCannotBeRead(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	former := ringOf(t, token.Ring{})
	g := h.beside(former, 0)
	both := ringOf(t, former)
	ctx, cancel := context.WithCancel(context.Background())
	reload, answers := make(chan os.Signal), make(chan func() (*token.Ring, error), 1)
	ended, reads := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		g.TokenKeys.Run(ctx, func() (*token.Ring, error) {
			select {
			case answer := <-answers:
				defer func() { reads <- struct{}{} }()
				return answer()
			default:
				return nil, nil
			}
		}, reload)
	}()
	hup := func(answer func() (*token.Ring, error)) {
		answers <- answer
		reload <- os.Interrupt
		<-reads
		reload <- os.Interrupt // taken when the one before is done with
	}
	hup(func() (*token.Ring, error) { return nil, os.ErrPermission })
	if raw := h.token(g); kid(t, raw) != former.IDs()[0] {
		t.Error("another key signs")
	}
	hup(func() (*token.Ring, error) { return &both, nil })
	if raw := h.token(g); kid(t, raw) != both.IDs()[0] {
		t.Error("the file that is whole again is not taken")
	}
	cancel()
	<-ended
}
