package registry

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const manifest = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"

func issuer() (ed25519.PrivateKey, Key) {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", ed25519.SeedSize)))
	return private, Key(private.Public().(ed25519.PublicKey))
}

func snapshot() *Snapshot {
	_, key := issuer()
	revoked, two := now.Add(-time.Hour), 2
	s := &Snapshot{
		Settings: Settings{MaxDelegation: 3, MinTrust: engine.Basic, Issuers: map[string]Key{"idp": key}},
		Agents: map[string]Agent{
			"bot":     {ID: "bot", Type: "chat_agent", Trust: engine.Verified, Roles: []string{"mail"}},
			"short":   {ID: "short", Trust: engine.Basic, MaxDelegation: &two},
			"parent":  {ID: "parent", Trust: engine.Basic},
			"gone":    {ID: "gone", Trust: engine.System, RevokedAt: &revoked},
			"low":     {ID: "low", Trust: engine.Untrusted},
			"attests": {ID: "attests", Trust: engine.Basic, NeedsAttestation: true},
		},
		Kills: map[string]Kill{},
	}
	for _, t := range []Tool{
		{Name: "hashed", ManifestHash: manifest},
		{Name: "strict", ManifestHash: manifest, NeedsManifest: true},
		{Name: "retired", RevokedAt: &revoked},
		{Name: "high", MinTrust: engine.Privileged},
		{Name: "mcp", Provider: "mcp"},
		{Name: "mcp-ok", Provider: "mcp", Verified: true},
	} {
		s.AddTool(t)
	}
	return s
}

func codes(found []engine.Finding) (list []string) {
	for _, f := range found {
		list = append(list, f.Code)
	}
	return list
}

