package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/engine/cosign"
	"holdpoint/internal/observer"
)

type auditVerify struct {
	File      string   `arg:"" optional:"" help:"An export (JSON Lines), an evidence pack, or - for standard input."`
	URL       string   `help:"Verify the log that is served there instead; with HOLDPOINT_API_KEY set, its events as well." placeholder:"URL"`
	Key       []string `help:"The log's public key (name+hash+base64), or a file of such." placeholder:"KEY"`
	Witness   []string `help:"The public key of a witness that has to have signed the checkpoint as well, or a file of such." placeholder:"KEY"`
	Witnessed int      `help:"How many of those witnesses are enough; without it, all of them." placeholder:"N"`
	Former    []string `help:"A checkpoint of the same log from before, in a file: the log has to continue it." type:"path" placeholder:"FILE"`
	State     string   `help:"Remember the checkpoint here, and hold the next verification against it." type:"path" placeholder:"FILE"`
	Quiet     bool     `short:"q" help:"Say nothing when all is well, and no progress."`

	witnesses audit.Witnesses
	disclosed *audit.Disclosure // of an evidence pack
}

// Exit codes of verify, for scripts.
const (
	exitBad       exitCode = 1 // it is not what it claims to be
	exitUnchecked exitCode = 2 // it could not be checked
	exitUntrusted exitCode = 3 // it agrees with itself, and nobody knows who signed it
)

// Help is shown by "holdpoint audit verify --help".
func (auditVerify) Help() string {
	return `Reads only what it is given, and asks nobody. It checks that the checkpoint is signed
by the log's key; that every event is the one that the log has in its place, in
order, none missing, none cut off; and, by computing it again, that every approval
came about by the rules: enough votes of people who may, nobody of the requesting
side, one end, a token spent once and in time.

Get the public key from somebody else than whoever gave you the export. Without
--key it is only known that the export agrees with itself.

Exit codes: 0 all is well; 1 something is wrong, and the first line says what and
where; 2 it could not be checked; 3 all is well, but no key was given.

Examples:
  holdpoint audit verify log.jsonl --key log-key.pub
  holdpoint audit verify --url https://holdpoint.example.com --key log-key.pub --state ~/.holdpoint-log
  holdpoint audit verify log.jsonl --key log-key.pub --witness w1.pub`
}

func (v *auditVerify) Run(ctx context.Context) error {
	interruptible()
	err := v.run(ctx)
	var exit exitCode
	if err == nil || errors.As(err, &exit) {
		return err
	}
	fmt.Fprintln(terminalError, "holdpoint:", err)
	return exitUnchecked
}

func (v *auditVerify) run(ctx context.Context) error {
	if (v.File == "") == (v.URL == "") {
		return errors.New("name either a file or --url")
	}
	verifiers, err := v.verifiers()
	if err != nil {
		return err
	}
	former, err := v.formerCheckpoints(verifiers)
	if err != nil {
		return err
	}
	if v.witnesses, err = v.cosigners(len(verifiers) > 0); err != nil {
		return err
	}
	var report audit.Report
	if v.URL != "" {
		report, err = v.served(ctx, verifiers, former)
	} else {
		report, err = v.file(verifiers, former)
	}
	if err != nil {
		return err
	}
	return v.print(report, len(verifiers) > 0)
}

// verifiers are the keys that were given, each once.
func (v *auditVerify) verifiers() ([]note.Verifier, error) {
	return readVerifiers("--key", v.Key, func(line string) (note.Verifier, error) {
		one, err := audit.ParseVerifiers(line)
		if err != nil {
			return nil, err
		}
		return one[0], nil
	})
}

