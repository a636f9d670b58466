package approval

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/passkeytest"
)

func signed(f Fact) Fact {
	f.Signed = true
	return f
}

func signedReview(needed int) engine.Requirement {
	r := review(needed)
	r.Signed = true
	return r
}

func TestOnlySignedVotesCountWhereTheyAreDemanded(t *testing.T) {
	first, second := engine.Requirement{Kind: engine.Human, Role: "a", Needed: 1, Signed: true}, engine.Requirement{Kind: engine.Human, Role: "b", Needed: 1}
	granted := yes(1, "ada", 1)
	granted.Details.Grant = "grt_1"
	for _, tc := range []struct {
		name  string
		plan  Plan
		facts []Fact
		wants []error
		want  Status
	}{
		{"unsigned", long(signedReview(1)), []Fact{yes(1, "ada", 1)}, []error{ErrNotSigned}, Pending},
		{"signed", long(signedReview(1)), []Fact{signed(yes(1, "ada", 1))}, nil, Approved},
		{"one of two", long(signedReview(2)), []Fact{signed(yes(1, "ada", 1)), yes(2, "ben", 2)}, []error{nil, ErrNotSigned}, Pending},
		{"unsigned, then signed", long(signedReview(1)), []Fact{yes(1, "ada", 1), signed(yes(2, "ada", 2))}, []error{ErrNotSigned}, Approved},
		{"an unsigned no", long(signedReview(1)), []Fact{no(1, "ada", 1)}, []error{ErrNotSigned}, Pending},
		{"a signed no", long(signedReview(1)), []Fact{signed(no(1, "ada", 1))}, nil, Denied},
		{"a standing grant", long(signedReview(1)), []Fact{granted}, []error{ErrNotSigned}, Pending},
		{"who could not even signed", long(signedReview(1)), []Fact{yes(1, "owner", 1)}, []error{ErrSelfReview}, Pending},
		{"beside what takes none", long(first, second), []Fact{yes(1, "ben", 1), yes(2, "ada", 2), signed(yes(3, "ada", 3))}, []error{nil, ErrNotSigned}, Approved},
	} {
		t.Run(tc.name, func(t *testing.T) { wantStatus(t, try(t, tc.plan, tc.facts, tc.wants...), tc.want) })
	}
	if !Possible(long(signedReview(1)), nil, []Voter{people["ada"]}, start) {
		t.Error("nobody could sign")
	}
	a := Approval{Plan: long(signedReview(1)), Status: Pending}
	if !a.NeedsSignature(people["ada"], true, start) || !a.NeedsSignature(people["ada"], false, start) || a.MayVote(people["ada"], start) != nil {
		t.Error("a vote that has to be signed takes no signature, or is impossible")
	}
	if a.Plan.Requirements[0].Signed = false; a.NeedsSignature(people["ada"], true, start) {
		t.Error("a vote that has not to be signed takes a signature")
	}
}

func TestBreakGlassIsSignedWhereVotesAre(t *testing.T) {
	glass := by(1, BreakGlass, "eve", 1)
	glass.Details.Alone = true
	wantStatus(t, try(t, long(signedReview(1)), []Fact{glass}, ErrNotSigned), Pending)
	wantStatus(t, try(t, long(signedReview(1)), []Fact{signed(glass)}), Approved)
	// What is left takes a signature, though it is not its turn.
	wantStatus(t, try(t, long(engine.Requirement{Kind: engine.Ticket, Needed: 1}, signedReview(1)), []Fact{glass}, ErrNotSigned), Pending)
}

func TestSignedIsStricter(t *testing.T) {
	plain, demanding := engine.Decision{Requirements: []engine.Requirement{review(1)}}, engine.Decision{Requirements: []engine.Requirement{signedReview(1)}}
	if left := engine.Unmet(plain.Requirements, demanding); len(left) != 1 {
		t.Errorf("unsigned votes are as much as signed ones: %v", left)
	}
	if left := engine.Unmet(demanding.Requirements, plain); len(left) != 0 {
		t.Errorf("signed votes are less than unsigned ones: %v", left)
	}
	plain.Route, demanding.Route = engine.Defer, engine.Defer
	plain.Findings = []engine.Finding{{Source: "x", Code: "y", Route: engine.Defer}}
	for _, d := range []engine.Decision{plain.Stricter(demanding), demanding.Stricter(plain)} {
		if len(d.Requirements) != 1 || !d.Requirements[0].Signed {
			t.Errorf("the stricter of both is %+v", d.Requirements)
		}
	}
	if got := engine.Combined(plain.Requirements, demanding.Requirements); len(got) != 1 || !got[0].Signed {
		t.Errorf("both together are %+v", got)
	}
	rule := Rule{Role: "a", Needed: 1, Signed: true, ExpiresIn: hour}
	for _, r := range rule.Apply([]engine.Requirement{{Kind: engine.Review}, {Kind: engine.Answer}, {Kind: engine.StepUp}, {Kind: engine.Ticket}}) {
		if r.Signed != r.Kind.PeopleDecide() || r.Kind == engine.Answer {
			t.Errorf("the rule makes %+v", r)
		}
	}
}

