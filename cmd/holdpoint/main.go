// Command holdpoint is the approval engine for AI agents' tool calls: the gate,
// the worker, the console and their tools, in one binary. Run it without
// arguments for its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"holdpoint/engine/approval"
	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

// cli is the command line.
type cli struct {
	Config string `help:"YAML file with settings; HOLDPOINT_* variables win over it." env:"HOLDPOINT_CONFIG" type:"path" placeholder:"FILE"`

	Dev         devCommand         `cmd:"" group:"run" help:"Run everything on this machine, to try it and to develop against it."`
	Serve       serveCommand       `cmd:"" group:"run" help:"Run the gate, the API and the console."`
	Worker      workerCommand      `cmd:"" group:"run" help:"Run the worker that sees approvals through to their end."`
	Migrate     migrateCommand     `cmd:"" group:"run" help:"Bring the database's schema up to date."`
	Backup      backupCommand      `cmd:"" group:"run" help:"Copy the database into a directory, while everything runs."`
	Restore     restoreCommand     `cmd:"" group:"run" help:"Bring a backup back into an empty database, and make it safe to go on from."`
	Doctor      doctorCommand      `cmd:"" group:"run" help:"Find out what is wrong with a server, or with a hook, and what to do about it."`
	Healthcheck healthcheckCommand `cmd:"" group:"run" help:"Ask a running server whether it is ready; for containers."`

	Agent   agentCommand   `cmd:"" group:"agents" help:"Register agents, with their trust, roles and limits."`
	Tool    toolCommand    `cmd:"" group:"agents" help:"Register tools, with where they come from."`
	Key     keyCommand     `cmd:"" group:"agents" help:"Create, list, revoke and rotate keys."`
	Kill    killCommand    `cmd:"" group:"agents" help:"Stop an agent, or all of them, at once."`
	Release releaseCommand `cmd:"" group:"agents" help:"Release a kill switch."`

	User         userCommand         `cmd:"" group:"people" help:"Add, invite, change, list and disable the people who decide."`
	OnCall       onCallCommand       `cmd:"" group:"people" name:"on-call" help:"Say and list who is on call."`
	AccessReview accessReviewCommand `cmd:"" group:"people" name:"access-review" help:"Have people review who has which role, and end that with a record."`
	Notify       notifyCommand       `cmd:"" group:"people" help:"Say who is told of approvals, by webhook, e-mail and Slack."`

	Policy      policyCommand      `cmd:"" group:"rules" help:"Check, test, explain, simulate and sign policies."`
	Contracts   contractsCommand   `cmd:"" group:"rules" help:"Check files of tool contracts."`
	Changes     changesCommand     `cmd:"" group:"rules" help:"Say which changes of the rules people have to approve."`
	Limits      settingsCommand    `cmd:"" group:"rules" name:"settings" help:"Show or change limits, delegation and trust for all agents."`
	Apply       applyCommand       `cmd:"" group:"rules" help:"Make what files say: agents, tools, people, endpoints, on-call schedules, settings."`
	Diff        diffCommand        `cmd:"" group:"rules" help:"Say what files would change."`
	Export      exportCommand      `cmd:"" group:"rules" help:"Write what is set up as a file that “apply” reads."`
	Eval        evalCommand        `cmd:"" group:"rules" help:"Judge calls offline: JSON Lines in, JSON Lines out."`
	ToolRequest toolRequestCommand `cmd:"" group:"rules" name:"toolrequest" help:"Check ThreeGate tool execution requests."`

	Connect  connectCommand  `cmd:"" group:"tools" help:"Put Holdpoint before the tools of an agent's host."`
	Hook     hookCommand     `cmd:"" group:"tools" help:"Stand between a coding agent and its tools, as a hook of its host."`
	MCP      mcpCommand      `cmd:"" group:"tools" name:"mcp" help:"Offer the API to models, over the Model Context Protocol."`
	MCPProxy mcpProxyCommand `cmd:"" group:"tools" name:"mcp-proxy" help:"Stand before an MCP server: no call of its tools runs without a permission."`
	Enforce  enforceCommand  `cmd:"" group:"tools" help:"Stand before a tool's server: forward only what a token permits, once."`
	ExtAuthz extAuthzCommand `cmd:"" group:"tools" name:"ext-authz" help:"Tell an Envoy before a tool's server what to let through."`

	Audit     auditCommand     `cmd:"" group:"audit" help:"Export the audit log, and check that nothing in it was changed."`
	Witness   witnessCommand   `cmd:"" group:"audit" help:"Witness another transparency log: cosign its checkpoints as long as it only grows."`
	Retention retentionCommand `cmd:"" group:"audit" help:"Show what is kept for how long, and change the floor."`
	Hold      holdCommand      `cmd:"" group:"audit" help:"Keep records from being erased, for as long as a legal hold lasts."`
	Erase     eraseCommand     `cmd:"" group:"audit" help:"Erase what an approval was about, or who a person is."`
	Keys      keysCommand      `cmd:"" group:"audit" help:"List and change what tokens are signed and arguments are encrypted with."`

	Completion completionCommand `cmd:"" group:"program" help:"Print what has a shell complete commands and flags."`
	Version    versionCommand    `cmd:"" group:"program" help:"Say which build this is, and which schema it needs."`

	opened *store.Store // by administration, until the command has ended
	// allowPrivate are networks that endpoints may be in although they are not public.
	allowPrivate []netip.Prefix
	// routing is that of the settings, and publicURL where people reach the console.
	routing   approval.Routing
	publicURL string
	// environment is that of the settings: where approved calls run.
	environment string
	// mailLink sends links by which people set a password; nil without a mail server.
	mailLink func(ctx context.Context, to, link string, until time.Time) error
}