// cosigners are the witnesses that were given.
func (v *auditVerify) cosigners(trusted bool) (w audit.Witnesses, err error) {
	w.Needed = v.Witnessed
	if w.Keys, err = readVerifiers("--witness", v.Witness, cosign.NewVerifier); err != nil {
		return w, err
	}
	names := map[string]bool{}
	for _, k := range w.Keys {
		names[k.Name()] = true
	}
	switch {
	case len(names) > 0 && !trusted:
		return w, errors.New("--witness is worth something with --key only")
	case w.Needed < 0 || w.Needed > len(names):
		return w, fmt.Errorf("--witnessed: want 1 to %d, the number of witnesses that are named by --witness", len(names))
	}
	return w, nil
}

// readVerifiers reads keys, one a line, from files or as they are; each comes once.
func readVerifiers(option string, args []string, parse func(line string) (note.Verifier, error)) ([]note.Verifier, error) {
	var verifiers []note.Verifier
	known := map[string]bool{}
	for _, arg := range args {
		text, err := readKeys(arg)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		keys := 0
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			one, err := parse(line)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", option, err)
			}
			if keys++; !known[line] {
				verifiers = append(verifiers, one)
			}
			known[line] = true
		}
		if keys == 0 {
			return nil, fmt.Errorf("%s: there is no key in it", option)
		}
	}
	return verifiers, nil
}

