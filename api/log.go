package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
)

// LogCheckpoint is a signed checkpoint of the audit log.
type LogCheckpoint struct {
	TreeSize int64     `json:"tree_size" doc:"How many events the log had."`
	Root     string    `json:"root" doc:"Base64 of the root hash over them."`
	At       time.Time `json:"at" doc:"When the database says that it was signed. No signature covers it."`
	Note     string    `json:"checkpoint" doc:"The signed note (C2SP tlog-checkpoint), with the cosignatures of witnesses."`
}

// LogCheckpoints is a page of the checkpoints that were signed.
type LogCheckpoints struct {
	Checkpoints []LogCheckpoint `json:"checkpoints"`
	NextBefore  int64           `json:"next_before" doc:"before of the next page; 0 at the end."`
}

// EventProof is an event with the proof that the log has it.
type EventProof struct {
	Event      engine.Event `json:"event" doc:"The event as /v1/audit/events shows it."`
	Entry      string       `json:"entry" doc:"The leaf's data: the digest of the event's RFC 8785 form, seq and time."`
	LeafIndex  int64        `json:"leaf_index" doc:"Its place in the log, from 0: seq less 1."`
	LeafHash   string       `json:"leaf_hash" doc:"Base64 of SHA-256(0x00 || entry)."`
	TreeSize   int64        `json:"tree_size"`
	Root       string       `json:"root"`
	Proof      []string     `json:"proof" doc:"The inclusion proof, from the leaf's sibling on, in base64 (RFC 6962, 2.1.1)."`
	Checkpoint string       `json:"checkpoint" doc:"The signed note of that size and root."`
	TlogProof  string       `json:"tlog_proof" doc:"All of the proof as one text that other tools read (C2SP tlog-proof)."`
}

// TreeProof is the proof that the log only grew between two sizes.
type TreeProof struct {
	From        int64           `json:"from"`
	To          int64           `json:"to"`
	Proof       []string        `json:"proof" doc:"The consistency proof in base64 (RFC 6962, 2.1.2); [] where from is 0 or to."`
	Checkpoints []LogCheckpoint `json:"checkpoints" doc:"Those that were signed of these sizes, the smaller first. There may be none of from."`
}

const (
	checkpointsPage    = 100
	maxCheckpointsPage = 1000
)

// log are the audit log for everybody, and proofs for those who may read events.
func (a auditDoor) log() []operation {
	return []operation{
		{
			method: "GET", path: "/log/checkpoint", summary: "The audit log's newest checkpoint", scope: public, statuses: []int{200, 304}, problems: []int{404, 503}, mediaType: "text/plain",
			detail: "A signed note (C2SP tlog-checkpoint), with the cosignatures of witnesses. 404 while nothing was logged.", handle: a.logCheckpoint,
		},
		{
			method: "GET", path: "/log/tile/{tile...}", summary: "A tile of the audit log, or its entries", scope: public, statuses: []int{200, 304}, problems: []int{404, 500, 503}, mediaType: "application/octet-stream",
			detail: "The rest of the address is as in C2SP tlog-tiles: 0/x001/067 is tile 1067 of level 0, entries/x001/067 its entries, and 0/x001/067.p/8 its first 8 hashes. Entries hold digests and no content.", handle: a.logTile,
		},
		{
			method: "GET", path: "/log/key", summary: "The audit log's public key", scope: public, statuses: []int{200, 304}, problems: []int{404}, mediaType: "text/plain",
			detail: "To compare with. Whoever verifies the log must have got the key by another way: who could change the log could change this.", handle: a.logKey,
		},
		{
			method: "GET", path: "/v1/audit/events/{event_id}/proof", summary: "Prove that an event is in the audit log", scope: auditOrHuman, out: EventProof{}, statuses: []int{200, 304}, problems: []int{401, 403, 404, 409, 500, 503},
			detail: "To the newest checkpoint. 409 not_placed_yet: the event has no place in the log yet; it gets one within a second. 409 not_witnessed_yet: not enough witnesses have signed a checkpoint that has it. 409 event_changed: the event in the database is not the one that was logged.", handle: a.eventProof,
		},
		{
			method: "GET", path: "/v1/audit/consistency", summary: "Prove that the audit log only grew", scope: auditOrHuman, out: TreeProof{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 500, 503},
			query: []parameter{{"from", "The tree_size of the checkpoint that you have."}, {"to", "That of a later one; of the newest when left out."}}, handle: a.consistency,
		},
		{
			method: "GET", path: "/v1/audit/checkpoints", summary: "List the audit log's checkpoints", scope: auditOrHuman, out: LogCheckpoints{}, statuses: []int{200}, problems: []int{400, 401, 403, 503},
			detail: "From the newest on.", query: []parameter{{"before", "next_before of the page before: smaller checkpoints than this."}, {"limit", "1 to 1000; 100 when left out."}}, handle: a.checkpoints,
		},
	}
}

