package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"holdpoint/engine/policy"
	"holdpoint/engine/source"
	"holdpoint/engine/sshsig"
	"holdpoint/internal/store"
)

type policySign struct {
	SecretFile  string `help:"File with the shared secret, of at least 16 characters." placeholder:"FILE"`
	Key         string `help:"Your SSH key (ed25519): the private one, or the public one of a key that your SSH agent has." type:"path" placeholder:"FILE"`
	Environment string `help:"With --key: the setting environment of the serve and worker that it is for; “dev” for “holdpoint dev”." placeholder:"NAME"`
	Out         string `short:"o" help:"Write the signed policy here; it may be the same file. Standard output when left out." placeholder:"FILE"`
	File        string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy sign --help".
func (policySign) Help() string {
	return `With --key, adds your signature to the field "signed_by", in place of a former one of that
key for that environment. It is as “ssh-keygen -Y sign -n holdpoint-policy” makes it, over the
policy's digest and the environment. Several people sign one after another. Where “holdpoint
changes require signatures” says so, no other policy comes into force.

With --secret-file, puts the HMAC-SHA256 of the whole policy, people's signatures too, into
its field "signature": sign with it last. Serve and worker that have the secret as
HOLDPOINT_POLICY_SECRET refuse any other policy.

Every other byte stays as it is. Sign after every change.

Examples:
  holdpoint policy sign policy.yaml --key ~/.ssh/id_ed25519 --environment production -o policy.yaml
  holdpoint policy sign policy.yaml --secret-file policy-secret -o policy.yaml`
}

func (p *policySign) Run(ctx context.Context, c *cli) error {
	var secret []byte
	var err error
	switch {
	case p.SecretFile == "" && p.Key == "":
		err = errors.New("name your key (--key FILE --environment NAME), the shared secret (--secret-file FILE), or both")
	case (p.Key == "") != (strings.TrimSpace(p.Environment) == ""):
		err = errors.New("--key and --environment: give both; a signature is for one environment")
	case p.SecretFile != "":
		secret, err = readSecret(ctx, c, p.SecretFile)
	}
	if err != nil {
		return unreadable(err)
	}
	data, err := os.ReadFile(p.File)
	if err != nil {
		return unreadable(err)
	}
	b, problems := policy.Load(data, policy.Options{File: p.File})
	if b == nil {
		printAll(problems)
		return exitCode(exitInvalid)
	}
	signed, by := data, ""
	if p.Key != "" {
		var key sshsig.Key
		if signed, key, err = signBy(data, p.File, b, p.Key, p.Environment); err != nil {
			return unreadable(err)
		}
		by = " for " + p.Environment + " with " + key.Fingerprint
	}
	if secret != nil {
		if signed, err = signedPolicy(signed, p.File, secret); err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
	}
	// What is written is what has been read back.
	again, problems := policy.Load(signed, policy.Options{File: p.File, Secret: secret})
	if again == nil || again.Digest != b.Digest {
		printAll(problems)
		return fmt.Errorf("%s: the signature cannot be put in without changing the policy: write the field, signature: \"\" or signed_by: [], on a line of its own, and sign again", p.File)
	}
	if again.Signed && secret == nil {
		fmt.Fprintf(terminalError, "%s: the signature by the shared secret does not fit any more: sign with --secret-file, too\n", p.File)
	}
	if p.Out == "" {
		_, err = os.Stdout.Write(signed)
		return err
	}
	if err := replaceFile(p.Out, signed); err != nil {
		return err
	}
	fmt.Fprintf(terminalError, "signed %s%s, %s\n", p.Out, by, again.Digest)
	return nil
}

// replaceFile writes a file that is no secret: a new one may be read by
// everybody, and one that is there is replaced at once.
func replaceFile(path string, data []byte) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(path, data, 0o644) // #nosec G306 -- a policy is no secret
	}
	return writeSecret(path, data)
}

// readSource reads a file for whoever changes a line of it.
func readSource(data []byte, file string) (source.Node, error) {
	root, problems := source.Read(data, source.Options{File: file})
	if len(problems) > 0 {
		return root, errors.New(problems[0].String())
	}
	return root, nil
}

// signedPolicy is the file with its signature put in.
func signedPolicy(data []byte, file string, secret []byte) ([]byte, error) {
	root, err := readSource(data, file)
	if err != nil {
		return nil, err
	}
	return withField(data, root, "signature", strconv.Quote(policy.Sign(root.Value, secret)))
}

// withField is the file with a field of the policy put in, whose value is JSON on one line.
func withField(data []byte, root source.Node, name, value string) ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return withJSON(data, name, value)
	}
	return withYAML(data, root, name, value)
}

// withJSON replaces the value of the field, or puts one in front.
func withJSON(data []byte, name, text string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}
	first := d.InputOffset()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if end := d.InputOffset(); key == name {
			return splice(data, int(end)-len(value), int(end), text), nil
		}
	}
	rest := data[first:]
	space := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	return splice(data, int(first), int(first), string(space)+strconv.Quote(name)+": "+text+","), nil
}