// formerCheckpoints reads the checkpoints that the log has to continue.
func (v *auditVerify) formerCheckpoints(verifiers []note.Verifier) ([]audit.Checkpoint, error) {
	files := v.Former
	if v.State != "" {
		switch _, err := os.Stat(v.State); {
		case err == nil:
			files = append(files, v.State)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err // a state that cannot be read is not none
		case len(verifiers) == 0:
			return nil, errors.New("--state is worth something with --key only")
		}
	}
	var list []audit.Checkpoint
	for _, path := range files {
		signed, err := os.ReadFile(path) // #nosec G304 -- the user names the file
		if err != nil {
			return nil, err
		}
		if len(verifiers) == 0 {
			return nil, errors.New("a former checkpoint is worth something with --key only")
		}
		c, err := audit.OpenCheckpoint(signed, verifiers...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// file verifies an export.
func (v *auditVerify) file(verifiers []note.Verifier, former []audit.Checkpoint) (audit.Report, error) {
	var in io.Reader = os.Stdin
	var size int64
	if v.File != "-" {
		f, err := os.Open(v.File)
		if err != nil {
			return audit.Report{}, err
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	return v.read(in, size, &audit.Verifier{Verifiers: verifiers, Former: former, Witnesses: v.witnesses})
}

// read gives a verifier every line.
func (v *auditVerify) read(in io.Reader, size int64, verifier *audit.Verifier) (audit.Report, error) {
	progress := func(int64, int64) {}
	if !v.Quiet && size > 0 {
		progress = progressOf("verified byte")
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	var done int64
	for {
		line, err := boundedLine(lines)
		done += int64(len(line))
		if len(line) > 0 {
			whole := bytes.TrimSuffix(line, []byte("\n"))
			if done == int64(len(line)) && bytes.HasPrefix(bytes.TrimSpace(whole), []byte("<")) {
				if v.URL != "" {
					return audit.Report{}, errors.New("the server was asked for an export, and gives a page")
				}
				return v.pack(io.MultiReader(bytes.NewReader(line), lines), verifier)
			}
			verifier.Line(whole)
			progress(done, size)
		}
		if errors.Is(err, io.EOF) || verifier.Over() {
			return verifier.Done(), nil
		}
		if err != nil {
			return audit.Report{}, err
		}
	}
}

// boundedLine reads a line that no event can be longer than.
func boundedLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > canon.MaxBytes {
			return nil, fmt.Errorf("a line has more than %d bytes: it is no export", canon.MaxBytes)
		}
	}
}

// print says what was found, and remembers the checkpoint of a log that is well.
func (v *auditVerify) print(r audit.Report, trusted bool) error {
	if r.Keyless {
		return errors.New("the export names no key, so nothing of it could be checked: give the log's public key with --key")
	}
	if len(r.Problems) > 0 {
		for _, p := range r.Problems {
			fmt.Fprintln(terminal, "BAD ", p.Error())
		}
		if r.More > 0 {
			fmt.Fprintf(terminal, "BAD  and %d more\n", r.More)
		}
		return exitBad
	}
	if !v.Quiet {
		describe(r)
		if v.disclosed != nil {
			tellDisclosed(*v.disclosed)
		}
	}
	switch {
	case !trusted:
		fmt.Fprintln(terminal, "note no --key was given: this export agrees with itself, but anybody could have made it")
		return exitUntrusted
	case r.Unheld > 0:
		// The state stays as it is: it would be moved to a log that was not compared.
		return errors.New("a part of the log cannot be held against a former checkpoint: it takes the whole log, or the log that is served (--url)")
	case v.State != "":
		return writeSecret(v.State, []byte(r.Header.Checkpoint))
	}
	return nil
}

// describe says what was checked.
func describe(r audit.Report) {
	c := r.Checkpoint
	fmt.Fprintf(terminal, "ok   %s signed a log of %s\n", c.Origin, plural(c.Size, "event"))
	for _, w := range r.Cosigned {
		fmt.Fprintf(terminal, "ok   %s has signed it too, on %s\n", w.Witness, w.At.UTC().Format(time.RFC3339))
	}
	if r.Header.Whole {
		fmt.Fprintf(terminal, "ok   all %d events are those, in order, none missing\n", r.Events)
	} else {
		fmt.Fprintf(terminal, "ok   these %d events are among those; whether others fit the filter cannot be told from a part\n", r.Events)
	}
	switch {
	case !r.Replayed && r.Header.Whole:
		return // of a served log only entries were read
	case !r.Replayed:
		fmt.Fprintln(terminal, "note what became of approvals was not computed again: it takes an export of the whole log, of a time, or of one approval, agent or tool")
		return
	}
	fmt.Fprintf(terminal, "ok   %s ended by the rules, %d still open, %s spent once and in time\n",
		plural(r.Approvals.Ended, "approval"), r.Approvals.StillOpen, plural(r.Approvals.Redeemed, "token"))
	describeSigned(r)
	if r.Approvals.Unjudged > 0 {
		fmt.Fprintf(terminal, "note %s could not be computed again: not all of their events are here, or they are from before the log told enough\n", plural(r.Approvals.Unjudged, "approval"))
	}
}

// maxSigners is how many passkeys are named.
const maxSigners = 20

// describeSigned says which votes are signed, and by whose passkeys.
func describeSigned(r audit.Report) {
	if n := r.Approvals.Signed; n > 0 {
		fmt.Fprintf(terminal, "ok   %s signed by the voters’ own passkeys, whose public keys are in the log:\n", plural(n, "vote"))
		signers := slices.SortedFunc(maps.Keys(r.Signed), func(a, b audit.Signer) int {
			return cmp.Or(cmp.Compare(r.Signed[b], r.Signed[a]), cmp.Compare(a.Person, b.Person), cmp.Compare(a.Credential, b.Credential))
		})
		for i, s := range signers {
			if i == maxSigners {
				fmt.Fprintf(terminal, "     and %s\n", plural(len(signers)-i, "more passkey"))
				break
			}
			fmt.Fprintf(terminal, "     %s by %s, passkey %.16s\n", plural(r.Signed[s], "vote"), s.Person, s.Credential)
		}
	}
	if n := r.Approvals.SignedUnknown; n > 0 {
		fmt.Fprintf(terminal, "note %s signed by passkeys of which these events do not tell: it takes the whole log\n", plural(n, "vote"))
	}
	if n := r.Approvals.Resets; n > 0 {
		fmt.Fprintf(terminal, "note an administrator’s reset took somebody’s passkeys %s, unsigned: the next passkey was believed\n", plural(n, "time"))
	}
}

// served verifies a log over HTTP, and with an API key its events as well.
func (v *auditVerify) served(ctx context.Context, verifiers []note.Verifier, former []audit.Checkpoint) (audit.Report, error) {
	if len(verifiers) == 0 {
		return audit.Report{}, errors.New("a served log is verified with --key only: otherwise whoever serves it chooses the key")
	}
	if u, err := url.Parse(v.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return audit.Report{}, fmt.Errorf("--url: want an address such as https://holdpoint.example.com, not %q", v.URL)
	}
	base := strings.TrimSuffix(strings.TrimSuffix(v.URL, "/"), "/log")
	log := &observer.Log{URL: base + "/log", Verifiers: verifiers, Former: former, Witnesses: v.witnesses}
	if !v.Quiet {
		log.Progress = progressOf("verified entry")
	}
	seen, err := log.Verify(ctx)
	if wrong := (*observer.Problem)(nil); errors.As(err, &wrong) {
		return audit.Report{Problems: []audit.Problem{wrong.Problem}}, nil
	}
	if err != nil {
		return audit.Report{}, err
	}
	report := audit.Report{Checkpoint: seen.Checkpoint, Header: audit.Header{Checkpoint: string(seen.Signed), Whole: true}, Events: seen.Checkpoint.Size, Cosigned: seen.Cosigned}
	key := os.Getenv("HOLDPOINT_API_KEY")
	if key == "" {
		if !v.Quiet {
			fmt.Fprintln(terminal, "note the entries were checked, not what happened: set HOLDPOINT_API_KEY to a key that may read the audit log")
		}
		return report, nil // nothing is known of approvals: Replayed is false
	}
	// What the events say has to continue what was just seen.
	events, err := exported(ctx, base, key)
	if err != nil {
		return report, err
	}
	defer func() { _ = events.Close() }()
	report, err = v.read(events, 0, &audit.Verifier{Verifiers: verifiers, Former: append(former, seen.Checkpoint), Witnesses: v.witnesses})
	if err == nil && len(report.Problems) == 0 && !report.Keyless && !report.Header.Whole {
		// A part says nothing of what it leaves out.
		report.Problems = []audit.Problem{{Line: 1, What: "the server was asked for the whole log, and gives a part of it"}}
	}
	return report, err
}

// silentFor is how long a server that exports may say nothing.
const silentFor = 2 * time.Minute

// exported asks a server for the whole log. The key goes to that address and to no other.
func exported(ctx context.Context, base, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	heard := &heardBody{cause: func() error { return context.Cause(ctx) }, end: func() { cancel(nil) }}
	heard.silent = time.AfterFunc(silentFor, func() { cancel(fmt.Errorf("the server has said nothing for %s", silentFor)) })
	failed := func(err error) (io.ReadCloser, error) {
		err = fmt.Errorf("ask for the events: %w", cmp.Or(context.Cause(ctx), err))
		heard.stop()
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/audit/export?format=jsonl", http.NoBody)
	if err != nil {
		return failed(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r) //nolint:bodyclose // heard closes it
	if err != nil {
		return failed(err)
	}
	heard.ReadCloser = answer.Body
	switch {
	case answer.StatusCode == http.StatusOK:
		return heard, nil
	case answer.StatusCode/100 == 3:
		err = fmt.Errorf("ask for the events: the server sends elsewhere, to %q, where HOLDPOINT_API_KEY does not go: if that is right, name that address by --url", answer.Header.Get("Location"))
	default:
		err = fmt.Errorf("ask for the events: the server answers %d (HOLDPOINT_API_KEY has to be a key that may read the audit log)", answer.StatusCode)
	}
	return nil, errors.Join(err, heard.Close())
}

// heardBody is an answer whose silence ends it.
type heardBody struct {
	io.ReadCloser
	silent *time.Timer
	cause  func() error // why it has ended
	end    func()
}

// Read begins the silence anew.
func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.silent.Reset(silentFor)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the events: %w", cmp.Or(b.cause(), err))
	}
	return n, err
}

// Close ends it.
func (b *heardBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

func (b *heardBody) stop() {
	b.silent.Stop()
	b.end()
}
