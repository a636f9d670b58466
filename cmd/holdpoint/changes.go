package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

type changesCommand struct {
	Require changesRequire `cmd:"" help:"Have people approve every change of the policy, of tool contracts, roles, routing, settings, endpoints or retention, sign every policy, or name themselves in commands, from now on."`
	Free    changesFree    `cmd:"" help:"Let such changes come into force at once, policies unsigned, or commands without a key, again."`
	List    changesList    `cmd:"" help:"List the changes that people have to approve or sign, and who."`
}

type changesRequire struct {
	databaseFlags
	Kind      string          `arg:"" enum:"policy,contracts,roles,routing,settings,endpoints,retention,signatures,operator-key" help:"policy, contracts, roles, routing, settings, endpoints, retention; or signatures, or operator-key."`
	Role      string          `help:"Role whose people approve, or sign."  placeholder:"ROLE"`
	Needed    int             `help:"How many of them: beside the author, where they approve." default:"1" placeholder:"N"`
	Deny      int             `help:"How many have to say no; the first no when left out." placeholder:"N"`
	ExpiresIn time.Duration   `help:"How long a change waits before it lapses; 72h when left out." placeholder:"DURATION"`
	Signed    bool            `help:"Only votes count that the voter's own passkey has signed."`
	Reminder  []time.Duration `help:"Remind those who have not decided after this; again for more." placeholder:"DURATION"`
	ByGroup   []string        `help:"With roles: a role that a provider's group may go on giving at once (SCIM, single sign-on); again for more." placeholder:"ROLE"`
}

// Help is shown by "holdpoint changes require --help".
func (changesRequire) Help() string {
	return `A changed policy does not come into force then: it waits for people, as a call does,
who see the difference, what it would have done to past calls, its author and the
reason. Whoever has written it does not approve it. What they approve is what comes
into force; denied or expired, the present policy stays.

With roles, giving somebody a role waits, by whichever door; with routing, putting
somebody on call; with settings, what is set for all agents and registered of agents and
tools; with endpoints, switching one on that was added, changed or switched off; with
retention, releasing a legal hold and lowering the floor. Taking away is done at once: a
role, a shift, a registration, an endpoint; and so is placing a hold. What a provider's
group gives by the settings' mapping waits for nobody where --by-group names the role;
other roles it does not give any more. Changes by “holdpoint apply” wait together.

A changed policy_file is proposed by itself. Nobody knows who has written it, so one
person more has to approve it; “holdpoint policy propose --author” names somebody.

With signatures, no policy comes into force, by a file, a command or an approval, that has
not the signatures of so many people with the role (“holdpoint policy signer”, “holdpoint
policy sign --key”). The policy in force has to have them already. Every serve and worker
checks them before it judges by a policy.

With operator-key, every command that changes something names the key of whoever runs it
(--operator-key, HOLDPOINT_OPERATOR_KEY_FILE), so that the log has a name and no login of
the machine. Stopping an agent (“holdpoint kill”) waits for no key.

The database enforces it: serve and worker cannot put anything else in force. It takes
the login that owns the database to change this, or to go round it in an emergency
(“holdpoint policy activate”), and that is on record.

Example:
  holdpoint changes require policy --role policy-owner --needed 1 --expires-in 48h
  holdpoint changes require roles --role access-owner --by-group reviewer
  holdpoint changes require signatures --role policy-owner --needed 2
  holdpoint changes require operator-key --operator-key olga.key`
}

func (r *changesRequire) Run(ctx context.Context, c *cli) error {
	a, by, err := r.administration(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case r.Kind == store.OperatorKeyRule:
		return r.operatorKey(ctx, a, by)
	case strings.TrimSpace(r.Role) == "":
		return errors.New("--role: name the role whose people approve, or sign")
	case r.Kind == store.SignaturesRule:
		return r.signatures(ctx, c, by)
	}
	r.ExpiresIn = cmp.Or(r.ExpiresIn, admin.DefaultExpiry)
	rule := approval.Rule{Role: r.Role, Needed: r.Needed, Deny: r.Deny, ExpiresIn: engine.Duration(r.ExpiresIn), Signed: r.Signed}
	for _, after := range r.Reminder {
		rule.Reminders = append(rule.Reminders, engine.Duration(after))
	}
	if err := a.Changes.RequireApproval(ctx, by, r.Kind, rule, r.ByGroup...); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "changes of %s wait for %d × %s from now on\n", store.ChangeWords(r.Kind), rule.Needed, rule.Role)
	people, err := c.opened.People.List(ctx)
	if err != nil {
		return err
	}
	// Whoever writes a change does not approve it.
	if err := approval.Enough(people, rule.Role, rule.Needed+1); err != nil {
		fmt.Fprintf(terminal, "careful: %s, because whoever writes a change does not approve it: “holdpoint user set EMAIL --add-role %s” gives it to more\n",
			err, rule.Role)
	}
	guards, err := c.opened.Rules.Guards(ctx)
	if err != nil {
		return err
	}
	if _, held := guards[store.RolesChange]; !held {
		fmt.Fprintf(terminal, "careful: an administrator alone adds an account and gives it %s: “holdpoint changes require roles --role ROLE” has that approved, too\n", rule.Role)
	}
	return nil
}

