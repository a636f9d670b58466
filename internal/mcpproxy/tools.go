package mcpproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"holdpoint/engine/canon"
	"holdpoint/engine/shellword"
)

// definition is a tool as its server describes it, in canonical form: name, title,
// description, schemas, annotations, and whatever else is there.
type definition []byte

// sum is the SHA-256 of a definition, in hexadecimal: the manifest_hash of the
// registry.
func (d definition) sum() string {
	s := sha256.Sum256(d)
	return hex.EncodeToString(s[:])
}

// tool is one member of a list of tools.
type tool struct {
	name string
	definition
	raw json.RawMessage
}

// toolOf reads a definition that has one reading.
func toolOf(raw json.RawMessage) (tool, error) {
	v, err := canon.Parse(raw)
	if err != nil {
		return tool{}, err
	}
	name, _ := v.Get("name")
	text := name.Str()
	// It stands in commands that are shown to operators, too.
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:", r)
	}
	if text == "" || len(text) > 128 || text[0] == '-' || strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return tool{}, errors.New("its name is not 1 to 128 of the letters a to z, digits, and . / : _ -, with a dash not the first of them")
	}
	return tool{text, v.Canonical(), raw}, nil
}

// page is what tools/list answers.
type page struct {
	members map[string]json.RawMessage
	tools   []tool
	raw     int // how many there were, readable or not
	next    string
}

// toolList is what the server says of its tools, held against what an operator has accepted.
type toolList struct {
	name   string // the operator's name for the server
	server *serverSide
	pins   *Pins
	logger *slog.Logger
	// tasks reports whether the host may call tools as tasks.
	tasks func() bool

	mu   sync.Mutex
	defs map[string]definition // what the server last said of its tools; nil when that has to be asked
	// changes counts how often the server said that its tools are others.
	changes int
}

