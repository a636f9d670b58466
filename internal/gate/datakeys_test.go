package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// changeDataKey has a fresh data key seal, beside the former ones.
func (h *harness) changeDataKey() {
	h.t.Helper()
	fresh, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		h.t.Fatal(err)
	}
	keys, err := h.db.Sealer.Keys().Add(fresh)
	if err == nil {
		ids := keys.IDs()
		keys, err = keys.SealWith(ids[len(ids)-1])
	}
	if err == nil {
		err = h.db.Sealer.Use(keys)
	}
	if err == nil {
		err = h.Store.DataKeys.Keep(context.Background(), keys.IDs()[0], h.adminEvent("DATA_KEY_ADDED", nil))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// idle makes it long ago that any data key but the one that seals was used.
func (h *harness) idle() {
	h.db.Exec(`UPDATE data_keys SET sealed_at = sealed_at - interval '1 hour' WHERE id <> $1`, h.db.Sealer.Keys().IDs()[0])
}

// rewrapAll goes through everything once.
func rewrapAll(ctx context.Context, s *store.Store) (done int, err error) {
	parts, err := s.DataKeys.Parts(ctx)
	if err != nil {
		return 0, err
	}
	for _, part := range parts {
		for from := int64(0); from < part.Blocks; from += 2 {
			n, broken, err := s.DataKeys.Rewrap(ctx, part, from, from+2)
			if done += n; err != nil {
				return done, err
			}
			if broken != nil {
				return done, fmt.Errorf("%v cannot be opened", broken)
			}
		}
	}
	return done, nil
}

// sealEverything makes a record of each kind that is sealed, and returns what reads them
// all again, as the doors do.
func (h *harness) sealEverything(round string) (read func() error) {
	h.t.Helper()
	ctx := context.Background()
	must := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	a := h.open(another(deferred))
	answers, err := h.db.Sealer.Seal(a.ID+"/answers", []byte(`{"why":"canary"}`))
	must(err)
	h.db.Exec(`UPDATE approvals SET answers = $2, answers_key = $3 WHERE id = $1`, a.ID, answers.Data, answers.Key)
	edited, err := h.edit("ada", h.get(a.ID).Approval, `{"amount":17}`)
	must(err)
	_, err = h.shows("ben", edited, "card")
	must(err)
	must(h.Drafts.Keep(ctx, h.people["ada"], a.ID, "votes", url.Values{"comment": {"a draft"}}))
	secret := []byte("secret of " + round)
	endpoint, subscription := store.NewID("end"), store.NewID("psh")
	must(h.Store.Endpoints.Create(ctx, store.Endpoint{ID: endpoint, Kind: "webhook", Name: round, Settings: []byte(`{}`), CreatedBy: "test"}, secret, false, nil, h.adminEvent("ENDPOINT_ADDED", nil)))
	must(h.Store.Push.Create(ctx, store.PushSubscription{ID: subscription, PersonID: h.people["ada"].ID, Name: "phone", PushSecret: store.PushSecret{Endpoint: "https://push.example.com/" + round, P256DH: "x", Auth: "y"}}, func([]string) engine.Event { return h.adminEvent("PUSH_ADDED", nil) }))
	who := h.people[map[string]string{"first": "cleo", "second": "dina"}[round]]
	must(h.Store.Factors.PutTOTP(ctx, who.ID, secret))
	h.db.Exec(`UPDATE totp_factors SET confirmed_at = clock_timestamp() WHERE person_id = $1`, who.ID)
	granted := h.open(payment(50))
	g := h.grant("ada", granted, upTo(100), 10)
	once := answered[gate.Checked]("kept "+round, access.Reply{Status: 200, Body: []byte("kept canary")})
	_, err = h.PreToolCheck(ctx, h.agent, parse(h.t, another(asked)), gate.Request{Separate: true}, once)
	must(err)
	return func() error {
		card := h.card("cleo", a.ID)
		if string(card.Arguments) != `{"amount":17}` || !strings.Contains(string(card.Former), "canary-argument") {
			return fmt.Errorf("the card has %s, before %s", card.Arguments, card.Former)
		}
		if kept, err := h.Drafts.OfApproval(ctx, h.people["ada"], a.ID); err != nil || kept["votes"].Get("comment") != "a draft" {
			return fmt.Errorf("the draft is %v, %w", kept, err)
		}
		if got, err := h.Store.Endpoints.Secret(ctx, endpoint); err != nil || string(got) != string(secret) {
			return fmt.Errorf("the endpoint's secret is %s, %w", got, err)
		}
		if got, err := h.Store.Push.Get(ctx, subscription); err != nil || !strings.HasSuffix(got.Endpoint, round) {
			return fmt.Errorf("the subscription is %+v, %w", got, err)
		}
		if got, err := h.Store.Factors.TOTP(ctx, who.ID); err != nil || string(got.Secret) != string(secret) {
			return fmt.Errorf("the second factor is %s, %w", got.Secret, err)
		}
		var kept *store.Replay
		if err := h.Store.Answered(ctx, &store.Request{Credential: "key_agent", Key: "kept " + round, Hash: []byte("kept " + round)}); !errors.As(err, &kept) || string(kept.Reply.Body) != "kept canary" {
			return fmt.Errorf("the kept answer: %w", err)
		}
		if made, _, err := h.Store.Grants.Get(ctx, g.ID); err != nil {
			return err
		} else if _, err := h.db.Sealer.Open(g.ID, made.Sealed); err != nil {
			return err
		}
		return nil
	}
}

// TestDataKeyIsChanged: what former data keys have sealed is taken over to a new one, of
// every kind and also of what has ended, and nothing else of it changes; then the former
// one is not needed any more.
func TestDataKeyIsChanged(t *testing.T) {
	ctx := context.Background()
	h := grantingHarness(t, routing(time.Hour, 1))
	conn, owner := h.db.Connect(h.db.URL), h.db.Owner()
	if err := h.Store.DataKeys.Keep(ctx, h.db.Sealer.Keys().IDs()[0], h.adminEvent("DATA_KEY_ADDED", nil)); err != nil {
		t.Fatal(err)
	}
	first := h.sealEverything("first")
	ended, erased := h.open(another(asked)), h.open(another(asked))
	for _, a := range []approval.Approval{ended, erased} {
		if err := h.vote("ada", a, false); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
	}
	h.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	if _, err := h.Retention.Erase(ctx, access.PersonInitiator(h.people["owner"], "console", "r1"), admin.EraseRequest{ApprovalID: erased.ID, Reason: "request"}, nil); err != nil {
		t.Fatal(err)
	}
	h.changeDataKey()
	second := h.sealEverything("second")
	state := func() (text string) {
		t.Helper()
		err := conn.QueryRow(ctx, `SELECT (SELECT string_agg(md5((to_jsonb(a) - 'sealed_key' - 'answers_key')::text), ',' ORDER BY id) FROM approvals a)
			|| (SELECT string_agg(md5((to_jsonb(c) - 'sealed_key')::text), ',' ORDER BY approval_id, digest) FROM cards c) || (SELECT count(*) || max(seq)::text FROM events)`).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	readable := func(when string) {
		t.Helper()
		for _, read := range []func() error{first, second} {
			if err := read(); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	readable("with both keys")
	// What has ended, and what is confirmed, is sealed anew as well.
	before := state()
	counts, err := h.Store.DataKeys.Count(ctx)
	if err != nil || counts[""] < 10 || counts[h.db.Sealer.Keys().IDs()[0]] < 10 {
		t.Fatalf("%v, %v", counts, err)
	}
	if done, err := rewrapAll(ctx, owner); err != nil || int64(done) != counts[""] {
		t.Fatalf("%d of %d records were sealed anew: %v", done, counts[""], err)
	}
	if done, err := rewrapAll(ctx, owner); err != nil || done != 0 {
		t.Errorf("%d records were sealed anew once more: %v", done, err)
	}
	if state() != before {
		t.Error("something else than the keys has changed")
	}
	readable("taken over")
	if empty, _, err := owner.DataKeys.Emptied(ctx); err != nil || len(empty) != 0 {
		t.Errorf("%v is empty, and somebody may be sealing with it: %v", empty, err)
	}
	h.idle()
	// A key that is yet to seal is not one that has ended.
	waiting, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	three, err := h.db.Sealer.Keys().Add(waiting)
	if err == nil {
		err = h.db.Sealer.Use(three)
	}
	if err != nil {
		t.Fatal(err)
	}
	empty, counts, err := owner.DataKeys.Emptied(ctx)
	if err != nil || len(empty) != 1 || counts[""] != 0 {
		t.Fatalf("%v is empty, %v: %v", empty, counts, err)
	}
	digest := h.db.Sealer.Digest("sha256:00")
	rest, _, err := h.db.Sealer.Keys().Without(empty[0])
	if err == nil {
		err = h.Store.DataKeys.Check(ctx, rest)
	}
	if err == nil {
		err = h.db.Sealer.Use(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	readable("with the new key alone")
	h.db.Runtime() // a process starts
	if h.db.Sealer.Digest("sha256:00") != digest {
		t.Error("the log would name calls by other hashes")
	}
	var gone bool
	if err := conn.QueryRow(ctx, `SELECT sealed_key IS NULL FROM approvals WHERE id = $1`, erased.ID).Scan(&gone); err != nil || !gone {
		t.Errorf("what was erased has come back: %v", err)
	}
}

// TestEverySealedColumnIsKnown holds the columns of records' own keys against the schema.
func TestEverySealedColumnIsKnown(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	parts, err := h.Store.DataKeys.Parts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range parts {
		known[p.Name] = true
	}
	rows, err := h.db.Connect(h.db.URL).Query(ctx, `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type = 'bytea' AND column_name LIKE '%\_key' AND (table_name, column_name) <> ('passkeys', 'public_key')`)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if n++; !known[name] {
			t.Errorf("%s is never sealed anew", name)
		}
	}
	if rows.Err() != nil || n != len(parts) {
		t.Errorf("%d columns, want %d: %v", n, len(parts), rows.Err())
	}
}

// TestDataKeyRemovedTooEarly: a process without a key that something is sealed with does
// not start, takes no such file, and says how many records need it.
func TestDataKeyRemovedTooEarly(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	if err := h.Store.DataKeys.Keep(ctx, h.db.Sealer.Keys().IDs()[0], h.adminEvent("DATA_KEY_ADDED", nil)); err != nil {
		t.Fatal(err)
	}
	former := h.db.Sealer.Keys()
	for range 3 {
		h.open(another(asked))
	}
	h.changeDataKey()
	h.open(another(asked))
	both := h.db.Sealer.Keys()
	fresh, _, err := both.Without(former.IDs()[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys *seal.Keys
		want string
	}{
		"the former is gone":     {fresh, "3 records are sealed with the installation's first data key"},
		"the file was put back":  {former, "1 records are sealed with the data key " + both.IDs()[0]},
		"everything can be read": {both, ""},
	} {
		s, err := store.Open(ctx, store.Config{URL: h.db.RuntimeURL, Sealer: c.keys.Sealer(), MaxConns: 4, Timeout: time.Minute})
		if err == nil {
			s.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestSettledWhereTheKeyIs: a worker that has not read a new data key yet takes nothing for broken that another
// process has sealed with it. What people have approved waits for who has the key, until its deadline.
func TestSettledWhereTheKeyIs(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	behind := *h.settler
	behind.Sealer = h.db.Sealer.Keys().Sealer()
	h.changeDataKey()
	a, b := h.open(deferred), h.open(deferred)
	for _, one := range []approval.Approval{a, b} {
		if err := h.vote("ada", one, true); err != nil {
			t.Fatal(err)
		}
		if r, err := behind.Settle(t.Context(), one.ID); err != nil || r.Over || r.WakeIn <= 0 {
			t.Errorf("without the key: %+v, %v", r, err)
		}
		if got := h.get(one.ID).Approval.Status; got != approval.Pending {
			t.Errorf("without the key: %s", got)
		}
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval.Status; got != approval.Approved {
		t.Errorf("with the key: %s", got)
	}
	h.db.Exec(`SET LOCAL session_replication_role = replica; UPDATE approvals SET expires_at = clock_timestamp()`)
	if r, err := behind.Settle(t.Context(), b.ID); err != nil || !r.Over {
		t.Errorf("past its deadline: %+v, %v", r, err)
	}
	if got := h.get(b.ID).Approval; got.Status != approval.Denied || got.Reasons[0].Code != "recheck_failed" {
		t.Errorf("past its deadline: %s, %v", got.Status, got.Reasons)
	}
}

// TestRewrappingIsTheOwners: the runtime role seals nothing anew, whatever it sets.
func TestRewrappingIsTheOwners(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(another(asked))
	if err := h.vote("ada", a, false); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.changeDataKey()
	if n, err := rewrapAll(ctx, h.Store); err == nil {
		t.Errorf("the runtime role sealed %d records anew", n)
	}
	conn := h.db.Connect(h.db.RuntimeURL)
	if _, err := conn.Exec(ctx, `SET holdpoint.rewrapping = 'on'`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE approvals SET sealed_key = 'x' WHERE id = $1`, `UPDATE approvals SET sealed_key = NULL, sealed = '' WHERE id = $1`,
		`UPDATE approvals SET status = 'approved' WHERE id = $1`,
	} {
		if _, err := conn.Exec(ctx, sql, a.ID); err == nil {
			t.Errorf("%s was let through", sql)
		}
	}
	if _, err := conn.Exec(ctx, `UPDATE data_keys SET emptied_at = clock_timestamp()`); err == nil {
		t.Error("the runtime role says that a data key is empty")
	}
}

// TestBrokenRecordsAreLeft: what no key opens stays as it is, is named, and keeps nothing
// else from being sealed anew.
func TestBrokenRecordsAreLeft(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	good, bad := h.open(another(asked)), h.open(another(asked))
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET sealed_key = decode(repeat('41', 60), 'hex') WHERE id = $1`, bad.ID)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	h.changeDataKey()
	if _, err := rewrapAll(ctx, h.db.Owner()); err == nil || !strings.Contains(err.Error(), bad.ID) || strings.Contains(err.Error(), good.ID) {
		t.Errorf("%v, want %s to be named", err, bad.ID)
	}
	if got := h.card("ada", good.ID); got.Arguments == nil {
		t.Error("the other one cannot be read")
	}
	counts, err := h.Store.DataKeys.Count(ctx)
	if err != nil || counts[""] != 1 || counts[h.db.Sealer.Keys().IDs()[0]] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestDataKeyChangedUnderLoad: two commands seal anew, one of which is cut off again and
// again, while calls come in and are voted on; nothing fails, and nothing is left.
func TestDataKeyChangedUnderLoad(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	h := newHarness(t, routing(time.Hour, 1))
	for range 30 {
		h.open(another(asked))
	}
	h.changeDataKey()
	var load, work sync.WaitGroup
	loaded := make(chan struct{})
	failed := make(chan error, 100)
	for range 4 {
		load.Go(func() {
			for range 12 {
				checked, err := h.PreToolCheck(ctx, h.agent, parse(t, another(asked)), gate.Request{Separate: true}, nil)
				if err == nil {
					err = h.vote("ada", *checked.Approval, true)
				}
				if err == nil {
					_, err = h.settler.Settle(ctx, checked.Approval.ID)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	go func() { load.Wait(); close(loaded) }()
	work.Go(func() {
		for {
			if _, err := rewrapAll(ctx, h.db.Owner()); err != nil {
				failed <- err
				return
			}
			select {
			case <-loaded:
				return
			default:
			}
		}
	})
	other := h.db.Open(h.db.URL)
	work.Go(func() {
		for i := 0; ; i++ {
			cut, cancel := context.WithTimeout(ctx, time.Duration(i%7)*time.Millisecond)
			_, _ = rewrapAll(cut, other) // cut off anywhere
			cancel()
			select {
			case <-loaded:
				return
			case <-ctx.Done():
				return
			default:
			}
		}
	})
	work.Wait()
	load.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if _, err := rewrapAll(ctx, h.db.Owner()); err != nil {
		t.Fatal(err)
	}
	counts, err := h.Store.DataKeys.Count(ctx)
	if err != nil || len(counts) != 1 || counts[h.db.Sealer.Keys().IDs()[0]] < 78 {
		t.Errorf("%v, %v", counts, err)
	}
}
