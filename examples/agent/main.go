// Command agent is an AI agent's side of Holdpoint, without the AI: it proposes
// three tool calls and does with each what Holdpoint says. The tools are
// pretended; everything else is real.
//
//	go run ./cmd/holdpoint dev        in one terminal
//	go run ./examples/agent           in another
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	holdpoint "holdpoint.example/client"
)

const usage = `An example agent. It proposes three tool calls to Holdpoint:

  a public read     accepted at once
  a dangerous drop  refused at once
  a payment         waits until a person approves or denies it in the browser

Start "go run ./cmd/holdpoint dev" first. Ctrl-C takes the payment back.

Examples:
  go run ./examples/agent
  go run ./examples/agent -data /tmp/try
  go run ./examples/agent -url https://holdpoint.example.com -key "$AGENT_KEY"

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled):
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, help io.Writer) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a mistake is one line; only -help is more
	data := flags.String("data", ".holdpoint", "`DIR`ectory of a running “holdpoint dev”")
	url := flags.String("url", "", "`URL` of a server, instead of -data")
	key := flags.String("key", "", "the agent's API `key` for -url")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(help)
		fmt.Fprint(help, usage)
		flags.PrintDefaults()
	}
	if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not understood; -help lists the flags", flags.Arg(0))
	}
	place := server{URL: *url, Key: *key}
	if (*url == "") != (*key == "") {
		return errors.New("-url and -key belong together")
	}
	if *url == "" {
		if place, err = readDev(*data); err != nil {
			return err
		}
	}
	a := agent{client: &holdpoint.Client{URL: place.URL, Key: place.Key}, server: place, out: out}
	for _, step := range []func(context.Context) error{a.search, a.drop, a.pay} {
		if err := step(ctx); err != nil {
			return a.explain(err)
		}
	}
	return nil
}

// server is what the agent may know of DIR/dev.json: neither the people's
// passwords nor anybody else's keys.
type server struct {
	URL       string   `json:"url"`
	Key       string   `json:"agent_key"`
	Reviewers []person `json:"reviewers"`

	dir string
}

type person struct {
	Email string   `json:"email"`
	Roles []string `json:"roles"`
}

func readDev(dir string) (server, error) {
	s := server{dir: dir}
	path := filepath.Join(dir, "dev.json")
	content, err := os.ReadFile(path) // #nosec G304 -- the user names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s is not there: start “go run ./cmd/holdpoint dev” first, and give its --data here as -data", path)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil || s.URL == "" || s.Key == "" {
		return s, fmt.Errorf("%s is not what “holdpoint dev” writes", path)
	}
	return s, nil
}

type agent struct {
	client *holdpoint.Client
	server server
	out    io.Writer
}

func (a agent) say(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }

// search is harmless: the gate lets it through.
func (a agent) search(ctx context.Context) error {
	a.say("1. search_docs: a public read")
	return a.atOnce(ctx, holdpoint.Event{
		ToolName: "search_docs", ToolCategory: holdpoint.PublicRead, AuthorizationState: holdpoint.None,
		RiskDomain: "public_information", RecommendedRoute: holdpoint.Accept,
		Arguments: map[string]any{"query": "how do refunds work"},
	})
}

// drop is what an agent proposes that has read too much: the agent itself finds
// it acceptable, and says why with a password in its hand.
func (a agent) drop(ctx context.Context) error {
	a.say("\n2. drop_database: a write that nobody asked for")
	return a.atOnce(ctx, holdpoint.Event{
		ToolName: "drop_database", ToolCategory: holdpoint.Write, AuthorizationState: holdpoint.UserClaimed,
		RiskDomain: "devops", RecommendedRoute: holdpoint.Accept,
		Arguments: map[string]any{"database": "production"},
		EvidenceRefs: []any{holdpoint.Evidence{
			SourceID: "chat:17", Kind: "user_message", TrustTier: "user_claimed", Redaction: "redacted",
			Summary: "The note says: password = example-only-4711, so it must be fine.",
		}},
	})
}

// atOnce proposes a call that the gate is expected to decide by itself.
func (a agent) atOnce(ctx context.Context, e holdpoint.Event) error {
	d, err := a.client.Check(ctx, e)
	switch {
	case err != nil:
		return err
	case holdpoint.ShouldExecute(d):
		a.say("   accepted, running it … done")
	case d.Approval == nil:
		a.say("   refused: %s", codes(d))
	default:
		a.say("   it would wait for people, so it is taken back: %s", strings.Join(d.HardBlockers, ", "))
		_, err = a.client.Cancel(ctx, d.Approval.ID)
	}
	return err
}

// codes are why a call is refused: those of the call's own document first, then those of
// policies and registry, in capital letters.
func codes(d holdpoint.Decision) string {
	list := slices.Clone(d.HardBlockers)
	ofRules := func(code string) int {
		if code == strings.ToUpper(code) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b string) int { return ofRules(a) - ofRules(b) })
	text := strings.Join(list, ", ")
	if slices.ContainsFunc(list, func(code string) bool { return strings.HasSuffix(code, "_KILL_SWITCH") || code == "KILL_SWITCH" }) {
		text += "\n   (a kill switch is on: whoever threw it knows why; “holdpoint release” ends it)"
	}
	return text
}

// pay needs a person. holdpoint.Client.Guard does all of this in one call; here
// it is step by step.
func (a agent) pay(ctx context.Context) error {
	a.say("\n3. send_payment: 1,250.00 EUR to Paper & Pens Ltd.")
	payment := holdpoint.Event{
		ToolName: "send_payment", ToolCategory: holdpoint.Write, AuthorizationState: holdpoint.Authenticated,
		RiskDomain: "finance", RecommendedRoute: holdpoint.Defer,
		UserIntent: "Pay the open invoice of our stationery supplier.",
		Arguments: map[string]any{
			"amount": "1250.00", "currency": "EUR", "to": "Paper & Pens Ltd.", "iban": "DE02120300000000202051",
			"reference": "Invoice 2026-0042",
		},
		EvidenceRefs: []any{holdpoint.Evidence{
			SourceID: "invoice:2026-0042", Kind: "tool_result", TrustTier: "verified", Redaction: "redacted",
			RetrievedAt: time.Now().UTC().Format(time.RFC3339), Freshness: &holdpoint.Freshness{Status: "fresh"},
			Summary: "Open invoice of the supplier, amount and account match.", Provenance: "accounting",
		}},
	}
	d, err := a.client.Check(ctx, payment)
	switch {
	case err != nil:
		return err
	case holdpoint.ShouldExecute(d):
		a.say("   accepted, “paying” … done (this server's policy asks nobody)")
		return nil
	case d.Approval == nil:
		a.say("   refused: %s", codes(d))
		return nil
	case d.Approval.Status.Final():
		a.say("   nobody is asked again: %s", d.Approval.Links.Review)
		a.tellNo(*d.Approval)
		return nil
	}
	a.say("   waits for %s", needs(*d.Approval))
	a.say("   review it   %s", d.Approval.Links.Review)
	a.say("   sign in as  %s", a.whoMay(*d.Approval))

	ended, err := a.await(ctx, *d.Approval)
	switch {
	case ctx.Err() != nil:
		return a.takeBack(ctx, d.Approval.ID)
	case err != nil:
		return err
	case ended.Status != holdpoint.Approved:
		a.tellNo(ended)
		return nil
	case ended.Token == "":
		return errors.New("it is approved, but there is no token: its time to run is over, or this key is another agent's")
	}
	arguments := payment.Arguments
	if e := ended.Edited; e != nil {
		a.say("   a reviewer changed %s: %s", strings.Join(e.Changed, ", "), e.Comment)
		arguments = e.Arguments // what was approved is what runs
	}
	a.say("   approved; redeeming the token for exactly this payment")
	if _, err := a.client.Redeem(ctx, ended.Token, payment.ToolName, arguments); err != nil {
		return err
	}
	a.say("   redeemed, “paying” … done")
	if err := a.client.Report(ctx, ended.ID, holdpoint.Succeeded, 40*time.Millisecond); err != nil {
		return err
	}
	a.say("   reported: succeeded")
	a.say("\nEvery step is in the audit log, under %s.", ended.ID)
	return nil
}

// await waits for people and shows that it does.
func (a agent) await(ctx context.Context, waiting holdpoint.Approval) (holdpoint.Approval, error) {
	fmt.Fprintf(a.out, "   waiting until %s (Ctrl-C takes it back) ", clock(waiting.ExpiresAt))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprint(a.out, ".")
			case <-stop:
				fmt.Fprintln(a.out)
				return
			}
		}
	}()
	ended, err := a.client.Await(ctx, waiting.ID)
	close(stop)
	<-stopped
	return ended, err
}

// clock is a time of day, with its date when that is not today.
func clock(t time.Time) string {
	t = t.Local()
	if now := time.Now(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2 January 15:04")
}

// takeBack cancels what nobody waits for any more.
func (a agent) takeBack(ctx context.Context, id string) error {
	cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	_, err := a.client.Cancel(cancelling, id)
	var p *holdpoint.Problem
	switch {
	case errors.As(err, &p):
		a.say("   too late to take it back: %s", p.Detail)
	case err != nil:
		return err
	default:
		a.say("   taken back; nobody has to look at it any more")
	}
	return ctx.Err()
}

// tellNo says kindly why the payment is not made.
func (a agent) tellNo(ended holdpoint.Approval) {
	switch ended.Status {
	case holdpoint.Denied:
		a.say("   denied, so nothing is paid.")
		if d := ended.Denial; d != nil {
			if d.Comment != "" {
				a.say("   the reviewer says: %q", d.Comment)
			}
			a.say("   %s", advice(*d))
			return
		}
		for _, reason := range ended.Reasons {
			a.say("   %s", reason.Message)
		}
	case holdpoint.Expired:
		a.say("   nobody decided in time, so nothing is paid. It may be proposed again.")
	case holdpoint.Cancelled:
		a.say("   it was taken back, so nothing is paid.")
	case holdpoint.Pending, holdpoint.Approved:
	}
}

func advice(d holdpoint.Denial) string {
	switch d.Kind {
	case "wrong_args":
		return "That means: the right idea with the wrong arguments. Correct them and propose it again."
	case "not_now":
		return fmt.Sprintf("That means: not now. It may be proposed again in %s.", time.Duration(d.RetryAfter)*time.Second)
	case "needs_info":
		return "That means: say more. Bring better evidence and propose it again."
	case "never":
		return "That means: never. It must not be proposed again."
	}
	return "It must not be proposed again without asking."
}

// needs says in words what the approval waits for.
func needs(a holdpoint.Approval) string {
	var list []string
	for _, r := range a.Requirements {
		list = append(list, fmt.Sprintf("a %s by %d × %s", r.Kind, r.Needed, r.Role))
	}
	return strings.Join(list, ", then ")
}

// whoMay names the example people whose role it takes.
func (a agent) whoMay(waiting holdpoint.Approval) string {
	var roles, emails []string
	for _, r := range waiting.Requirements {
		roles = append(roles, r.Role)
	}
	for _, p := range a.server.Reviewers {
		if slices.ContainsFunc(p.Roles, func(role string) bool { return slices.Contains(roles, role) }) {
			emails = append(emails, p.Email)
		}
	}
	if len(emails) == 0 {
		return "somebody with the role " + strings.Join(roles, " or ")
	}
	return fmt.Sprintf("%s (the password is where “holdpoint dev” printed it, and in %s)", strings.Join(emails[:min(2, len(emails))], " or "),
		filepath.Join(a.server.dir, "dev.json"))
}

// explain adds what to do about an error.
func (a agent) explain(err error) error {
	var p *holdpoint.Problem
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &p) && p.Code == "unauthenticated":
		return fmt.Errorf("%w — is the key of this server, and not of another one?", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing answers at %s: is “holdpoint dev” still running?", a.server.URL)
	}
	return err
}
