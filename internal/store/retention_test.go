package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
)

// archive is a database with people and approvals that have ended, and a
// connection of each role.
type archive struct {
	*Store
	t     testing.TB
	owner *pgx.Conn
	url   string
}

const zeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func newArchive(t testing.TB, floor string) *archive {
	t.Helper()
	s, url := open(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	a := &archive{s, t, conn, url}
	a.as(`UPDATE retention_floor SET shortest = $1::interval`, floor)
	for _, name := range []string{"ada", "ben", "eve"} {
		a.as(`INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ($1, $2, $3, $1, 'x', '{r}')`, "usr_"+name, name+"@example.com", "Name of "+name)
	}
	a.as(`INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_1', 'email', 'Mail', '{"to":["reviewers"]}', 'x')`)
	return a
}

// as runs a statement as the owner.
func (a *archive) as(sql string, args ...any) {
	a.t.Helper()
	if _, err := a.owner.Exec(a.t.Context(), sql, args...); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
}

// text is the one value that a query as the owner answers.
func (a *archive) text(sql string, args ...any) string {
	a.t.Helper()
	var text *string
	if err := a.owner.QueryRow(a.t.Context(), sql, args...).Scan(&text); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
	if text == nil {
		return "NULL"
	}
	return *text
}

func human(id string) engine.Actor {
	return engine.Actor{Kind: engine.HumanActor, ID: id, Channel: "api"}
}

// circumstances have something in every field.
var circumstances = approval.Circumstances{Session: "session of Ada", Preconditions: map[string]string{"etag": "17"}}

// ended is an approval in which everything was said that can be, and how it ended.
func (a *archive) ended(status approval.Status, more ...func(c *Change)) string {
	a.t.Helper()
	id := NewID("apr")
	o := opening(id, time.Hour)
	o.Circumstances = circumstances
	o.Call.Digest = "sha256:" + strings.Repeat("7", 64)
	if _, err := a.Submit(a.t.Context(), Submission{Event: event(id), Opening: o}); err != nil {
		a.t.Fatal(err)
	}
	a.as(`INSERT INTO card_views (approval_id, person_id, digest) VALUES ($1, 'usr_ada', $2), ($1, 'usr_ada', 'another')`, id, o.Call.Digest)
	a.as(`INSERT INTO notifications (id, endpoint_id, recipient, approval_id, tell, body) VALUES ($1, 'end_1', 'ada@example.com', $2, 'opened', '{"Reason":"private"}')`, NewID("ntf"), id)
	request := &Request{Credential: "key_1", Key: id, Hash: []byte("r")}
	err := a.Approvals.Change(a.t.Context(), id, request, func(c *Change) error {
		c.SaveReply(Reply{Status: 200, Header: map[string]string{}, Body: []byte("private")})
		for _, f := range []approval.Fact{
			{Kind: approval.Question, Actor: human("usr_ada"), Comment: "why private?"},
			{Kind: approval.Information, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}, Comment: "because private"},
			{Kind: approval.Claim, Actor: human("usr_ben"), Details: approval.Details{Ticket: &approval.Ticket{System: "s", Ref: "R-1", Title: "private", State: "open"}, Digest: "sha256:private", Changed: []string{"a"}}},
			{Kind: approval.Vote, Actor: human("usr_ada"), Yes: status == approval.Approved, Denial: map[bool]approval.Denial{false: approval.Never}[status == approval.Approved], Comment: "private " + id, Details: approval.Details{Constraints: json.RawMessage(`{"to":"private ` + id + `"}`)}},
		} {
			if err := c.AddFact(f); err != nil {
				return err
			}
		}
		if err := c.Answered(seal.Box{Data: []byte("private"), Key: []byte("k")}); err != nil {
			return err
		}
		jti := ""
		if status == approval.Approved {
			jti = NewID("tok")
		}
		if err := c.Settle(status, []engine.Reason{}, jti, time.Nanosecond, json.RawMessage(`{"to":"private `+id+`"}`)); err != nil {
			return err
		}
		for _, do := range more {
			do(c)
		}
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

// must is what a call answers that has to work: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (a *archive) erase(e Erasure) error {
	e.By, e.EventID = "tester", uuid.NewString()
	e.Reason = cmp.Or(e.Reason, "asked")
	e.Covers = cmp.Or(e.Covers, CoversApproval)
	_, err := a.Retention.Erase(a.t.Context(), e, "admin", nil, tell)
	return err
}

func tell(e Erasure) (engine.Event, error) {
	payload, err := json.Marshal(e.Parts)
	return engine.Event{ID: e.EventID, Type: engine.Erased, Outcome: engine.Allow, ApprovalID: map[bool]string{true: e.Subject}[e.Covers == CoversApproval], Reasons: []engine.Reason{}, SafePayload: payload}, err
}

func (a *archive) hold(covers, subject string) string {
	a.t.Helper()
	h := Hold{ID: NewID("hold"), Covers: covers, Subject: subject, Reason: "case", By: "tester"}
	e := event("")
	e.Type = engine.Held
	if err := a.Retention.PlaceHold(a.t.Context(), h, nil, e); err != nil {
		a.t.Fatal(err)
	}
	return h.ID
}

func (a *archive) release(id string) {
	a.t.Helper()
	e := event("")
	e.Type = engine.Held
	if err := a.Retention.ReleaseHold(a.t.Context(), id, "tester", nil, e); err != nil {
		a.t.Fatal(err)
	}
}

// everything is all that erasures touch, as one text.
func (a *archive) everything() string {
	a.t.Helper()
	return a.text(`SELECT concat_ws(E'\n', (SELECT string_agg(x::text, E'\n' ORDER BY id) FROM approvals x), (SELECT string_agg(x::text, E'\n' ORDER BY seq) FROM facts x), (SELECT string_agg(x::text, E'\n' ORDER BY jti) FROM tokens x),
		(SELECT string_agg(x::text, E'\n' ORDER BY approval_id) FROM reconciliations x), (SELECT string_agg(x::text, E'\n' ORDER BY approval_id) FROM afterwards x),
		(SELECT string_agg(x::text, E'\n' ORDER BY id) FROM notifications x), (SELECT string_agg(x::text, E'\n' ORDER BY key) FROM idempotency x),
		(SELECT string_agg(x::text, E'\n' ORDER BY id) FROM people x), (SELECT string_agg(x::text, E'\n' ORDER BY id) FROM standing_grants x),
		(SELECT string_agg(x::text, E'\n' ORDER BY id) FROM delegations x), (SELECT string_agg(x::text, E'\n' ORDER BY approval_id, person_id, digest) FROM card_views x),
		(SELECT string_agg(x::text, E'\n' ORDER BY id) FROM erasures x))`)
}

func TestEraseApproval(t *testing.T) {
	a := newArchive(t, "0")
	id, other := a.ended(approval.Denied), a.ended(approval.Denied)
	before, err := a.Approvals.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before.Approval.Circumstances, circumstances) {
		t.Errorf("%+v was kept of %+v", before.Approval.Circumstances, circumstances)
	}
	if err := a.erase(Erasure{Subject: id, Reason: "request 1"}); err != nil {
		t.Fatal(err)
	}
	after, err := a.Approvals.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if all := a.everything(); strings.Contains(all, id+",") && strings.Contains(strings.ReplaceAll(all, other, ""), "private "+id) {
		t.Errorf("words are left in\n%s", all)
	}
	if after.Approval.ErasedAt.IsZero() || after.Sealed.Key != nil || len(after.Sealed.Data) != 0 || after.Answers.Key != nil || after.Answers.Data != nil || after.Size != 0 ||
		after.Approval.Call.Digest != zeroDigest {
		t.Errorf("it is still there: %+v", after)
	}
	for i, left := range reflect.ValueOf(after.Approval.Circumstances).Fields() {
		if reflect.ValueOf(circumstances).FieldByIndex(i.Index).IsZero() {
			t.Errorf("no approval of this test has a %s", i.Name)
		}
		if left.Len() > 0 {
			t.Errorf("%s is still there: %v", i.Name, left)
		}
	}
	if after.Approval.Revision <= before.Approval.Revision {
		t.Error("who waits is not told")
	}
	// All that the state machine and the verifier look at is as it was.
	for i := range before.Approval.Facts {
		want, got := before.Approval.Facts[i], after.Approval.Facts[i]
		if want.Comment != "" && got.Comment != "[erased]" || want.Comment == "" && got.Comment != "" {
			t.Errorf("fact %d says %q, was %q", i, got.Comment, want.Comment)
		}
		want.Comment, got.Comment, want.Details.Digest, want.Details.Salt, want.Details.Constraints = "", "", "", "", nil
		if want.Details.Ticket != nil {
			want.Details.Ticket.Title = ""
		}
		if wanted, had := mustJSON(t, want), mustJSON(t, got); wanted != had {
			t.Errorf("fact %d: got %+v, want %+v", i, got, want)
		}
	}
	if fmt.Sprint(after.Approval.State.Status, after.Approval.Reasons, after.Approval.Final) != fmt.Sprint(before.Approval.State.Status, before.Approval.Reasons, before.Approval.Final) {
		t.Errorf("it ended otherwise: %+v", after.Approval)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(status || ' ' || body::text || recipient || last_error, ',') FROM notifications WHERE approval_id = $1`: `dead {}erased`,
		`SELECT string_agg(person_id || digest, ',') FROM card_views WHERE approval_id = $1`:                                       "usr_ada" + zeroDigest,
		`SELECT (body_key IS NULL)::text || status FROM idempotency WHERE approval_id = $1`:                                        "true410",
		`SELECT rule || reason || erased_by || array_to_string(parts, ' ') FROM erasures WHERE subject = $1`:                       "requestrequest 1testerarguments answers comments notifications kept_answers names",
		`SELECT convert_from(v.body, 'UTF8')::jsonb->>'type' FROM erasures e JOIN events v USING (event_id) WHERE e.subject = $1`:  "erasure",
	} {
		if got := a.text(sql, id); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
	var replay *Replay
	err = a.Answered(t.Context(), &Request{Credential: "key_1", Key: id, Hash: []byte("r")})
	if !errors.As(err, &replay) || replay.Reply.Status != 410 || !strings.Contains(string(replay.Reply.Body), `"code":"erased"`) {
		t.Errorf("a repetition: %v", err)
	}
	if got, err := a.Approvals.Get(t.Context(), other); err != nil || got.Approval.Call.Digest == zeroDigest || got.Approval.Facts[3].Comment != "private "+other {
		t.Errorf("another one was erased: %+v, %v", got, err)
	}
}

// TestEraseConstraints: what reviewers tightened is said of the call, and goes with
// it; nothing else can take it away.
func TestEraseConstraints(t *testing.T) {
	a := newArchive(t, "0")
	id := a.ended(approval.Approved)
	if code := refusedAs(t, a.owner, `UPDATE tokens SET constraints = NULL WHERE approval_id = '`+id+`'`); code != "23514" {
		t.Errorf("without an erasure: %q", code)
	}
	if err := a.erase(Erasure{Subject: id}); err != nil {
		t.Fatal(err)
	}
	if all := a.everything(); strings.Contains(all, "private") {
		t.Errorf("words are left in\n%s", all)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	return string(must(json.Marshal(v))(t))
}

// TestErasedReplays: a question and an emergency ask for words. Taken away, they
// still count.
func TestErasedReplays(t *testing.T) {
	a := newArchive(t, "0")
	id := a.ended(approval.Denied)
	before := must(a.Approvals.Get(t.Context(), id))(t)
	want := approval.Advance(before.Approval.Plan, before.Approval.Facts, before.Now)
	if err := a.erase(Erasure{Subject: id}); err != nil {
		t.Fatal(err)
	}
	after := must(a.Approvals.Get(t.Context(), id))(t)
	got := approval.Advance(after.Approval.Plan, after.Approval.Facts, before.Now)
	got.Decisive.Comment, want.Decisive.Comment, want.Decisive.Details.Salt, want.Decisive.Details.Constraints = "", "", "", nil
	if want.Status != approval.Denied || fmt.Sprintf("%+v", got.Requirements) != fmt.Sprintf("%+v", want.Requirements) || got.Status != want.Status || !got.At.Equal(want.At) || fmt.Sprint(*got.Decisive) != fmt.Sprint(*want.Decisive) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEraseRefuses(t *testing.T) {
	a := newArchive(t, "0")
	spend := func(e approval.Execution) func(*Change) {
		return func(c *Change) {
			if err := errors.Join(c.Redeem("key_1", time.Hour), c.Executed(e)); err != nil {
				t.Fatal(err)
			}
		}
	}
	running := a.ended(approval.Approved, func(c *Change) {
		if err := c.Redeem("key_1", time.Hour); err != nil {
			t.Fatal(err)
		}
	})
	spendable := a.ended(approval.Approved)
	a.as(`ALTER TABLE tokens DISABLE TRIGGER tokens_guard`)
	a.as(`UPDATE tokens SET valid_until = now() + interval '1 hour' WHERE approval_id = $1`, spendable)
	a.as(`ALTER TABLE tokens ENABLE TRIGGER tokens_guard`)
	owed, granted, held, gone := a.ended(approval.Approved, spend(approval.Succeeded)), a.ended(approval.Denied), a.ended(approval.Denied), a.ended(approval.Denied)
	a.as(`INSERT INTO afterwards (approval_id) VALUES ($1)`, owed)
	a.as(`INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at)
		VALUES ('gra_1', 'usr_ada', 'bot', 't', '', 'x', 'y', 'private', $1, 1, now() + interval '1 hour')`, granted)
	a.hold(CoversApproval, held)
	if err := a.erase(Erasure{Subject: gone}); err != nil {
		t.Fatal(err)
	}
	before := a.everything()
	for id, want := range map[string]string{
		a.mustOpen(t, time.Hour): "pending", running: "running", a.ended(approval.Approved, spend(approval.Unknown)): "unknown", spendable: "spendable",
		owed: "owed", granted: "granted", held: "held", gone: "erased", NewID("apr"): "missing",
	} {
		before = a.everything()
		var kept *NotErasable
		if err := a.erase(Erasure{Subject: id}); !errors.As(err, &kept) || kept.Why != want {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if a.everything() != before {
		t.Error("something was changed all the same")
	}
	// Below the floor, whatever else.
	fresh := a.ended(approval.Denied)
	a.as(`UPDATE retention_floor SET shortest = '72 hours'`)
	var kept *NotErasable
	if err := a.erase(Erasure{Subject: fresh}); !errors.As(err, &kept) || kept.Why != "recent" {
		t.Errorf("below the floor: %v", err)
	}
	a.as(`UPDATE retention_floor SET shortest = '0'`)
	// What is reconciled, reviewed and revoked can go.
	a.as(`UPDATE standing_grants SET revoked_at = now(), revoked_by = 'x' WHERE id = 'gra_1'`)
	if err := a.erase(Erasure{Subject: granted}); err != nil {
		t.Error(err)
	}
	if got := a.text(`SELECT (sealed_key IS NULL)::text || length(sealed) || reason FROM standing_grants`); got != "true0[erased]" {
		t.Errorf("the grant's matchers are left: %s", got)
	}
	a.as(`UPDATE afterwards SET person_id = 'usr_ben', justified = true, comment = 'private' WHERE approval_id = $1`, owed)
	if err := a.erase(Erasure{Subject: owed}); err != nil {
		t.Error(err)
	}
	if got := a.text(`SELECT comment || justified FROM afterwards WHERE approval_id = $1`, owed); got != "[erased]true" {
		t.Errorf("said afterwards: %s", got)
	}
}

func TestHoldsCover(t *testing.T) {
	a := newArchive(t, "0")
	id := a.ended(approval.Denied)
	a.as(`INSERT INTO people (id, email, name, identity, password_hash) VALUES ('usr_ada2', 'ada2@example.com', 'Ada', 'usr_ada', 'x')`)
	for _, h := range [][2]string{{CoversApproval, id}, {CoversAgent, "bot"}, {CoversPerson, "usr_ada"}, {CoversPerson, "usr_ada2"}, {CoversPerson, "usr_ben"}, {CoversEverything, ""}} {
		hold := a.hold(h[0], h[1])
		var kept *NotErasable
		if err := a.erase(Erasure{Subject: id}); !errors.As(err, &kept) || kept.Why != "held" {
			t.Errorf("%v: got %v", h, err)
		}
		if err := a.erase(Erasure{Covers: CoversPerson, Subject: "usr_ada"}); !errors.As(err, &kept) || kept.Why != "held" {
			t.Errorf("%v, the person: got %v", h, err)
		}
		a.release(hold)
		if err := a.Retention.ReleaseHold(t.Context(), hold, "again", nil, event("")); !errors.Is(err, ErrNotFound) {
			t.Errorf("released twice: %v", err)
		}
	}
	a.hold(CoversPerson, "usr_eve")
	if err := a.erase(Erasure{Subject: id}); err != nil {
		t.Errorf("who has nothing to do with it: %v", err)
	}
	for _, h := range [][2]string{{CoversApproval, NewID("apr")}, {CoversAgent, "nobody"}, {CoversPerson, "usr_nobody"}} {
		var kept *NotErasable
		if err := a.Retention.PlaceHold(t.Context(), Hold{ID: NewID("hold"), Covers: h[0], Subject: h[1], Reason: "x", By: "x"}, nil, event("")); !errors.As(err, &kept) || kept.Why != "missing" {
			t.Errorf("%v: got %v", h, err)
		}
	}
}

func TestErasePerson(t *testing.T) {
	a := newArchive(t, "0")
	id := a.ended(approval.Denied)
	a.as(`INSERT INTO sessions (id_hash, person_id, expires_at) VALUES (sha256('x'), 'usr_ada', now() + interval '1 h')`)
	a.as(`INSERT INTO totp_factors (person_id, secret, secret_key) VALUES ('usr_ada', 'x', 'y')`)
	a.as(`INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) VALUES ('s', 'usr_ada', now(), now() + interval '1 h', 'x')`)
	a.as(`INSERT INTO delegations (id, person_id, deputy_id, from_at, until_at, reason, created_by) VALUES
		('dlg_1', 'usr_ada', 'usr_ben', now(), now() + interval '1 h', 'private', 'usr_ada'), ('dlg_2', 'usr_ben', 'usr_eve', now(), now() + interval '1 h', 'kept', 'usr_ben')`)
	person := Erasure{Covers: CoversPerson, Subject: "usr_ada"}
	refused := func(want string) {
		t.Helper()
		before := a.everything()
		var kept *NotErasable
		if err := a.erase(person); !errors.As(err, &kept) || kept.Why != want {
			t.Errorf("%s: got %v", want, err)
		}
		if a.everything() != before {
			t.Errorf("%s: something was changed", want)
		}
	}
	// The last administrator: an account without a password is none.
	a.as(`UPDATE people SET roles = '{admin}' WHERE id = 'usr_ada'`)
	a.as(`INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ('usr_invited', 'invited@example.com', 'i', 'usr_invited', $1, '{admin}')`, NoPassword)
	refused(LastAdministrator)
	a.as(`UPDATE people SET password_hash = 'set' WHERE id = 'usr_invited'`)
	a.as(`INSERT INTO idempotency (credential, key, person_id, request_hmac, status, header, body) VALUES ('usr_ben', 'k1', 'usr_ada', 'h', 201, '{}', 'ada'), ('usr_ben', 'k2', 'usr_ben', 'h', 201, '{}', 'ben')`)
	a.as(`UPDATE agents SET owner_id = 'usr_ada'`)
	refused("agents")
	a.as(`UPDATE agents SET owner_id = NULL`)
	a.as(`UPDATE endpoints SET settings = '{"to":["ada@example.com"]}'`)
	refused("endpoint")
	a.as(`UPDATE endpoints SET settings = '{"to":["reviewers"]}'`)
	waiting := a.mustOpen(t, time.Hour)
	err := a.Approvals.Change(t.Context(), waiting, nil, func(c *Change) error {
		return c.AddFact(approval.Fact{Kind: approval.Claim, Actor: human("usr_ada")})
	})
	if err != nil {
		t.Fatal(err)
	}
	refused("pending")
	if err := a.Approvals.Change(t.Context(), waiting, nil, func(c *Change) error {
		return c.Settle(approval.Expired, []engine.Reason{}, "", 0, nil)
	}); err != nil {
		t.Fatal(err)
	}
	a.as(`UPDATE retention_floor SET shortest = '1 hour'`)
	refused("recent")
	a.as(`UPDATE retention_floor SET shortest = '0'`)
	// What was written about a call that others decide, and not sent.
	a.as(`INSERT INTO drafts (approval_id, person_id, form, sealed, sealed_key) SELECT $1, id, 'votes', 's', 'k' FROM people WHERE id IN ('usr_ada', 'usr_ben')`, a.mustOpen(t, time.Hour))
	a.as(`INSERT INTO inbox_views (id, person_id, name, query) VALUES ('view_1', 'usr_ada', 'private', 'q=x'), ('view_2', 'usr_ben', 'kept', 'q=x')`)
	a.as(`INSERT INTO snoozes (person_id, approval_id, until) SELECT p.id, $1, clock_timestamp() FROM people p WHERE p.id IN ('usr_ada', 'usr_ben')`, a.mustOpen(t, time.Hour))
	if err := a.erase(person); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(status::text, ',' ORDER BY key) FROM idempotency WHERE key IN ('k1', 'k2')`:                                            "410,201",
		`SELECT string_agg(person_id, ',') FROM snoozes`:                                                                                          "usr_ben",
		`SELECT string_agg(name, ',') FROM inbox_views`:                                                                                           "kept",
		`SELECT string_agg(person_id, ',') FROM drafts`:                                                                                           "usr_ben",
		`SELECT name || ',' || email || ',' || identity || (disabled_at IS NOT NULL) || (erased_at IS NOT NULL) FROM people WHERE id = 'usr_ada'`: "erased usr_ada,erased usr_ada,usr_adatruetrue",
		`SELECT (SELECT count(*) FROM sessions) || ',' || (SELECT count(*) FROM totp_factors) || ',' || (SELECT count(*) FROM on_call)`:           "0,0,0",
		`SELECT string_agg(reason || (revoked_at IS NOT NULL), ',' ORDER BY id) FROM delegations`:                                                 "[erased]true,keptfalse",
		`SELECT string_agg(actor_id || ':' || comment, ',' ORDER BY seq) FROM facts WHERE comment <> ''`:                                          "usr_ada:[erased],bot:because private,usr_ada:[erased]",
		`SELECT string_agg(recipient || body, ',') FROM notifications`:                                                                            "{}",
	} {
		if got := a.text(sql); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
	if got, err := a.Approvals.Get(t.Context(), id); err != nil || got.Sealed.Key == nil || got.Approval.Facts[0].Actor.ID != "usr_ada" {
		t.Errorf("the approval is not the person: %+v, %v", got, err)
	}
	for _, statement := range []string{`UPDATE people SET name = 'Ada' WHERE id = 'usr_ada'`, `UPDATE people SET disabled_at = NULL WHERE id = 'usr_ada'`, `UPDATE people SET erased_at = now() WHERE id = 'usr_ben'`} {
		if code := refusedAs(t, a.owner, statement); code != "23514" {
			t.Errorf("%s: %q", statement, code)
		}
	}
	refused("erased")
	person.Subject = "usr_nobody"
	refused("missing")
	// What is left of the approval goes as before.
	if err := a.erase(Erasure{Subject: id}); err != nil {
		t.Error(err)
	}
}