// casting is a pending approval with one vote that a passkey has signed, and its log.
type casting struct {
	t      *testing.T
	key    *passkeytest.Authenticator
	a      Approval
	events []engine.Event
}

func admin(t *testing.T, who, code string, payload any) engine.Event {
	t.Helper()
	told, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Event{Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code}}, SafePayload: told, Actor: engine.Actor{Kind: engine.HumanActor, ID: who}}
}

func added(t *testing.T, who string, a *passkeytest.Authenticator) engine.Event {
	key := a.Key()
	return admin(t, who, passkey.Added, passkey.Change{Factor: "passkey", Person: who, Passkey: &key})
}

const card = "sha256:0123"

func voted(f Fact) engine.Event {
	return engine.Event{Type: engine.Voted, ApprovalID: "apr_1", Outcome: engine.RequireApproval, Actor: f.Actor, DigestHMAC: "hmac-sha256:call"}
}

// sign has the passkey sign the fact as its event will tell of it.
func (c *casting) sign(by *passkeytest.Authenticator, f Fact) Fact {
	c.t.Helper()
	f.Details.Signature = &Signature{Nonce: "nonce", ConstraintsDigest: ConstraintsDigest(f.Details.Salt, f.Details.Constraints)}
	e, err := SignedEvent(voted(f), f, card)
	if err != nil {
		c.t.Fatal(err)
	}
	challenge, err := Challenge(e)
	if err != nil {
		c.t.Fatal(err)
	}
	f.Details.Signature.Assertion = by.Assert(challenge[:])
	return f
}

func (c *casting) logs(f Fact) {
	c.t.Helper()
	e, err := SignedEvent(voted(f), f, card)
	if err != nil {
		c.t.Fatal(err)
	}
	c.a.Facts, c.events = append(c.a.Facts, f), append(c.events, e)
}

func cast(t *testing.T) *casting {
	c := &casting{t: t, key: passkeytest.New(t, "console.example.com")}
	c.a = Approval{ID: "apr_1", Status: Pending, Plan: long(signedReview(2))}
	c.a.Plan.Edition = 1
	c.events = []engine.Event{added(t, "usr_ada", c.key)}
	return c
}

func ballotOf(seq int64) Fact {
	f := yes(seq, "ada", 1)
	f.Actor = engine.Actor{Kind: engine.HumanActor, ID: "usr_ada", Channel: "console"}
	f.Edition, f.Comment = 1, "fine"
	f.Details.Salt, f.Details.Constraints, f.Details.ValidFor = "salt", json.RawMessage(`{"max_amount": 100}`), hour
	return f
}