// operatorKey has commands name an operator's key. Whoever demands it has one.
func (r *changesRequire) operatorKey(ctx context.Context, a *admin.Admin, by access.Initiator) error {
	if r.Role != "" || r.Needed != 1 || r.Deny != 0 || r.ExpiresIn != 0 || r.Signed || len(r.Reminder)+len(r.ByGroup) > 0 {
		return errors.New("operator-key takes --operator-key, and nothing else: nobody is asked")
	}
	if r.Operator == "" {
		return errors.New("name your own key, so that somebody has one: --operator-key FILE (“holdpoint key create --kind admin --person EMAIL” makes it)")
	}
	if err := a.Changes.RequireOperatorKey(ctx, by); err != nil {
		return plain(err)
	}
	fmt.Fprintln(terminal, "commands that change something name a person's own key from now on (--operator-key, HOLDPOINT_OPERATOR_KEY_FILE)")
	return nil
}

// signatures has policies come into force with the signatures of people only.
func (r *changesRequire) signatures(ctx context.Context, c *cli, by access.Initiator) error {
	if r.Deny != 0 || r.ExpiresIn != 0 || r.Signed || len(r.Reminder)+len(r.ByGroup) > 0 {
		return errors.New("signatures take --role and --needed, and nothing else: nothing waits")
	}
	s := c.opened
	rule := approval.Rule{Role: r.Role, Needed: r.Needed}
	if err := rules.RequireSignatures(ctx, s, by, c.environment, rule); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "a policy takes the signatures of %d × %s for the environment %q from now on\n", rule.Needed, rule.Role, c.environment)
	in, err := s.Rules.Signing(ctx)
	if err != nil {
		return err
	}
	if n := len(rules.CurrentSigners(in)); n <= rule.Needed {
		fmt.Fprintf(terminal, "careful: people with the role %s who have a key that signs: only %d. When one leaves, no policy can follow (“holdpoint policy signer add”)\n", rule.Role, n)
	}
	active, _, err := s.Rules.ActiveDocuments(ctx)
	if _, there := active[store.PolicyDocument]; err == nil && !there {
		fmt.Fprintln(terminal, "careful: no policy is in force, and every call is refused until one is that has them")
	}
	return err
}

type changesFree struct {
	databaseFlags
	Kind   string `arg:"" enum:"policy,contracts,roles,routing,settings,endpoints,retention,signatures,operator-key" help:"policy, contracts, roles, routing, settings, endpoints, retention; or signatures, or operator-key."`
	Reason string `required:"" help:"Why, for the audit log." placeholder:"TEXT"`
}

// Help is shown by "holdpoint changes free --help".
func (changesFree) Help() string {
	return `What waits already goes on waiting.

Example:
  holdpoint changes free policy --reason "one administrator is left"`
}

func (f *changesFree) Run(ctx context.Context, c *cli) error {
	as := f.administration
	if f.Kind == store.OperatorKeyRule {
		as = f.withoutKey
	}
	a, by, err := as(ctx, c)
	if err != nil {
		return err
	}
	if err := a.Changes.NoApproval(ctx, by, f.Kind, f.Reason); err != nil {
		return plain(err)
	}
	switch f.Kind {
	case store.SignaturesRule:
		fmt.Fprintln(terminal, "policies come into force without the signatures of people again")
		return nil
	case store.OperatorKeyRule:
		fmt.Fprintln(terminal, "commands need no operator's key again")
		return nil
	}
	fmt.Fprintf(terminal, "changes of %s come into force at once again\n", store.ChangeWords(f.Kind))
	return nil
}

