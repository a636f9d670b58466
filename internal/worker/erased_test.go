package worker

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// TestErasedAgain: what was erased on request is on the list, and what is on the list and
// is back in the database is erased again, once nothing keeps it.
func TestErasedAgain(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	ada := db.Person(engine.Person{Name: "ada", Roles: []string{"admin"}})
	ben := db.Person(engine.Person{Name: "ben", Roles: []string{}})
	db.Agent("bot", "Bot", ada)
	db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	open := func() string {
		t.Helper()
		id := store.NewID("apr")
		e := storetest.Event()
		e.Type, e.AgentID, e.ToolName, e.ApprovalID, e.Outcome = engine.Decided, "bot", "t", id, engine.RequireApproval
		sealed, err := db.Sealer.Seal(id, []byte("{}"))
		if err == nil {
			_, err = s.Submit(t.Context(), store.Submission{Event: e, Opening: &store.Opening{
				ID: id, Call: engine.Call{Dialect: "aana", AgentID: "bot", Tool: "t", Digest: "sha256:" + strings.Repeat("0", 64)},
				MaxState: "none", Requirements: []engine.Requirement{{Kind: engine.Review, Role: "r", Needed: 1}}, ExpiresIn: time.Hour,
				Sealed: sealed, ArgumentsSize: 2,
			}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	end := func(id string) {
		t.Helper()
		err := s.Approvals.Change(t.Context(), id, nil, func(c *store.Change) error { return c.Settle(approval.Denied, []engine.Reason{}, "", 0, nil) })
		if err != nil {
			t.Fatal(err)
		}
	}
	erased, back, waits := open(), open(), open()
	end(erased)
	end(back)
	a := admin.New(admin.Config{Store: s})
	if _, err := a.Retention.Erase(t.Context(), access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: ada.ID}}, admin.EraseRequest{ApprovalID: erased, Reason: "asked"}, nil); err != nil {
		t.Fatal(err)
	}
	list := floor.Erased{Path: filepath.Join(t.TempDir(), "list")}
	loop := &Erased{Store: s, File: list, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	look := func() {
		t.Helper()
		loop.triedAt = time.Time{}
		if err := loop.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if got, err := list.Load(); err != nil || !slices.Equal(got, []string{erased}) {
		t.Fatalf("the list has %q, %v", got, err)
	}
	if err := list.Add([]string{back, waits, ben.ID, "apr_" + strings.Repeat("z", 26)}); err != nil {
		t.Fatal(err)
	}
	is := func(id string) (gone bool) {
		t.Helper()
		left, err := s.Retention.NotErased(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	}
	look()
	if !is(back) || !is(ben.ID) || is(waits) {
		t.Errorf("erased again: %v %v, and what waits: %v", is(back), is(ben.ID), is(waits))
	}
	end(waits)
	look()
	if !is(waits) {
		t.Error("what has ended is not erased again")
	}
	page, _, err := s.Retention.Erasures(t.Context(), "", 10)
	if err != nil || len(page) != 4 || page[0].By != "retention" || !strings.Contains(page[0].Reason, "restored") {
		t.Errorf("on record is %+v, %v", page, err)
	}
	// A list that somebody has damaged erases nothing, and is not written over.
	if err := os.WriteFile(list.Path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := loop.Look(t.Context()); err == nil {
		t.Error("a damaged list is taken")
	}
}
