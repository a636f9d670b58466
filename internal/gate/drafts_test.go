package gate_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
)

// TestDraftsAreKept: what somebody writes is theirs alone, sealed, and there until it is
// sent or nobody can send it any more.
func TestDraftsAreKept(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	conn := h.db.Connect(h.db.URL)
	rows := func(where string) (n int) {
		t.Helper()
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM drafts WHERE `+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	kept := func(who, id string) string {
		t.Helper()
		all, err := h.Drafts.OfApproval(ctx, h.people[who], id)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, form := range []string{"comments", "votes"} {
			if fields := all[form]; fields != nil {
				text = append(text, form+":"+fields.Encode())
			}
		}
		return strings.Join(text, " ")
	}
	keep := func(who, id, form, comment string) error {
		t.Helper()
		fields := url.Values{}
		if comment != "" {
			fields.Set("comment", comment)
		}
		return h.Drafts.Keep(ctx, h.people[who], id, form, fields)
	}
	a := h.open(payment(1))
	for _, step := range []struct{ who, form, text, want string }{
		{"ada", "votes", "canary half a thought", "votes:comment=canary+half+a+thought"},
		{"ada", "comments", "a remark", "comments:comment=a+remark votes:comment=canary+half+a+thought"},
		{"ben", "votes", "another's", "votes:comment=another%27s"},
		{"ada", "votes", "canary whole thought", "comments:comment=a+remark votes:comment=canary+whole+thought"},
		{"ada", "comments", "", "votes:comment=canary+whole+thought"},
	} {
		if err := keep(step.who, a.ID, step.form, step.text); err != nil {
			t.Fatal(err)
		}
		if got := kept(step.who, a.ID); got != step.want {
			t.Errorf("after %+v: %q", step, got)
		}
	}
	if err := keep("stranger", a.ID, "votes", "x"); code(err) != "not_found" {
		t.Errorf("somebody who may not see it: %v", err)
	}
	if err := h.Drafts.Keep(ctx, h.people["ada"], a.ID, "votes", url.Values{"comment": {strings.Repeat("x", 1<<20)}}); code(err) != "body_too_large" {
		t.Errorf("too much: %v", err)
	}
	everything, err := conn.Query(ctx, `SELECT d::text FROM drafts d`)
	if err != nil {
		t.Fatal(err)
	}
	if texts, err := pgx.CollectRows(everything, pgx.RowTo[string]); err != nil || len(texts) != 2 || strings.Contains(fmt.Sprint(texts), "canary") || strings.Contains(fmt.Sprint(texts), "63616e617279") {
		t.Errorf("the table says %q, %v", texts, err)
	}
	// One person's box is no other's, wherever the row says that it belongs.
	h.db.Exec(`UPDATE drafts SET sealed = b.sealed, sealed_key = b.sealed_key FROM drafts b WHERE b.person_id = $1 AND drafts.person_id = $2`, h.people["ada"].ID, h.people["ben"].ID)
	if _, err := h.Drafts.OfApproval(ctx, h.people["ben"], a.ID); err == nil {
		t.Error("somebody reads what another one has written")
	}

	if err := h.Drafts.Drop(ctx, h.people["ada"], a.ID, "votes"); err != nil || kept("ada", a.ID) != "" {
		t.Errorf("sent, and still there: %q, %v", kept("ada", a.ID), err)
	}
	if err := keep("ada", a.ID, "votes", "late"); err != nil {
		t.Fatal(err)
	}
	if err := h.vote("cleo", a, false); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if n := rows(`true`); n != 0 {
		t.Errorf("%d drafts of a call that is decided", n)
	}
	if err := keep("ada", a.ID, "votes", "later"); code(err) != "already_decided" {
		t.Errorf("a draft of what is over: %v", err)
	}
}

// TestDraftsOfWhatComesAfter: what somebody writes about a call that ended is kept while
// it can be sent.
func TestDraftsOfWhatComesAfter(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(payment(1))
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	keep := func(form string) error {
		return h.Drafts.Keep(ctx, h.people["owner"], a.ID, form, url.Values{"comment": {"I looked"}})
	}
	kept := func() int {
		t.Helper()
		all, err := h.Drafts.OfApproval(ctx, h.people["owner"], a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if err := keep("reconciliation"); code(err) != "already_decided" {
		t.Errorf("before anybody asks: %v", err)
	}
	h.db.Exec(`INSERT INTO afterwards (approval_id) VALUES ($1)`, a.ID)
	h.db.Exec(`UPDATE tokens SET redeemed_at = now(), lease_until = now() WHERE approval_id = $1`, a.ID)
	h.db.Exec(`UPDATE approvals SET execution = 'redeemed' WHERE id = $1`, a.ID)
	if err := keep("afterwards"); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`UPDATE approvals SET execution = 'unknown' WHERE id = $1`, a.ID)
	if err := keep("reconciliation"); err != nil || kept() != 2 {
		t.Fatalf("%d kept, %v", kept(), err)
	}
	if _, err := h.Contributions.Reconcile(ctx, h.says("owner", a.ID, "it ran"), approval.Succeeded, nil); err != nil {
		t.Fatal(err)
	}
	if kept() != 1 {
		t.Errorf("%d kept after somebody has said what became of it", kept())
	}
	h.db.Exec(`UPDATE afterwards SET done_at = now(), person_id = $2, justified = true WHERE approval_id = $1`, a.ID, h.people["ben"].ID)
	if kept() != 0 {
		t.Error("kept after somebody has looked at it")
	}
}