func TestCheck(t *testing.T) {
	one, negative := 1, -7
	for name, tc := range map[string]struct {
		claim Claim
		want  []string
	}{
		"nothing to say":             {Claim{AgentID: "bot", Tool: "x"}, nil},
		"an unknown agent":           {Claim{AgentID: "who", Tool: "x"}, []string{Unregistered}},
		"a revoked agent":            {Claim{AgentID: "gone", Tool: "x"}, []string{AgentRevoked}},
		"below the least trust":      {Claim{AgentID: "low", Tool: "x"}, []string{TrustTooLow}},
		"below the tool's trust":     {Claim{AgentID: "bot", Tool: "high"}, []string{TrustTooLow}},
		"claims are replaced":        {Claim{AgentID: "bot", Tool: "x", ClaimedAgent: "root", Type: "ide_agent", Trust: "system", Roles: []string{"mail", "root"}}, []string{ClaimOverridden, ClaimOverridden, ClaimOverridden, ClaimOverridden}},
		"claims that are true":       {Claim{AgentID: "bot", Tool: "x", ClaimedAgent: "bot", Type: "chat_agent", Trust: "verified", Roles: []string{"mail"}}, nil},
		"a chain":                    {Claim{AgentID: "bot", Tool: "x", Chain: []string{"parent", "bot"}, Parent: "parent"}, nil},
		"a chain of one":             {Claim{AgentID: "bot", Tool: "x", Chain: []string{"bot"}}, nil},
		"a chain under the claim":    {Claim{AgentID: "bot", Tool: "x", ClaimedAgent: "alias", Chain: []string{"parent", "alias"}}, []string{ClaimOverridden}},
		"too long for the settings":  {Claim{AgentID: "bot", Tool: "x", Chain: []string{"parent", "short", "low", "bot"}}, []string{ChainTooDeep}},
		"too long for the agent":     {Claim{AgentID: "short", Tool: "x", Chain: []string{"parent", "bot", "short"}}, []string{ChainTooDeep}},
		"too long for the request":   {Claim{AgentID: "bot", Tool: "x", MaxDelegation: &one, Chain: []string{"parent", "bot"}}, []string{ChainTooDeep}},
		"a negative limit":           {Claim{AgentID: "bot", Tool: "x", MaxDelegation: &negative, Chain: []string{"bot"}}, []string{ChainTooDeep}},
		"a loop":                     {Claim{AgentID: "bot", Tool: "x", Chain: []string{"bot", "parent", "bot"}}, []string{ChainBroken}},
		"somebody else at the end":   {Claim{AgentID: "bot", Tool: "x", Chain: []string{"bot", "parent"}}, []string{ChainBroken}},
		"an unknown link":            {Claim{AgentID: "bot", Tool: "x", Chain: []string{"who", "bot"}}, []string{Unregistered}},
		"a revoked link":             {Claim{AgentID: "bot", Tool: "x", Chain: []string{"gone", "bot"}}, []string{AgentRevoked}},
		"another parent":             {Claim{AgentID: "bot", Tool: "x", Chain: []string{"short", "bot"}, Parent: "parent"}, []string{ChainBroken}},
		"an unknown parent":          {Claim{AgentID: "bot", Tool: "x", Parent: "who"}, []string{Unregistered}},
		"the registered manifest":    {Claim{AgentID: "bot", Tool: "hashed", ManifestHash: "SHA256:" + strings.ToUpper(manifest)}, nil},
		"another manifest":           {Claim{AgentID: "bot", Tool: "hashed", ManifestHash: strings.Repeat("0", 64)}, []string{BadProvenance}},
		"no manifest":                {Claim{AgentID: "bot", Tool: "hashed"}, nil},
		"no manifest where needed":   {Claim{AgentID: "bot", Tool: "strict"}, []string{BadProvenance}},
		"a revoked tool":             {Claim{AgentID: "bot", Tool: "retired"}, []string{ToolRevoked}},
		"an unverified MCP tool":     {Claim{AgentID: "bot", Tool: "mcp"}, []string{UnverifiedMCP}},
		"a verified one":             {Claim{AgentID: "bot", Tool: "mcp-ok"}, nil},
		"a stranger that says MCP":   {Claim{AgentID: "bot", Tool: "new", Provider: "mcp"}, []string{UnverifiedMCP}},
		"MCP that says it is custom": {Claim{AgentID: "bot", Tool: "mcp", Provider: "custom"}, []string{UnverifiedMCP}},
		"the look of a known tool":   {Claim{AgentID: "bot", Tool: "strıct"}, []string{ToolLookalike}},
		"the look of a revoked tool": {Claim{AgentID: "bot", Tool: "retıred"}, []string{ToolLookalike}},
		"one letter for two":         {Claim{AgentID: "bot", Tool: "rncp"}, []string{ToolLookalike}},
		"another case":               {Claim{AgentID: "bot", Tool: "Strict"}, []string{ToolLookalike}},
		"another case throughout":    {Claim{AgentID: "bot", Tool: "STRICT"}, []string{ToolLookalike}},
		"both":                       {Claim{AgentID: "bot", Tool: "STRıCT"}, []string{ToolLookalike}},
		"a digit for a letter":       {Claim{AgentID: "bot", Tool: "h1gh"}, nil},
		"no attestation":             {Claim{AgentID: "attests", Tool: "x"}, []string{BadAttestation}},
	} {
		if got := codes(snapshot().Check(tc.claim, now)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	s := snapshot()
	s.Settings.OnlyRegisteredTools, s.Settings.AllowUnverifiedMCP = true, true
	if got := codes(s.Check(Claim{AgentID: "bot", Tool: "x"}, now)); !slices.Equal(got, []string{ToolUnknown}) {
		t.Errorf("only registered tools: %v", got)
	}
	if got := codes(s.Check(Claim{AgentID: "bot", Tool: "strıct"}, now)); !slices.Equal(got, []string{ToolUnknown, ToolLookalike}) {
		t.Errorf("only registered tools, and the look of one: %v", got)
	}
	s.AddTool(Tool{Name: "strıct"})
	if got := s.Check(Claim{AgentID: "bot", Tool: "strıct"}, now); got != nil {
		t.Errorf("registered, whatever it looks like: %v", got)
	}
	if got := s.Check(Claim{AgentID: "bot", Tool: "mcp"}, now); got != nil {
		t.Errorf("unverified allowed: %v", got)
	}
}

func TestKillSwitchOrder(t *testing.T) {
	s := snapshot()
	if _, killed := s.Killed("bot"); killed {
		t.Error("nothing is on")
	}
	s.Kills["bot"] = Kill{AgentID: "bot"}
	if f, _ := s.Killed("bot"); f.Code != AgentKill || f.Route != engine.Refuse {
		t.Errorf("got %+v", f)
	}
	if _, killed := s.Killed("parent"); killed {
		t.Error("another agent is stopped")
	}
	s.Kills[""] = Kill{}
	if f, _ := s.Killed("bot"); f.Code != GlobalKill {
		t.Errorf("the global one comes first: %+v", f)
	}
}

func attest(t testing.TB, agent string, a Attestation) Attestation {
	t.Helper()
	private, _ := issuer()
	a.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(private, a.Signed(agent)))
	return a
}

func TestAttestation(t *testing.T) {
	good := Attestation{Issuer: "idp", IssuedAt: "2026-11-21T11:00:00Z", ExpiresAt: "2026-11-21T13:00:00Z"}
	with := func(change func(*Attestation)) Attestation {
		a := good
		change(&a)
		return attest(t, "attests", a)
	}
	for name, tc := range map[string]struct {
		a    Attestation
		good bool
	}{
		"good":                  {attest(t, "attests", good), true},
		"without an end":        {with(func(a *Attestation) { a.ExpiresAt = "" }), true},
		"a little ahead":        {with(func(a *Attestation) { a.IssuedAt = "2026-11-21T12:00:20Z" }), true},
		"another agent's":       {attest(t, "bot", good), false},
		"expired":               {with(func(a *Attestation) { a.ExpiresAt = "2026-11-21T12:00:00Z" }), false},
		"from the future":       {with(func(a *Attestation) { a.IssuedAt = "2026-11-21T12:01:00Z" }), false},
		"an unknown issuer":     {with(func(a *Attestation) { a.Issuer = "me" }), false},
		"no time":               {with(func(a *Attestation) { a.IssuedAt = "today" }), false},
		"no end that is a time": {with(func(a *Attestation) { a.ExpiresAt = "never" }), false},
		"unsigned":              {good, false},
	} {
		found := snapshot().Check(Claim{AgentID: "attests", Tool: "x", Attestation: &tc.a}, now)
		if (found == nil) != tc.good {
			t.Errorf("%s: %v", name, found)
		}
	}
	// It must hold wherever it is shown, needed or not.
	if got := codes(snapshot().Check(Claim{AgentID: "bot", Tool: "x", Attestation: &good}, now)); !slices.Equal(got, []string{BadAttestation}) {
		t.Errorf("an unsigned one of an agent that needs none: %v", got)
	}
	// No bit of it can be changed.
	rapid.Check(t, func(r *rapid.T) {
		a := attest(t, "attests", good)
		raw, _ := base64.StdEncoding.DecodeString(a.Signature)
		raw[rapid.IntRange(0, len(raw)-1).Draw(r, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		a.Signature = base64.StdEncoding.EncodeToString(raw)
		if snapshot().Check(Claim{AgentID: "attests", Tool: "x", Attestation: &a}, now) == nil {
			r.Fatal("a changed signature was believed")
		}
	})
}

// Whatever a request claims, who it is stays what is registered.
func TestClaimsNeverWin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := snapshot()
		c := Claim{
			AgentID: rapid.SampledFrom([]string{"bot", "short", "low", "who"}).Draw(r, "agent"), Tool: rapid.SampledFrom([]string{"x", "mcp", "high", "hashed"}).Draw(r, "tool"),
			ClaimedAgent: rapid.SampledFrom([]string{"", "bot", "root"}).Draw(r, "claimed"), Type: rapid.SampledFrom([]string{"", "ide_agent"}).Draw(r, "type"),
			Trust: rapid.SampledFrom(append(engine.TrustLevels(), "")).Draw(r, "trust"), Roles: rapid.SliceOf(rapid.SampledFrom([]string{"mail", "root"})).Draw(r, "roles"),
			Provider: rapid.SampledFrom([]string{"", "mcp", "custom"}).Draw(r, "provider"),
		}
		plain := Claim{AgentID: c.AgentID, Tool: c.Tool}
		who, is := s.Identify(c), s.Identify(plain)
		if who.Type != is.Type || who.Trust != is.Trust || !slices.Equal(who.Roles, is.Roles) {
			r.Fatalf("claims made %+v of %+v", who, is)
		}
		refusals := func(found []engine.Finding) (n int) {
			for _, f := range found {
				if f.Route == engine.Refuse {
					n++
				}
			}
			return n
		}
		if refusals(s.Check(c, now)) < refusals(s.Check(plain, now)) {
			r.Fatal("a claim made it looser")
		}
	})
}