// groups are the headings of "holdpoint --help", in this order.
var groups = []kong.Group{
	{Key: "run", Title: "To run it:"},
	{Key: "agents", Title: "Agents and tools, and stopping them:"},
	{Key: "people", Title: "People:"},
	{Key: "rules", Title: "Rules, and what is set up:"},
	{Key: "tools", Title: "To stand before an agent's tools:"},
	{Key: "audit", Title: "The audit log, and what is kept:"},
	{Key: "program", Title: "This program:"},
}

const description = `Holdpoint is the approval engine for AI agents' tool calls.

An agent proposes a call; the gate accepts or refuses it at once, or has people
decide; what they approve may run once, exactly as approved, and every step is
in an append-only audit log.

Try it:
  holdpoint dev                                    everything, on 127.0.0.1:8080
  go run ./examples/agent                          an agent that proposes three calls
  holdpoint eval --dialect aana events.jsonl       judge calls without any server
  holdpoint help policy                            a command, and those below it`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tuneGarbage(ctx)
	var c cli
	parser := kong.Must(&c, kong.Name("holdpoint"), kong.Description(description), kong.ShortUsageOnError(), kong.Exit(exitAfterParsing),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, NoExpandSubcommands: true}), kong.ExplicitGroups(groups), kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)), kong.BindTo(ctx, (*context.Context)(nil)))
	command, err := parser.Parse(commandLine(os.Args[1:]))
	parser.FatalIfErrorf(unknownCommand(err))
	err = command.Run(&c)
	if c.opened != nil {
		c.opened.Close()
	}
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(terminalError, "holdpoint:", strings.TrimSuffix(line, "\n"))
		}
		os.Exit(1)
	}
}

// decodeDuration reads a duration. Days are refused with how many hours they are: what a day is would be a
// guess where clocks are changed, and no file of settings or rules has them.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		hint := ""
		if n, wrong := strconv.ParseUint(strings.TrimRight(text, "dD"), 10, 16); wrong == nil && strings.TrimRight(text, "dD") != text {
			hint = fmt.Sprintf(": %s is %dh", text, n*24)
		}
		return fmt.Errorf("want hours, minutes and seconds such as 720h, 90m or 1h30m, got %q%s", text, hint)
	}
	target.Set(reflect.ValueOf(d))
	return nil
}

// commandLine is the command line: without a command, and for "help", it asks for help.
func commandLine(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:], "--help")
	}
	return args
}

// unknownCommand says of a command that there is none what is wrong, where kong says
// "unexpected argument".
func unknownCommand(err error) error {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	rest, is := strings.CutPrefix(err.Error(), "unexpected argument ")
	node := wrong.Context.Model.Node
	if selected := wrong.Context.Selected(); selected != nil {
		node = selected
	}
	if !is || len(node.Children) == 0 {
		return err
	}
	name, hint, found := strings.Cut(rest, ", ")
	if found {
		hint = ": " + hint
	} else {
		hint = ": “" + node.FullPath() + " --help” lists them"
	}
	return &unknownCommandError{fmt.Sprintf("there is no command “%s %s”%s", node.FullPath(), name, hint), wrong}
}

// unknownCommandError is a command that there is none of.
type unknownCommandError struct {
	text string
	err  error
}

func (m *unknownCommandError) Error() string { return m.text }

func (m *unknownCommandError) Unwrap() error { return m.err }

// exitAfterParsing ends the program after help was shown or with 2 after a command
// line that could not be read.
func exitAfterParsing(code int) {
	if code != 0 {
		code = 2
	}
	os.Exit(code)
}

// interruptible lets Ctrl-C end the program at once, for what waits for a person or
// reads a file and has nothing to tidy up.
func interruptible() { signal.Reset(os.Interrupt, syscall.SIGTERM) }

// exitCode ends the program with a code and no further word.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// load reads the configuration and checks it for what a command needs.
func (c *cli) load(need config.Need) (config.Config, error) {
	cfg, err := config.Load(c.Config, os.Environ())
	return cfg, checked(&cfg, err, need)
}

// checked adds to the error of reading a configuration what else is wrong with it. Of a
// file that cannot be read nothing else is known.
func checked(cfg *config.Config, err error, need config.Need) error {
	var unreadable *config.Unreadable
	if errors.As(err, &unreadable) {
		return err
	}
	return errors.Join(err, cfg.Check(need))
}

// openSchema opens a database whose schema is of this program's version.
func openSchema(ctx context.Context, cfg store.Config) (*store.Store, error) {
	s, err := store.Open(ctx, cfg)
	if err == nil {
		if err = s.CheckSchema(ctx); err != nil {
			s.Close()
		}
	}
	return s, err
}

// openStore opens the database for serve and worker, and refuses a role that
// could change the audit log behind its back.
func openStore(ctx context.Context, cfg store.Config) (*store.Store, error) {
	s, err := openSchema(ctx, cfg)
	if err != nil {
		return nil, err
	}
	excess, err := s.ExcessRights(ctx)
	if err == nil && len(excess) > 0 {
		err = fmt.Errorf("database_url, database_people_url: its role may %s: log in as a member of holdpoint_runtime that owns nothing", strings.Join(excess, ", "))
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// logger writes structured lines to standard error.
func logger(cfg config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level}
	if cfg.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