func TestOnlyWhatWasSignedIsSigned(t *testing.T) {
	for name, tc := range map[string]struct {
		// edit changes the fact after it was signed, and before its event tells of it; then
		// the log after that.
		edit func(f *Fact)
		then func(c *casting)
		good bool
	}{
		"as it was signed": {good: true},
		"constraints written in another way": {good: true, then: func(c *casting) {
			c.a.Facts[0].Details.Constraints = json.RawMessage(`{"max_amount":1e2}`)
		}},
		"a no made a yes":     {edit: func(f *Fact) { f.Yes, f.Denial = !f.Yes, Never }},
		"another edition":     {edit: func(f *Fact) { f.Edition++ }},
		"another comment":     {edit: func(f *Fact) { f.Comment = "never" }},
		"no comment":          {edit: func(f *Fact) { f.Comment = "" }},
		"other constraints":   {edit: func(f *Fact) { f.Details.Constraints = json.RawMessage(`{"max_amount":1000000}`) }},
		"no constraints":      {edit: func(f *Fact) { f.Details.Constraints = nil }},
		"a longer permission": {edit: func(f *Fact) { f.Details.ValidFor *= 2 }},
		"in somebody's place": {edit: func(f *Fact) { f.Via = []string{"usr_ben"} }},
		"another nonce":       {edit: func(f *Fact) { f.Details.Signature.Nonce = "other" }},
		"no nonce":            {edit: func(f *Fact) { f.Details.Signature.Nonce = "" }},
		"by a standing grant": {edit: func(f *Fact) { f.Details.Grant = "grt_1" }},
		"a broken glass":      {edit: func(f *Fact) { f.Kind = BreakGlass }, then: func(c *casting) { c.events[1].Type = engine.Broken }},
		"another person's":    {edit: func(f *Fact) { f.Actor.ID = "usr_ben" }},
		"an altered signature": {edit: func(f *Fact) {
			f.Details.Signature.Signature = append(passkey.Bytes{}, f.Details.Signature.Signature...)
			f.Details.Signature.Signature[9] ^= 1
		}},
		"no signature":     {edit: func(f *Fact) { f.Details.Signature = nil }},
		"another approval": {then: func(c *casting) { c.a.ID, c.events[1].ApprovalID = "apr_2", "apr_2" }},
		"another call":     {then: func(c *casting) { c.events[1].DigestHMAC = "hmac-sha256:other" }},
		"another card": {then: func(c *casting) {
			c.events[1], _ = SignedEvent(c.events[1], c.a.Facts[0], "sha256:4567")
		}},
		"a row that differs": {then: func(c *casting) { c.a.Facts[0].Details.ValidFor *= 2 }},
		"a key that is not in the log": {then: func(c *casting) {
			c.events = c.events[1:]
		}},
		"a key that came later": {then: func(c *casting) { slices.Reverse(c.events) }},
		"a key that was reset before": {then: func(c *casting) {
			c.events = slices.Insert(c.events, 1, admin(c.t, "key_admin", passkey.Reset, map[string]string{"person": "usr_ada"}))
		}},
		"a key that was reset afterwards": {good: true, then: func(c *casting) {
			c.events = append(c.events, admin(c.t, "key_admin", passkey.Reset, map[string]string{"person": "usr_ada"}))
		}},
		"a second key that nobody signed": {then: func(c *casting) {
			other := passkeytest.New(c.t, "console.example.com")
			f := c.sign(other, ballotOf(1))
			c.a.Facts, c.events = nil, []engine.Event{c.events[0], added(c.t, "usr_ada", other)}
			c.logs(f)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cast(t)
			f := c.sign(c.key, ballotOf(1))
			if tc.edit != nil {
				copied := *f.Details.Signature
				f.Details.Signature = &copied
				tc.edit(&f)
			}
			c.logs(f)
			if tc.then != nil {
				tc.then(c)
			}
			c.a.HoldAgainst(c.events, nil)
			if good := len(c.a.Facts) == 1 && c.a.Facts[0].Signed; good != tc.good || len(c.a.Facts)+len(c.a.Unlogged) != 1 {
				t.Errorf("it counts: %t; %+v", good, c.a.Unlogged)
			}
		})
	}
}

func TestSignatureIsGoodOnce(t *testing.T) {
	c := cast(t)
	vote := c.sign(c.key, ballotOf(1))
	c.logs(vote)
	vote.Seq = 2
	c.logs(vote)
	c.a.HoldAgainst(c.events, nil)
	if len(c.a.Facts) != 1 || len(c.a.Unlogged) != 1 || c.a.Unlogged[0].Seq != 2 {
		t.Errorf("counted: %+v, and not: %+v", c.a.Facts, c.a.Unlogged)
	}
}

func TestWhatIsSignedWithoutBeingAskedMustBeGood(t *testing.T) {
	c := cast(t)
	c.a.Plan.Requirements = []engine.Requirement{review(1)}
	vote := c.sign(c.key, ballotOf(1))
	vote.Comment = "never"
	c.logs(vote)
	plain := ballotOf(2)
	plain.Actor.ID = "usr_ben"
	c.logs(plain)
	c.a.HoldAgainst(c.events, nil)
	if len(c.a.Facts) != 1 || c.a.Facts[0].Seq != 2 {
		t.Errorf("counted: %+v", c.a.Facts)
	}
	if err := VerifySigned(c.events[2], &passkey.Keys{}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("what has no signature: %v", err)
	}
}

// What was signed is what strangers compute (docs/audit-verify.md).
func TestStatementIsStable(t *testing.T) {
	f := ballotOf(1)
	f.At = time.Time{}
	f.Details.Signature = &Signature{Nonce: "nonce", ConstraintsDigest: ConstraintsDigest("salt", f.Details.Constraints)}
	e, err := SignedEvent(voted(f), f, card)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Challenge(e)
	if err != nil {
		t.Fatal(err)
	}
	want, err := passkey.Challenge(json.RawMessage(`{"approval":"apr_1","call":"hmac-sha256:call","card":"sha256:0123",
		"comment":"` + CommentDigest("salt", "fine") + `","constraints":"` + CommentDigest("salt", `{"max_amount":100}`) + `",
		"decision":"approve","edition":1,"nonce":"nonce","person":"usr_ada","v":"holdpoint-vote-v1","valid_for":"1h0m0s"}`))
	if err != nil || got != want {
		t.Errorf("got %x, want %x, %v", got, want, err)
	}
}
