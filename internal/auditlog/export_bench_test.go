package auditlog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/ocsf"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/store"
)

var benchEvents = flag.Int("events", 20_000, "how many events the log has that is exported and verified")

// story is what a log is mostly made of: eleven events, of which six are of one
// approval that two people gave.
func story(i int, now time.Time) []engine.Event {
	agent := engine.Actor{Kind: engine.AgentActor, ID: fmt.Sprint("bot", i%2), Channel: "api"}
	call := func(kind engine.EventType, outcome engine.Outcome, code, message string) engine.Event {
		return engine.Event{
			ID: uuid.NewString(), Type: kind, Outcome: outcome, RequestID: uuid.NewString(), AgentID: agent.ID, ToolName: fmt.Sprint("tool", i%7), Actor: agent,
			Reasons: []engine.Reason{{Code: code, Message: message}}, PolicyDigest: audit.Digest(nil), DigestHMAC: "hmac-" + audit.Digest([]byte(fmt.Sprint(i))),
			SafePayload: json.RawMessage(`{"argument_count":3,"argument_keys":["account","amount","currency"],"dialect":"aana","route":"accept"}`),
		}
	}
	var events []engine.Event
	for range 5 {
		events = append(events, call(engine.Decided, engine.Allow, "POLICY_ALLOW", "The policy lets this call pass."))
	}
	p := approval.Plan{
		OpenedAt: now, ExpiresAt: now.Add(time.Hour), Edition: 1, Excluded: []string{"idn_owner"}, Requirements: []engine.Requirement{{Kind: engine.Review, Role: "reviewer", Needed: 2}},
	}
	a := approval.Approval{ID: "apr_" + uuid.NewString(), Plan: p}
	of := func(e engine.Event, payload any) {
		e.ApprovalID = a.ID
		e.SafePayload, _ = json.Marshal(payload) // it encodes
		events = append(events, e)
	}
	opened := call(engine.Decided, engine.RequireApproval, "REVIEW", "The call takes the approval of two people.")
	opened.Requirements = p.Requirements
	of(opened, map[string]any{"dialect": "aana", "route": "defer", "argument_count": 3, "argument_keys": []string{"account", "amount", "currency"}, "asked": p.EditionPayload()})
	for k := range 2 {
		who := fmt.Sprint("usr_", k)
		a.Facts = append(a.Facts, approval.Fact{
			Seq: int64(2*i + k + 1), At: now, Kind: approval.Vote, Yes: true, Edition: 1, Actor: engine.Actor{Kind: engine.HumanActor, ID: who, Channel: "console"},
			Comment: "fine", Details: approval.Details{Salt: "salt"}, Voter: approval.Voter{Identity: "idn_" + who, Roles: []string{"reviewer", "finance-approver"}, Active: true},
		})
		vote := call(engine.Voted, engine.RequireApproval, "VOTE_APPROVE", "Approved by a reviewer.")
		vote.Actor = a.Facts[k].Actor
		of(vote, a.Facts[k].Payload())
	}
	ended := a.SettledPayload(approval.Advance(p, a.Facts, now), now)
	ended.ValidUntil = now.Add(24 * time.Hour)
	settled := call(engine.Settled, engine.Approved, "APPROVED", "Everybody whose approval was needed approved the call.")
	settled.Requirements = p.Requirements
	of(settled, map[string]any{"ended": ended})
	of(call(engine.Redeemed, engine.Allow, "REDEEMED", "The token was redeemed; the call may run once."), struct{}{})
	of(call(engine.Executed, engine.Allow, "EXECUTION_SUCCEEDED", "The agent reported what became of the call."), map[string]any{"duration_ms": 12, "execution": "succeeded"})
	return events
}

// fill appends events as the programs do, only more at a time, and without the
// approvals that they are about.
func (l *logged) fill(n int) {
	l.Helper()
	l.exec(`SET session_replication_role = replica`)
	for i := 0; i < n; {
		var ids, types, outcomes, agents, tools, approvals []string
		var bodies [][]byte
		for ; len(ids) < 4000 && i < n; i += 11 {
			for _, e := range story(i/11, time.Now().UTC().Truncate(time.Microsecond)) {
				body, err := json.Marshal(e)
				if err != nil {
					l.Fatal(err)
				}
				ids, types, outcomes, agents = append(ids, e.ID), append(types, string(e.Type)), append(outcomes, string(e.Outcome)), append(agents, e.AgentID)
				tools, approvals, bodies = append(tools, e.ToolName), append(approvals, e.ApprovalID), append(bodies, body)
			}
		}
		l.exec(`SELECT append_events($1::text[]::uuid[], $2, $3, $4, $5, $6, $7)`, ids, types, outcomes, agents, tools, approvals, bodies)
	}
}

