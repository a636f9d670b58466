package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/seal"
)

type notifyCommand struct {
	List    notifyList    `cmd:"" help:"List endpoints."`
	Add     notifyAdd     `cmd:"" help:"Add a webhook, an e-mail, a Slack or a web push endpoint."`
	Set     notifySet     `cmd:"" help:"Change what an endpoint is told, and where it leads."`
	Test    notifyTest    `cmd:"" help:"Send a test, and wait for what comes of it."`
	Disable notifyDisable `cmd:"" help:"Switch an endpoint off."`
	Enable  notifyEnable  `cmd:"" help:"Switch an endpoint on again."`
	Rotate  notifyRotate  `cmd:"" help:"Give an endpoint a new secret."`
	Dead    notifyDead    `cmd:"" help:"List notifications that were given up."`
	Resend  notifyResend  `cmd:"" help:"Send notifications again that were given up."`
}

// devSealer has the data key of a data directory.
func devSealer(dir string) (*seal.Sealer, error) {
	data, err := os.ReadFile(filepath.Join(dir, "secrets.json")) // #nosec G304 -- the user names the directory
	if err != nil {
		return nil, fmt.Errorf("read the data key: %w", err)
	}
	var kept struct {
		DataKey string `json:"data_key"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, errors.New("read the data key: secrets.json cannot be read")
	}
	key, err := seal.ParseKey(kept.DataKey)
	if err != nil {
		return nil, fmt.Errorf("read the data key: %w", err)
	}
	return seal.New(key)
}

type notifyAdd struct {
	approvable
	Kind    string        `arg:"" enum:"webhook,email,slack,push" help:"webhook, email, slack or push."`
	Name    string        `arg:"" help:"A name for people."`
	URL     string        `name:"url" help:"Where a webhook or Slack is posted to. “-” reads it from standard input, so that no list of processes shows it." placeholder:"URL"`
	To      []string      `help:"Mail address, or “reviewers” for everybody who could act; again for more." placeholder:"ADDRESS"`
	Tell    []string      `help:"Only this: opened, stage, edited, reminder, escalated, passed_on, info_requested, info_given, break_glass, decided, nobody_eligible, review_owed, execution_unknown, access_review; again for more." placeholder:"WHAT"`
	Role    []string      `help:"Only approvals that ask this role; again for more." placeholder:"ROLE"`
	Tool    []string      `help:"Only this tool, or prefix with *; again for more." placeholder:"TOOL"`
	Agent   []string      `help:"Only this agent; again for more." placeholder:"ID"`
	Digest  time.Duration `help:"Gather for so long and tell at once; what is urgent is not gathered." placeholder:"15m"`
	Own     bool          `help:"Tell each address only of what its owner could act on, took part in or answers for."`
	Format  string        `help:"How a webhook's body is written: cloudevents; Holdpoint's own form when left out." placeholder:"FORMAT"`
	Plain   bool          `help:"Allow http, to networks that outbound_allow_private names."`
	Ed25519 bool          `name:"ed25519" help:"Sign webhooks with a key pair instead of a shared secret."`
	slackFlags
}

// slackFlags says what of Slack decides.
type slackFlags struct {
	Decide            *string `help:"Slack: let people decide calls there whose danger is at most this: low or medium; nothing for links only." placeholder:"DANGER"`
	SigningSecretFile string  `name:"signing-secret-file" help:"Slack: file with the signing secret of the app that the address is of." placeholder:"FILE"`
}

// signing reads the signing secret, "" for none.
func (s slackFlags) signing() (string, error) {
	if s.SigningSecretFile == "" {
		return "", nil
	}
	secret, err := os.ReadFile(s.SigningSecretFile)
	if err != nil {
		return "", fmt.Errorf("read the signing secret: %w", err)
	}
	return strings.TrimSpace(string(secret)), nil
}

// tellSlack says what Slack has to be told of an endpoint at which calls are decided.
func tellSlack(id string) {
	fmt.Fprintf(terminal, "in the app's settings, with your public_url: interactivity at /v1/slack/interactions/%s, the command /holdpoint at /v1/slack/commands/%s\n", id, id)
}

// Help is shown by "holdpoint notify add --help".
func (notifyAdd) Help() string {
	return `A webhook's secret is printed once. Its receiver verifies by it that a webhook is
genuine (docs/notifications.md shows how). E-mail goes by the mail server of the
settings (smtp).

Examples:
  holdpoint notify add email "The reviewers" --to reviewers
  holdpoint notify add email "The team's box" --to team@example.com --digest 15m
  holdpoint notify add webhook "Incident desk" --url https://desk.example.com/hooks \
    --tell break_glass --tell execution_unknown
  holdpoint notify add push "People's browsers"
  holdpoint notify add slack "#approvals" --url - --role finance-approver < address
  holdpoint notify add slack "#small" --url - --decide low --signing-secret-file secret < address`
}

func (a *notifyAdd) Run(ctx context.Context, c *cli) error {
	address, err := addressOf(a.URL)
	if err != nil {
		return err
	}
	signing, err := a.signing()
	if err != nil {
		return err
	}
	r, by, err := a.sealedAdministration(ctx, c)
	if err != nil {
		return err
	}
	settings := notify.Settings{
		Roles: a.Role, Tools: a.Tool, Agents: a.Agent, To: a.To, Own: a.Own, Digest: engine.Duration(a.Digest), Format: a.Format,
	}
	for _, t := range a.Tell {
		settings.Kinds = append(settings.Kinds, engine.NotificationKind(t))
	}
	set(&settings.Decide, a.Decide)
	id, shown, err := r.Endpoints.Add(ctx, by, admin.NewEndpoint{
		Kind: a.Kind, Name: a.Name, Settings: settings, URL: address, Plain: a.Plain, Ed25519: a.Ed25519, Signing: signing,
	})
	if err != nil && id == "" {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s  %s %q\n", id, a.Kind, a.Name)
	showSecret(shown)
	if err != nil { // it waits for its approval
		return plain(err)
	}
	if a.Kind == notify.Push {
		fmt.Fprintln(terminal, "people switch it on for their browsers, and try it, on the page of their account")
		return nil
	}
	if settings.Decide != "" {
		tellSlack(id)
	}
	if a.Kind == notify.Email && c.mailLink == nil {
		fmt.Fprintln(terminalError, "careful: these settings have no mail server (smtp): nothing is mailed before the worker's have one")
	}
	try := "notify test " + id
	if slices.Contains(a.To, "reviewers") {
		try += " --to ADDRESS" // whoever could act has no address of its own
	}
	fmt.Fprintln(terminal, "try it:", a.command(try))
	return nil
}

type notifySet struct {
	approvable
	ID     string         `arg:"" help:"The endpoint's id."`
	URL    string         `name:"url" help:"Another address of a webhook or Slack. “-” reads it from standard input." placeholder:"URL"`
	Plain  bool           `help:"Allow http for that address, to networks that outbound_allow_private names."`
	To     *[]string      `help:"Mail address, or “reviewers”; again for more." placeholder:"ADDRESS"`
	Tell   *[]string      `help:"Only this, as for “notify add”; again for more." placeholder:"WHAT"`
	Role   *[]string      `help:"Only approvals that ask this role; again for more." placeholder:"ROLE"`
	Tool   *[]string      `help:"Only this tool, or prefix with *; again for more." placeholder:"TOOL"`
	Agent  *[]string      `help:"Only this agent; again for more." placeholder:"ID"`
	Digest *time.Duration `help:"Gather for so long and tell at once; 0s for not." placeholder:"15m"`
	Own    *bool          `help:"Tell each address only of what its owner could act on, took part in or answers for." negatable:""`
	Format *string        `help:"How a webhook's body is written: cloudevents, or nothing for Holdpoint's own form." placeholder:"FORMAT"`
	slackFlags
}

// Help is shown by "holdpoint notify set --help".
func (notifySet) Help() string {
	return `What is not given stays as it is, and so does what a webhook is signed with. A list
that is given takes the place of the one that there is; an empty one, as in --role=,
leaves nothing out. Where endpoints take an approval, one that is on goes on as it is
until then.

Examples:
  holdpoint notify set end_4f… --to reviewers --to team@example.com
  holdpoint notify set end_4f… --role= --digest 15m
  holdpoint notify set end_4f… --decide=             people decide in the console only`
}

func (n *notifySet) Run(ctx context.Context, c *cli) error {
	address, err := addressOf(n.URL)
	if err != nil {
		return err
	}
	signing, err := n.signing()
	if err != nil {
		return err
	}
	r, by, err := n.sealedAdministration(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Endpoints.Change(ctx, by, n.ID, admin.EndpointChange{Settings: n.settings, URL: address, Plain: n.Plain, Signing: signing}); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "changed %s\n", n.ID)
	if n.Decide != nil && *n.Decide != "" {
		tellSlack(n.ID)
	}
	return nil
}

// settings replaces what was given.
func (n *notifySet) settings(s *notify.Settings) {
	replace(&s.To, n.To)
	replace(&s.Kinds, n.Tell)
	replace(&s.Roles, n.Role)
	replace(&s.Tools, n.Tool)
	replace(&s.Agents, n.Agent)
	set(&s.Digest, (*engine.Duration)(n.Digest))
	set(&s.Own, n.Own)
	set(&s.Format, n.Format)
	set(&s.Decide, n.Decide)
}

// replace replaces a list by one that was given, without what is empty.
func replace[T ~string](list *[]T, given *[]string) {
	if given == nil {
		return
	}
	*list = nil
	for _, value := range *given {
		if value != "" {
			*list = append(*list, T(value))
		}
	}
}

// addressOf is an address as it was given; “-” stands for what standard input has.
func addressOf(given string) (string, error) {
	if given != "-" {
		return given, nil
	}
	interruptible()
	if _, err := fmt.Fscanln(os.Stdin, &given); err != nil {
		return "", fmt.Errorf("read the address: %w", err)
	}
	return given, nil
}

// showSecret prints what the receiver verifies by.
func showSecret(shown string) {
	if shown == "" {
		return
	}
	fmt.Fprintf(terminal, "%s\nThe receiver verifies by this. It is not shown again.\n", shown)
}

type notifyList struct {
	databaseFlags
	listing
}

func (l *notifyList) Run(ctx context.Context, c *cli) error {
	r, err := l.reading(ctx, c)
	if err != nil {
		return err
	}
	list, _, err := r.Endpoints.Overview(ctx, 0)
	if err != nil {
		return err
	}
	if l.JSON {
		return printEach(list, endpointListed)
	}
	if len(list) == 0 {
		fmt.Fprintln(terminal, `nobody is told yet: holdpoint notify add email "The reviewers" --to reviewers`)
		return nil
	}
	var waits []string
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tKIND\tNAME\tTO\tTOLD\tSTATE\tSENT\tWAITING\tDEAD")
	for _, e := range list {
		state, to, kinds := "on", e.Settings.Host, "everything"
		if e.DisabledAt != nil {
			state = "off"
		}
		if e.ApprovalID != "" {
			state += ", change waits"
			waits = append(waits, fmt.Sprintf("%s: a change waits for its approval: %s", e.ID, e.ApprovalID))
		}
		if e.Kind == notify.Email {
			to = strings.Join(e.Settings.To, ",")
		}
		if len(e.Settings.Kinds) > 0 {
			words := make([]string, len(e.Settings.Kinds))
			for i, t := range e.Settings.Kinds {
				words[i] = string(t)
			}
			kinds = strings.Join(words, ",")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", e.ID, e.Kind, e.Name, to, kinds, state, e.Sent, e.Waiting, e.Dead)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, line := range waits {
		fmt.Fprintln(terminal, line)
	}
	return nil
}

type notifyTest struct {
	databaseFlags
	ID   string        `arg:"" help:"The endpoint's id."`
	To   string        `help:"Where the test of an e-mail endpoint goes; its first address when left out." placeholder:"ADDRESS"`
	Wait time.Duration `default:"30s" help:"How long to wait for what comes of it."`
}

// Help is shown by "holdpoint notify test --help".
func (notifyTest) Help() string {
	return `The worker sends it, as it sends everything: what this says is what will happen.

Examples:
  holdpoint notify test end_4f…
  holdpoint notify test end_4f… --to ada@example.com`
}

func (t *notifyTest) Run(ctx context.Context, c *cli) error {
	r, by, err := t.administration(ctx, c)
	if err != nil {
		return err
	}
	id, err := r.Endpoints.Test(ctx, by, t.ID, t.To)
	if err != nil {
		return plain(err)
	}
	deadline := time.NewTimer(t.Wait)
	defer deadline.Stop()
	for {
		d, err := r.Endpoints.Delivery(ctx, id)
		switch {
		case err != nil:
			return plain(err)
		case d.Status == "sent":
			fmt.Fprintf(terminal, "sent %s\n", id)
			return nil
		case d.Attempts > 0:
			return fmt.Errorf("%s was not taken: %s", id, d.Reason)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%s still waits after %s: is a worker running?", id, t.Wait)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

type notifyDisable struct {
	databaseFlags
	ID string `arg:"" help:"The endpoint's id."`
}

func (d *notifyDisable) Run(ctx context.Context, c *cli) error {
	return switchEndpoint(ctx, c, d.administration, d.ID, true)
}

type notifyEnable struct {
	approvable
	ID string `arg:"" help:"The endpoint's id."`
}

func (e *notifyEnable) Run(ctx context.Context, c *cli) error {
	return switchEndpoint(ctx, c, e.administration, e.ID, false)
}

func switchEndpoint(ctx context.Context, c *cli, as administers, id string, off bool) error {
	r, by, err := as(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Endpoints.Switch(ctx, by, id, off); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s is %s\n", id, map[bool]string{true: "off", false: "on"}[off])
	return nil
}

type notifyRotate struct {
	approvable
	ID      string        `arg:"" help:"The endpoint's id."`
	URL     string        `name:"url" help:"A Slack endpoint's new address. “-” reads it from standard input." placeholder:"URL"`
	Overlap time.Duration `default:"24h" help:"For how long the former secret signs as well; 0s drops it at once."`
}

// Help is shown by "holdpoint notify rotate --help".
func (notifyRotate) Help() string {
	return `Until the overlap is over webhooks are signed with both secrets. The new one is
printed once. With the owner's login a webhook's secret is another one at once;
another address of Slack waits where endpoints take an approval.

Examples:
  holdpoint notify rotate end_4f…
  holdpoint notify rotate end_4f… --overlap 0s        it has become known`
}

func (n *notifyRotate) Run(ctx context.Context, c *cli) error {
	address, err := addressOf(n.URL)
	if err != nil {
		return err
	}
	r, by, err := n.sealedAdministration(ctx, c)
	if err != nil {
		return err
	}
	shown, err := r.Endpoints.RotateSecret(ctx, by, n.ID, address, n.Overlap)
	if err == nil {
		fmt.Fprintf(terminal, "%s has a new secret\n", n.ID)
	}
	showSecret(shown)
	return plain(err) // it may wait for its approval
}

type notifyDead struct {
	databaseFlags
	listing
	Limit int `default:"50" help:"How many at most." placeholder:"N"`
}

func (d *notifyDead) Run(ctx context.Context, c *cli) error {
	r, err := d.reading(ctx, c)
	if err != nil {
		return err
	}
	_, list, err := r.Endpoints.Overview(ctx, min(max(d.Limit, 1), 1000))
	if err != nil {
		return err
	}
	if d.JSON {
		return printEach(list, deadListed)
	}
	if len(list) == 0 {
		fmt.Fprintln(terminal, "no notification was given up")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tGIVEN UP\tENDPOINT\tTO\tABOUT\tATTEMPTS\tREASON")
	for _, n := range list {
		about := n.Kind
		if n.ApprovalID != "" {
			about += " " + n.ApprovalID
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", n.ID, n.At.Format(time.RFC3339), n.Endpoint, n.Recipient, about, n.Attempts, n.Reason)
	}
	return table.Flush()
}

type notifyResend struct {
	databaseFlags
	ID []string `arg:"" help:"The notifications' ids."`
}

// Help is shown by "holdpoint notify resend --help".
func (notifyResend) Help() string {
	return `They keep their ids, so that a receiver can tell a repetition.

Example:
  holdpoint notify dead
  holdpoint notify resend ntf_7q…`
}

func (n *notifyResend) Run(ctx context.Context, c *cli) error {
	r, by, err := n.administration(ctx, c)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range n.ID {
		if err := r.Endpoints.Resend(ctx, by, id); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, plain(err)))
			continue
		}
		fmt.Fprintf(terminal, "%s is sent again\n", id)
	}
	return errors.Join(errs...)
}