func TestMistakesAreNamed(t *testing.T) {
	deep := 101
	many := Limits{Agent: Rate{Calls: -1}, Tool: Rate{Calls: 5}, Session: Rate{Calls: maxRateCalls + 1, Per: engine.Duration(time.Millisecond)}}
	var errs []string
	for _, list := range [][]error{
		Agent{ID: "a\u200b", Name: "", Roles: []string{""}, MaxDelegation: &deep, Limits: &many}.Check(),
		Tool{Name: strings.Repeat("x", 513), ManifestHash: "ABC", NeedsManifest: true}.Check(),
		Tool{Name: "x", NeedsManifest: true}.Check(),
		Settings{MaxDelegation: -1, Issuers: map[string]Key{"idp": []byte("short")}}.Check(),
	} {
		for _, err := range list {
			errs = append(errs, err.Error())
		}
	}
	text := strings.Join(errs, "\n")
	for _, want := range []string{
		"agent_id: holds", "name: is missing", "roles[0]: is missing", "max_delegation_depth: want 0 to 100, got 101", "limits.agent.calls", "limits.tool.per",
		"limits.session.calls", "limits.session.per", "tool_name: has 513", "manifest_hash: want", "needs_manifest: there is no", "got -1", `the key of "idp"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if errs := (Agent{ID: "bоt", Name: "Bot"}).Check(); len(errs) != 1 {
		t.Errorf("a Cyrillic о in an agent's id: %v", errs)
	}
	if errs := (Agent{ID: "bot", Name: "Bot"}).Check(); len(errs) != 0 {
		t.Error(errs)
	}
	if errs := DefaultSettings().Check(); len(errs) != 0 {
		t.Error(errs)
	}
}

// What is registered reads back as it was written: it is kept as JSON.
func TestJSON(t *testing.T) {
	_, key := issuer()
	in := Settings{Limits: Limits{Agent: Rate{5, engine.Duration(time.Minute)}}, MaxDelegation: 2, MinTrust: engine.Verified, Issuers: map[string]Key{"idp": key}}
	encoded, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Settings
	if err := json.Unmarshal(encoded, &out); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(out)
	if string(again) != string(encoded) || !strings.Contains(string(encoded), `"per":"1m0s"`) || !strings.Contains(string(encoded), `"min_trust_level":"verified"`) {
		t.Errorf("%s\n%s", encoded, again)
	}
	if err := json.Unmarshal([]byte(`{"min_trust_level":"root"}`), &out); err == nil {
		t.Error("an unknown level was read")
	}
}