type changesList struct {
	databaseFlags
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// Help is shown by "holdpoint changes list --help".
func (changesList) Help() string {
	return `Example:
  holdpoint changes list --json`
}

func (l *changesList) Run(ctx context.Context, c *cli) error {
	s, err := l.open(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	guards, err := s.Rules.Guards(ctx)
	if err != nil {
		return err
	}
	if l.JSON {
		return printEach(slices.Sorted(maps.Keys(guards)), func(kind string) guardLine {
			g := guards[kind]
			return guardLine{g.Kind, g.Rule, g.ByGroups, g.SetBy, g.SetAt.UTC()}
		})
	}
	if len(guards) == 0 {
		fmt.Fprintln(terminal, "every change of the rules comes into force at once")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHANGES OF\tWAIT FOR\tAT MOST\tSIGNED\tSINCE\tBY")
	for _, kind := range slices.Sorted(maps.Keys(guards)) {
		g := guards[kind]
		if kind == store.OperatorKeyRule {
			fmt.Fprintf(table, "%s\t-\t-\t-\t%s\t%s\n", kind, g.SetAt.Format(time.RFC3339), g.SetBy)
			continue
		}
		if kind == store.SignaturesRule {
			fmt.Fprintf(table, "%s\t%d × %s\t-\t-\t%s\t%s\n", kind, g.Rule.Needed, g.Rule.Role, g.SetAt.Format(time.RFC3339), g.SetBy)
			continue
		}
		fmt.Fprintf(table, "%s\t%d × %s\t%s\t%t\t%s\t%s\n", kind, g.Rule.Needed, g.Rule.Role, time.Duration(g.Rule.ExpiresIn), g.Rule.Signed, g.SetAt.Format(time.RFC3339), g.SetBy)
	}
	return table.Flush()
}

// guardLine is what --json prints of a kind of rules.
type guardLine struct {
	Kind     string        `json:"kind"`
	Rule     approval.Rule `json:"rule"`
	ByGroups []string      `json:"by_groups,omitempty"`
	SetBy    string        `json:"set_by"`
	SetAt    time.Time     `json:"set_at"`
}

type policyPropose struct {
	databaseFlags
	Contracts bool   `help:"It is a set of tool contracts, not a policy."`
	Author    string `help:"E-mail address of whoever has written it, who does not approve it then." placeholder:"EMAIL"`
	Reason    string `required:"" help:"Why, for those who decide." placeholder:"TEXT"`
	From      string `help:"When it comes into force at the earliest; as soon as it is approved when left out." placeholder:"TIME"`
	File      string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy propose --help".
func (policyPropose) Help() string {
	return `Checks the policy, and has people decide about it where “holdpoint changes require”
says so. They see the difference to the policy in force and what the new one would have
done to past calls; it takes the data key of serve to look at those. Exactly the text of
the file comes into force, whatever becomes of the file.

Without --author it is written by whose own key --operator-key names. Without either,
nobody can be kept from approving what they have written, so one person more has to
approve it.

Example:
  holdpoint policy propose policy.yaml --author ben@example.com --reason "refunds up to 500 without asking"`
}

func (p *policyPropose) Run(ctx context.Context, c *cli) error {
	data, err := os.ReadFile(p.File)
	if err != nil {
		return unreadable(err)
	}
	what := rules.Proposal{Kind: store.PolicyDocument, Data: data, Name: p.File, Reason: p.Reason}
	if p.Contracts {
		what.Kind = store.ContractsDocument
	}
	if p.From != "" {
		if what.From, err = time.Parse(time.RFC3339, p.From); err != nil {
			return errors.New("--from: want a time such as 2026-11-21T12:00:00Z")
		}
	}
	s, k, err := p.rules(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	if what.By, err = p.operator(ctx, s); err != nil {
		return err
	}
	if p.Author != "" {
		author, _, err := s.People.ByEmail(ctx, p.Author)
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("--author: there is nobody with the address %s", p.Author)
		}
		if err != nil {
			return err
		}
		what.Author = &author
	}
	opened, err := k.Propose(ctx, what)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "proposed: waits for %d × %s until %s\n", opened.Needed, opened.Role, opened.ExpiresAt.Local().Format(time.RFC1123))
	if c.publicURL != "" {
		fmt.Fprintf(terminal, "review it: %s/approvals/%s\n", c.publicURL, opened.ApprovalID)
	} else {
		fmt.Fprintf(terminal, "approval:  %s\n", opened.ApprovalID)
	}
	return nil
}

type policyActivate struct {
	databaseFlags
	Contracts bool   `help:"It is a set of tool contracts, not a policy."`
	Reason    string `required:"" help:"Why nobody can be asked, for the audit log." placeholder:"TEXT"`
	File      string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy activate --help".
func (policyActivate) Help() string {
	return `Puts a policy in force at once, also where people should have approved it. It takes
the login that owns the database, and is on record as what it is. What waits for approval
lapses with it: it was approved as a change of another policy.

Example:
  holdpoint policy activate policy.yaml --reason "incident 4711, nobody of policy-owner can be reached"`
}

func (p *policyActivate) Run(ctx context.Context, c *cli) error {
	data, err := os.ReadFile(p.File)
	if err != nil {
		return unreadable(err)
	}
	kind := store.PolicyDocument
	if p.Contracts {
		kind = store.ContractsDocument
	}
	s, k, err := p.rules(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	by, err := p.operator(ctx, s)
	if err != nil {
		return err
	}
	changed, err := k.ActivateAround(ctx, by, kind, data, p.File, p.Reason)
	if err != nil {
		return plain(err)
	}
	if !changed {
		fmt.Fprintln(terminal, "it is in force already")
		return nil
	}
	fmt.Fprintf(terminal, "in force: the %s of %s, by no approval\n", kind, p.File)
	return nil
}

// rules opens the database as the role that owns it, with what is in force there.
func (w databaseFlags) rules(ctx context.Context, c *cli) (*store.Store, *rules.Keeper, error) {
	var settings config.Config
	var err error
	if w.Data != "" {
		if settings, err = devSettings(w.Data); err == nil {
			settings.Environment = devEnvironment
			settings.Sealer, err = devSealer(w.Data)
		}
	} else {
		settings, err = c.load(config.Admin | config.DataKey)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := w.open(ctx, c, true)
	if err != nil {
		return nil, nil, err
	}
	settings.PolicyFile, settings.ContractsFile = "", ""
	k, err := openRules(ctx, settings, s, nil, operator().ID)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, k, nil
}