func splice(data []byte, from, to int, text string) []byte {
	return append(append(append(make([]byte, 0, len(data)+len(text)), data[:from]...), text...), data[to:]...)
}

// fieldLine is a field of a policy with its value on the same line, a text or a list in brackets,
// and perhaps a comment behind it.
var fieldLine = regexp.MustCompile(`^(\s*(?:signature|"signature"|'signature'|signed_by|"signed_by"|'signed_by')\s*:)([ \t]*(?:"[^"]*"|'[^']*'|\[[^#]*\]|[^\s#'"|>\[][^#]*?|))([ \t]*(?:[ \t]#.*)?\r?\n?)$`)

// withYAML replaces the value of the field, or puts a line behind that of
// expires_at, which is a text on one line: there it parts no comment from what
// it is about.
func withYAML(data []byte, root source.Node, name, value string) ([]byte, error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	expires := 0
	for m := range root.Members() {
		switch i := m.Key.Line; m.Name {
		case name:
			parts := fieldLine.FindSubmatch(lines[i-1])
			if parts == nil {
				return nil, fmt.Errorf("write %s on a line of its own, and sign again", name)
			}
			lines[i-1] = fmt.Appendf(nil, "%s %s%s", parts[1], value, parts[3])
			return bytes.Join(lines, nil), nil
		case "expires_at":
			expires = i
		}
	}
	line := lines[expires-1]
	indent := line[:len(line)-len(bytes.TrimLeft(line, " "))]
	ending := []byte("\n")
	if bytes.HasSuffix(line, []byte("\r\n")) {
		ending = []byte("\r\n")
	}
	added := append(fmt.Appendf(nil, "%s%s: %s", indent, name, value), ending...)
	if !bytes.HasSuffix(line, []byte("\n")) {
		// It is the last line of a file that does not end with one.
		added = append(bytes.Clone(ending), bytes.TrimSuffix(added, ending)...)
	}
	return bytes.Join(append(append(append([][]byte{}, lines[:expires]...), added), lines[expires:]...), nil), nil
}

type policyVerify struct {
	databaseFlags
	SecretFile  string `help:"File with the shared secret." placeholder:"FILE"`
	People      bool   `help:"Look up in the database whose signatures the policy has for its environment, and whether they are enough to put it in force."`
	Signers     string `help:"File of people's public keys, as ssh-keygen has allowed signers: check by these alone, without a database." type:"path" placeholder:"FILE"`
	Needed      int    `default:"1" help:"With --signers: how many of these people have to have signed." placeholder:"N"`
	Environment string `help:"With --signers, or with --people: the environment, where it is not that of the settings." placeholder:"NAME"`
	File        string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy verify --help".
func (policyVerify) Help() string {
	return `Ends with 0 when the policy is valid and has the signatures that were asked for, 2
when not, 3 when something cannot be read.

Examples:
  holdpoint policy verify policy.yaml --secret-file policy-secret
  holdpoint policy verify policy.yaml --signers allowed_signers --needed 2 --environment production
  holdpoint policy verify policy.yaml --people --data .holdpoint`
}

func (p *policyVerify) Run(ctx context.Context, c *cli) error {
	var secret []byte
	var signers allowedSigners
	var err error
	switch {
	case p.SecretFile == "" && p.Signers == "" && !p.People:
		err = errors.New("say what to check: --secret-file FILE, --signers FILE, --people, or several of them")
	case p.Signers == "" && p.Needed != 1:
		err = errors.New("--needed is for --signers")
	case p.Signers == "":
	case strings.TrimSpace(p.Environment) == "":
		err = errors.New("--signers: say for which environment: --environment NAME")
	case p.Needed < 1:
		err = errors.New("--needed: want one or more")
	default:
		signers, err = readAllowedSigners(p.Signers)
	}
	if err != nil {
		return unreadable(err)
	}
	if p.SecretFile != "" {
		if secret, err = readSecret(ctx, c, p.SecretFile); err != nil {
			return unreadable(err)
		}
	}
	b, err := loadPolicy(p.File, policy.Options{Secret: secret})
	if err != nil {
		return err
	}
	if signers != nil {
		if err := signedByAllowed(b, p.File, p.Environment, p.Signers, p.Needed, signers); err != nil {
			complain(err)
			return exitCode(exitInvalid)
		}
	}
	if p.People {
		in, environment, err := p.signing(ctx, c)
		if err != nil {
			return unreadable(err)
		}
		if err := reportSigners(b, p.File, cmp.Or(p.Environment, environment), in); err != nil {
			complain(err)
			return exitCode(exitInvalid)
		}
	}
	if secret != nil {
		fmt.Fprintf(terminal, "%s: the signature fits, %s\n", p.File, b.Digest)
	}
	return nil
}

// signing reads who signs policies, and for which environment.
func (w databaseFlags) signing(ctx context.Context, c *cli) (in store.Signing, environment string, err error) {
	s, err := w.open(ctx, c, false)
	if err != nil {
		return in, "", err
	}
	defer s.Close()
	in, err = s.Rules.Signing(ctx)
	return in, c.environment, err
}