// readPage reads a page of tools. What cannot be read, or is there twice, is left out.
func (l *toolList) readPage(ctx context.Context, a *jsonrpc.Response) (page, error) {
	var got page
	var raw []json.RawMessage
	if a.Error != nil {
		return got, a.Error
	}
	if err := json.Unmarshal(a.Result, &got.members); err != nil {
		return got, fmt.Errorf("read the list of tools: %w", err)
	}
	if err := json.Unmarshal(got.members["tools"], &raw); err != nil {
		return got, fmt.Errorf("read the list of tools: %w", err)
	}
	if next := got.members["nextCursor"]; next != nil {
		if err := json.Unmarshal(next, &got.next); err != nil {
			return got, fmt.Errorf("read the list of tools: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, r := range raw {
		t, err := toolOf(r)
		if err == nil && seen[t.name] {
			err = errors.New("it is there twice")
		}
		if err != nil {
			l.logger.WarnContext(ctx, "a tool of the server is left out", "error", err)
			continue
		}
		seen[t.name] = true
		got.tools = append(got.tools, t)
	}
	got.raw = len(raw)
	return got, nil
}

// forget has the tools asked for again before the next call.
func (l *toolList) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.defs = nil
	l.changes++
}

// maxPages bounds a list of tools.
const maxPages = 100

// errChanged says that the server has changed its tools while it told them.
var errChanged = errors.New("the server has changed its tools meanwhile")

// maxLists bounds how often the tools are asked for anew because they have changed
// meanwhile, as those of servers do that are just starting.
const maxLists = 5

// load asks the server for all of its tools, unless it is known what it said last.
// The first time, when nothing is pinned yet, they are what is pinned.
func (l *toolList) load(ctx context.Context) error {
	l.mu.Lock()
	known := l.defs != nil
	l.mu.Unlock()
	if known {
		return nil
	}
	return l.reload(ctx)
}

// reload asks the server for all of its tools.
func (l *toolList) reload(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, gateWithin)
	defer stop()
	var err error
	for range maxLists {
		if err = l.learnOnce(ctx); !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

func (l *toolList) learnOnce(ctx context.Context) error {
	l.mu.Lock()
	since := l.changes
	l.mu.Unlock()
	defs, all, params := map[string]definition{}, []tool{}, json.RawMessage(`{}`)
	for range maxPages {
		a, err := l.server.ask(ctx, &jsonrpc.Request{ID: l.server.ids.next(), Method: "tools/list", Params: params})
		if err != nil {
			return fmt.Errorf("list the server's tools: %w", err)
		}
		got, err := l.readPage(ctx, a)
		if err != nil {
			return err
		}
		for _, t := range got.tools {
			if _, twice := defs[t.name]; !twice {
				defs[t.name] = t.definition
				all = append(all, t)
			}
		}
		if got.next == "" {
			if l.changedSince(since) {
				return errChanged // nothing of it is pinned
			}
			if err := l.hold(ctx, all, true); err != nil {
				return err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.changes != since {
				return errChanged
			}
			l.defs = defs
			return nil
		}
		if params, err = json.Marshal(map[string]string{"cursor": got.next}); err != nil {
			return fmt.Errorf("encode a cursor: %w", err)
		}
	}
	return errors.New("the server's list of tools does not end")
}

func (l *toolList) changedSince(changes int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes != changes
}

// hold compares tools with what is pinned, and says which of them are held back.
func (l *toolList) hold(ctx context.Context, tools []tool, all bool) error {
	newly, err := l.pins.check(tools, all)
	for _, name := range newly {
		l.logger.WarnContext(ctx, "a tool is held back: its description is not the one that was accepted",
			"tool", ToolName(l.name, name), "accept", shellword.Command("holdpoint", "mcp-proxy", "accept", "--pins", l.pins.Path, "--", name))
	}
	return err
}

// definitionOf is the tool's definition, which the server gives now and an operator
// has accepted. The error is for the model.
func (l *toolList) definitionOf(ctx context.Context, tool string) (definition, error) {
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	return l.accepted(tool)
}

// definitionNow is definitionOf for what the server says when it is asked anew: not
// every server tells when its tools change.
func (l *toolList) definitionNow(ctx context.Context, tool string) (definition, error) {
	if err := l.reload(ctx); err != nil {
		return nil, err
	}
	return l.accepted(tool)
}

// accepted is the tool's definition as it is known, if an operator has accepted it.
func (l *toolList) accepted(tool string) (definition, error) {
	l.mu.Lock()
	def, listed := l.defs[tool]
	l.mu.Unlock()
	if !listed {
		return nil, &refusal{text: "Not run: the server does not list such a tool, or its description cannot be read."}
	}
	accepted, err := l.pins.accepted(tool)
	if err != nil {
		return nil, err
	}
	if string(accepted) != string(def) {
		return nil, l.changed(tool)
	}
	return def, nil
}

// changed refuses a call of a tool that is described otherwise than it was accepted
// for this call.
func (l *toolList) changed(tool string) *refusal {
	return &refusal{text: "Not run: the server has changed what it says of this tool, and no operator has accepted that. Tell the user; an operator looks at it with: holdpoint mcp-proxy accept --pins " + l.pins.Path + " " + tool}
}

// list answers the host's tools/list: each tool as it was accepted, and none that
// was not. When nothing is held back the server's answer passes as it is.
func (l *toolList) list(ctx context.Context, r *jsonrpc.Request) *jsonrpc.Response {
	if err := l.load(ctx); err != nil {
		return failure(r.ID, jsonrpc.CodeInternalError, "the tools cannot be listed: "+err.Error())
	}
	a, err := l.server.ask(ctx, r)
	if err != nil {
		return failure(r.ID, jsonrpc.CodeInternalError, "the server cannot be reached")
	}
	if a.Error != nil {
		return a
	}
	if a, err = l.shown(ctx, a); err != nil {
		return failure(r.ID, jsonrpc.CodeInternalError, "the tools cannot be listed: "+err.Error())
	}
	return a
}

// shown is a page of tools as the host may see it.
func (l *toolList) shown(ctx context.Context, a *jsonrpc.Response) (*jsonrpc.Response, error) {
	got, err := l.readPage(ctx, a)
	if err == nil {
		err = l.hold(ctx, got.tools, false)
	}
	if err != nil {
		return nil, err
	}
	tasks := l.tasks()
	l.mu.Lock()
	for _, t := range got.tools {
		if l.defs != nil {
			l.defs[t.name] = t.definition
		}
	}
	l.mu.Unlock()
	shown, same := []json.RawMessage{}, got.raw == len(got.tools) && !tasks
	for _, t := range got.tools {
		accepted, err := l.pins.accepted(t.name)
		switch {
		case err != nil:
			return nil, err
		case accepted == nil:
			same = false
		case string(accepted) != string(t.definition):
			same = false
			shown = append(shown, json.RawMessage(accepted))
		default:
			shown = append(shown, t.raw)
		}
	}
	if same {
		return a, nil
	}
	for i := range shown {
		if tasks && err == nil {
			shown[i], err = asTask(shown[i])
		}
	}
	if err != nil {
		return nil, err
	}
	if got.members["tools"], err = json.Marshal(shown); err != nil {
		return nil, err
	}
	result, err := json.Marshal(got.members)
	if err != nil {
		return nil, err
	}
	return &jsonrpc.Response{ID: a.ID, Result: result}, nil
}