// Caching of what is under /log/. Tiles are for ever. A checkpoint is not cached at
// all: of two caches, one would show an older log than the other, which is what a
// log looks like that was cut. Entries may be kept, and have to be asked for again
// each time: they are computed from the events that there are now, and a copy
// would hide what has become of them.
const (
	cacheForEver = "public, max-age=31536000, immutable"
	cacheAsking  = "public, no-cache"
)

// logged answers with a part of the public log.
func logged(c *call, kind, caching string, data []byte) {
	sum := sha256.Sum256(data)
	h := c.w.Header()
	forEverybody(h)
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", caching)
	h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	http.ServeContent(c.w, c.r, "", time.Time{}, bytes.NewReader(data))
}

// forEverybody lets pages of any site read the answer: it is public, it is the same
// for everybody, and a verifier may well be a page.
func forEverybody(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "ETag")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

// unlogged answers that the public log has no such thing. It is not put on record:
// the log must not grow by being read.
func (a auditDoor) unlogged(c *call, err error) error {
	if f := a.failureOf(c.r, err); f != nil {
		forEverybody(c.w.Header())
		writeReply(c.w, f.reply())
	}
	return nil
}

func (a auditDoor) logCheckpoint(c *call) error {
	note, err := a.Log.PublicCheckpoint(c.r.Context())
	if err != nil {
		return a.unlogged(c, err)
	}
	logged(c, "text/plain; charset=utf-8", cacheAsking, note)
	return nil
}

func (a auditDoor) logTile(c *call) error {
	// As it was sent: a tile has one address.
	resource, err := audit.ParsePath(strings.TrimPrefix(c.r.URL.EscapedPath(), "/log/"))
	if err != nil {
		return a.noSuchLog(c)
	}
	data, err := a.Log.PublicResource(c.r.Context(), resource)
	if err != nil {
		return a.unlogged(c, err)
	}
	caching := cacheForEver
	if resource.Entries {
		caching = cacheAsking
	}
	logged(c, "application/octet-stream", caching, data)
	return nil
}

func (a auditDoor) logKey(c *call) error {
	if a.LogKey == "" {
		return a.unlogged(c, &failure{Status: http.StatusNotFound, Code: "no_log_key", Detail: "This server has not been told the log's public key (log_public_key)."})
	}
	logged(c, "text/plain; charset=utf-8", cacheAsking, []byte(strings.TrimSpace(a.LogKey)+"\n"))
	return nil
}

// noSuchLog answers for every other address under /log/.
func (a auditDoor) noSuchLog(c *call) error {
	return a.unlogged(c, &failure{Status: http.StatusNotFound, Code: "no_such_route", Detail: "There is nothing at this address. /docs lists what there is."})
}

func (a auditDoor) eventProof(c *call) error {
	p, err := a.Log.Prove(c.r.Context(), c.r.PathValue("event_id"))
	if err != nil {
		return err
	}
	entry := p.Entry()
	// The event as it was logged, every member: whoever has it can compute its digest.
	return ok(c, struct {
		Event json.RawMessage `json:"event"`
		EventProof
	}{p.Document(), EventProof{
		Entry: string(entry), LeafIndex: p.Leaf, LeafHash: audit.LeafHash(entry).String(), TreeSize: p.Checkpoint.Size, Root: p.Checkpoint.Root.String(),
		Proof: inBase64(p.Proof), Checkpoint: string(p.Checkpoint.Signed()), TlogProof: audit.ProofText(p.Leaf, p.Proof, p.Checkpoint.Signed()),
	}})
}

func (a auditDoor) consistency(c *call) error {
	from, to := int64(-1), int64(0)
	if err := (parameters{"from": whole(&from, 0, 0), "to": whole(&to, 0, 0)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	if from < 0 {
		return badQuery("Say from: the tree_size of the checkpoint that you have.")
	}
	p, err := a.Log.Consistency(c.r.Context(), from, to)
	if err != nil {
		return err
	}
	return ok(c, TreeProof{From: p.From, To: p.To, Proof: inBase64(p.Proof), Checkpoints: onWire(p.Checkpoints)})
}

func (a auditDoor) checkpoints(c *call) error {
	before, limit := int64(0), checkpointsPage
	if err := (parameters{"before": whole(&before, 0, 0), "limit": whole(&limit, 1, maxCheckpointsPage)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	list, err := a.Log.Checkpoints(c.r.Context(), before, limit)
	if err != nil {
		return err
	}
	page := LogCheckpoints{Checkpoints: onWire(list)}
	if len(list) == limit {
		page.NextBefore = list[limit-1].Size
	}
	return ok(c, page)
}

func inBase64(hashes []tlog.Hash) []string {
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = h.String()
	}
	return list
}

func onWire(list []auditlog.Checkpoint) []LogCheckpoint {
	wire := make([]LogCheckpoint, len(list))
	for i, c := range list {
		wire[i] = LogCheckpoint{TreeSize: c.Size, Root: c.Root.String(), At: c.At, Note: string(c.Signed())}
	}
	return wire
}
