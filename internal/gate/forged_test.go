package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// intruder is somebody who holds the runtime role of Postgres.
type intruder struct {
	*harness
	exec func(sql string, args ...any)
}

func (h *harness) intruder() intruder {
	conn := h.db.Connect(h.db.RuntimeURL)
	return intruder{h, func(sql string, args ...any) {
		h.t.Helper()
		if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
			h.t.Fatal(err)
		}
	}}
}

// writes writes a row of facts, and returns it as the programs read it.
func (i intruder) writes(a approval.Approval, f approval.Fact) approval.Fact {
	i.t.Helper()
	i.exec(`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.ID, f.Kind, f.Actor.Kind, f.Actor.ID, f.Actor.Channel, f.Yes, f.Denial, f.Comment)
	r, err := i.Store.Approvals.Get(context.Background(), a.ID)
	if err != nil {
		i.t.Fatal(err)
	}
	return r.Approval.Unlogged[len(r.Approval.Unlogged)-1]
}

// appends appends an event by the function that the programs append with.
func (i intruder) appends(e engine.Event) {
	i.t.Helper()
	e.ID = uuid.NewString()
	body, err := json.Marshal(e)
	if err != nil {
		i.t.Fatal(err)
	}
	i.exec(`SELECT append_events(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3], ARRAY[$4], ARRAY[$5], ARRAY[$6], ARRAY[$7::bytea])`,
		e.ID, string(e.Type), string(e.Outcome), e.AgentID, e.ToolName, e.ApprovalID, body)
}

// alarms are the facts of which the log says that no event tells of them.
func (h *harness) alarms(id string) (seqs []int64) {
	h.t.Helper()
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: id, Type: string(engine.Refusal)}, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		var payload approval.UnloggedPayload
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			h.t.Fatal(err)
		}
		if e.Reasons[0].Code == approval.NotInLog.Code {
			seqs = append(seqs, payload.Unlogged.Seq)
		}
	}
	return seqs
}

func (h *harness) yes(who string) approval.Fact {
	return approval.Fact{Kind: approval.Vote, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: h.people[who].ID, Channel: "console"}}
}

// A fact that somebody writes into the table settles nothing, and is told of once.
func TestFactWithoutEvent(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	var lines bytes.Buffer
	h.settler.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	a := h.open(deferred)
	vote := h.intruder().writes(a, h.yes("ada"))
	h.intruder().writes(a, approval.Fact{Kind: approval.Cancel, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot", Channel: "api"}})
	h.settle(a.ID)
	h.settle(a.ID)
	got := h.get(a.ID)
	h.want("with forged facts only", got.Approval, approval.Pending)
	if given := got.Approval.State.Requirements[0].Given; given != 0 {
		t.Errorf("%d votes are shown", given)
	}
	if got := h.alarms(a.ID); !slices.Equal(got, []int64{vote.Seq, vote.Seq + 1}) {
		t.Errorf("the log tells of the facts %v", got)
	}
	if n := strings.Count(lines.String(), "level=ERROR"); n != 2 || !strings.Contains(lines.String(), a.ID) {
		t.Errorf("%d lines: %s", n, &lines)
	}
	if n, err := h.Store.Events.CountAlarms(t.Context(), time.Hour); err != nil || n != 2 {
		t.Errorf("the doctor counts %d, %v", n, err)
	}
	if err := h.vote("ada", a, true); code(err) != "vote_not_in_log" {
		t.Errorf("a yes of whose name was taken: %v", err)
	}
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	got = h.get(a.ID)
	h.want("with a true vote", got.Approval, approval.Approved)
	if who := got.Approval.State.Counted; len(who) != 1 || who[0].Actor.ID != h.people["ben"].ID {
		t.Errorf("the votes that counted: %+v", who)
	}
}

// However many facts somebody writes, the log does not fill with them.
func TestAlarmsAreBounded(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	h.intruder().exec(`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment)
		SELECT $1, 'vote', 'human', 'usr_' || n, 'api', true, '', '' FROM generate_series(1, 100) n`, a.ID)
	h.settle(a.ID)
	h.settle(a.ID)
	if n := len(h.alarms(a.ID)); n != 10 {
		t.Errorf("%d alarms", n)
	}
	h.want("with a hundred forged votes", h.get(a.ID).Approval, approval.Pending)
}

// Who holds the runtime role, and not the data key, casts no vote: not with the very
// event that the gate would append, nor by writing a true one again.
func TestFactWithForgedEvent(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a, i := h.open(deferred), h.intruder()
	tells := func(f approval.Fact) {
		e := gate.ApprovalEvent(h.db.Sealer, engine.Voted, a.Decision.Outcome, a, f.Actor, "")
		e.SafePayload, _ = json.Marshal(f.Payload())
		i.appends(e)
	}
	first := i.writes(a, h.yes("ada"))
	tells(first)
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.want("with a forged vote and its event", h.get(a.ID).Approval, approval.Pending)
	// The hash of a true vote fits no other.
	i.exec(`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment, details)
		SELECT approval_id, kind, actor_kind, $2, channel, yes, denial, comment, details FROM facts WHERE approval_id = $1 AND actor_id = $3`,
		a.ID, h.people["cleo"].ID, h.people["ben"].ID)
	r, err := h.Store.Approvals.Get(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	copied := r.Approval.Unlogged[len(r.Approval.Unlogged)-1]
	tells(copied)
	h.settle(a.ID)
	got := h.get(a.ID)
	h.want("with the hash of another vote", got.Approval, approval.Pending)
	if given := got.Approval.State.Requirements[0].Given; given != 1 {
		t.Errorf("%d votes count", given)
	}
	if got := h.alarms(a.ID); !slices.Equal(got, []int64{first.Seq, copied.Seq}) {
		t.Errorf("the log tells of the facts %v", got)
	}
	// Their events are in the log, so that no true votes approve the call any more.
	if err := h.vote("dina", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.want("with enough true votes, and events of others", h.get(a.ID).Approval, approval.Denied)
}

// What was said once is not said again by writing it again: more time, say.
func TestFactWrittenAgain(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a, i := h.open(deferred), h.intruder()
	for range 2 {
		if _, err := h.Contributions.Comment(t.Context(), h.says("ada", a.ID, "the same words"), nil); err != nil {
			t.Fatal(err)
		}
	}
	i.exec(`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment, details)
		SELECT approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment, details FROM facts WHERE approval_id = $1 ORDER BY seq LIMIT 1`, a.ID)
	r, err := h.Store.Approvals.Get(t.Context(), a.ID)
	if err != nil || len(r.Approval.Unlogged) != 1 {
		t.Fatalf("%v, %+v", err, r.Approval.Unlogged)
	}
	e := gate.ApprovalEvent(h.db.Sealer, engine.Commented, a.Decision.Outcome, a, r.Approval.Unlogged[0].Actor, "")
	e.SafePayload, _ = json.Marshal(r.Approval.Unlogged[0].Payload())
	i.appends(e)
	if r, err = h.Store.Approvals.Get(t.Context(), a.ID); err != nil || len(r.Approval.Facts) != 2 || len(r.Approval.Unlogged) != 1 {
		t.Errorf("%v: %d facts, and %+v", err, len(r.Approval.Facts), r.Approval.Unlogged)
	}
}

// What an approval asks for is held against its events, too: somebody who lets the
// requesting side vote by changing rows gets no token.
func TestWeakenedApproval(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a, i := h.open(deferred), h.intruder()
	i.writes(a, approval.Fact{Kind: approval.Reopen, Actor: engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"}})
	i.exec(`UPDATE approvals SET excluded = '{}', edition = 2 WHERE id = $1`, a.ID)
	a = h.get(a.ID).Approval
	if err := h.vote("owner", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	got := h.get(a.ID)
	h.want("with rows that were changed", got.Approval, approval.Denied)
	if why := got.Approval.Reasons; len(why) != 1 || why[0].Code != "recheck_failed" || !strings.Contains(why[0].Message, "edition") {
		t.Errorf("got %+v", why)
	}
	if got.Token != "" {
		t.Error("there is a token")
	}
}

// Who writes the end of an approval and its token past settlement gets no permission.
func TestForgedToken(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	i, forged, approved := h.intruder(), h.open(deferred), h.open(another(deferred))
	if err := h.vote("ada", approved, true); err != nil {
		t.Fatal(err)
	}
	h.settle(approved.ID)
	if h.get(approved.ID).Token == "" {
		t.Fatal("an approved call has no token")
	}
	i.writes(forged, h.yes("ada"))
	i.exec(`UPDATE approvals SET status = 'approved', reasons = '[]', final = (SELECT final FROM approvals WHERE id = $2) WHERE id = $1`, forged.ID, approved.ID)
	i.exec(`INSERT INTO tokens (jti, approval_id, valid_until) SELECT 'tok_' || reverse(substr(jti, 5)), $1, now() + interval '1 h' FROM tokens WHERE approval_id = $2`, forged.ID, approved.ID)
	if got := h.get(forged.ID); got.Approval.Status != approval.Approved || got.Token != "" {
		t.Errorf("it is %s, with the token %q", got.Approval.Status, got.Token)
	}
}