// peak samples the heap until it is stopped, and returns its largest size.
func peak() (stop func() uint64) {
	runtime.GC()
	debug.FreeOSMemory()
	done, largest := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64()+sample[1].Value.Uint64())
			select {
			case <-done:
				largest <- most
				return
			case <-ticker.C:
			}
		}
	}()
	return func() uint64 {
		close(done)
		return <-largest
	}
}

// heapLimit is what no export and no verification needs more than, however long
// the log is.
const heapLimit = 64 << 20

// BenchmarkLog exports and verifies a log.
//
//	go test ./internal/auditlog -run '^$' -bench Log -benchtime 1x -timeout 2h -events 1000000
func BenchmarkLog(b *testing.B) {
	l := newLogged(b)
	began := time.Now()
	l.fill(*benchEvents)
	b.Logf("appended in %s", time.Since(began).Round(time.Second))
	began = time.Now()
	l.place(time.Hour)
	b.Logf("sequenced %d in %s", l.size, time.Since(began).Round(time.Second))
	dir := b.TempDir()

	row := func(cells []string) ([]byte, error) {
		var line bytes.Buffer
		w := csv.NewWriter(&line)
		err := spreadsheet.Write(w, cells)
		w.Flush()
		return line.Bytes(), err
	}
	l.exporter.Encodings = map[string]auditlog.Encoding{
		"csv": {Event: func(e engine.Event) ([]byte, error) { return row(spreadsheet.Row(e)) }},
		"ocsf": {Event: func(e engine.Event) ([]byte, error) {
			line, err := ocsf.Encode(e, ocsf.Holdpoint)
			return append(line, '\n'), err
		}},
	}
	measure := func(name string, run func(b *testing.B) (int64, error)) {
		b.Run(name, func(b *testing.B) {
			stop := peak()
			var n int64
			for b.Loop() {
				events, err := run(b)
				if err != nil {
					b.Fatal(err)
				}
				n += events
			}
			most := stop()
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(most)/(1<<20), "MiB-heap")
			if most > heapLimit {
				b.Errorf("it took %d MiB", most>>20)
			}
		})
	}
	for _, c := range []struct {
		name, format string
		filter       store.EventFilter
	}{
		{"whole", auditlog.JSONL, store.EventFilter{}},
		{"part", auditlog.JSONL, store.EventFilter{AgentID: "bot1"}},
		{"csv", "csv", store.EventFilter{}},
		{"ocsf", "ocsf", store.EventFilter{}},
	} {
		file := filepath.Join(dir, c.name)
		measure("export/"+c.name, func(*testing.B) (int64, error) {
			f, err := os.Create(file)
			if err != nil {
				return 0, err
			}
			w := bufio.NewWriterSize(f, 1<<16)
			s, err := l.exporter.Write(context.Background(), w, auditlog.ExportRequest{Format: c.format, Filter: c.filter, Size: l.size})
			if info, err := f.Stat(); err == nil {
				b.Logf("%s: %d MiB", c.name, info.Size()>>20)
			}
			return s.Events, errors.Join(err, w.Flush(), f.Close())
		})
		if c.format != auditlog.JSONL {
			continue
		}
		measure("verify/"+c.name, func(b *testing.B) (int64, error) {
			f, err := os.Open(file)
			if err != nil {
				return 0, err
			}
			defer func() { _ = f.Close() }()
			v, lines := &audit.Verifier{Verifiers: l.verifiers}, bufio.NewReaderSize(f, 1<<16)
			for {
				line, err := lines.ReadBytes('\n')
				if err == io.EOF {
					break
				}
				if err != nil {
					return 0, err
				}
				v.Line(bytes.TrimSuffix(line, []byte("\n")))
			}
			r := v.Done()
			for _, p := range r.Problems {
				b.Error(p.Error())
			}
			return r.Events, nil
		})
	}
}
