package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"holdpoint/engine/policy"
	"holdpoint/engine/source"
)

type policySign struct {
	SecretFile string `required:"" help:"File with the secret, of at least 16 characters." placeholder:"FILE"`
	Out        string `short:"o" help:"Write the signed policy here; it may be the same file. Standard output when left out." placeholder:"FILE"`
	File       string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy sign --help".
func (policySign) Help() string {
	return `Puts the HMAC-SHA256 of the whole policy into its field "signature", in place of a
former one, and leaves every other byte as it is. Sign after every change. Serve
and worker that have the secret as HOLDPOINT_POLICY_SECRET refuse any other policy.

Examples:
  openssl rand -hex 32 > policy-secret
  holdpoint policy sign policy.yaml --secret-file policy-secret -o policy.yaml`
}

func (p *policySign) Run(ctx context.Context, c *cli) error {
	secret, err := readSecret(ctx, c, p.SecretFile)
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
	signed, err := signedPolicy(data, p.File, secret)
	if err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	// What is written is what has been read back.
	again, problems := policy.Load(signed, policy.Options{File: p.File, Secret: secret})
	if again == nil || again.Digest != b.Digest {
		printAll(problems)
		return fmt.Errorf("%s: the signature cannot be put in without changing the policy: write the field signature: \"\" on a line of its own, and sign again", p.File)
	}
	if p.Out == "" {
		_, err = os.Stdout.Write(signed)
		return err
	}
	if err := replaceFile(p.Out, signed); err != nil {
		return err
	}
	fmt.Fprintf(terminalError, "signed %s, %s\n", p.Out, again.Digest)
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

// signedPolicy is the file with its signature put in.
func signedPolicy(data []byte, file string, secret []byte) ([]byte, error) {
	root, problems := source.Read(data, source.Options{File: file})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	signature := policy.Sign(root.Value, secret)
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return signedJSON(data, signature)
	}
	return signedYAML(data, root, signature)
}

// signedJSON replaces the value of the signature, or puts one in front.
func signedJSON(data []byte, signature string) ([]byte, error) {
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
		if end := d.InputOffset(); key == "signature" {
			return splice(data, int(end)-len(value), int(end), `"`+signature+`"`), nil
		}
	}
	rest := data[first:]
	space := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	return splice(data, int(first), int(first), string(space)+`"signature": "`+signature+`",`), nil
}

func splice(data []byte, from, to int, text string) []byte {
	return append(append(append(make([]byte, 0, len(data)+len(text)), data[:from]...), text...), data[to:]...)
}

// signatureLine is a signature with its value on the same line, and perhaps a
// comment behind it.
var signatureLine = regexp.MustCompile(`^(\s*(?:signature|"signature"|'signature')\s*:)([ \t]*(?:"[^"]*"|'[^']*'|[^\s#'"|>][^#]*?|))([ \t]*(?:[ \t]#.*)?\r?\n?)$`)

// signedYAML replaces the value of the signature, or puts a line behind that of
// expires_at, which is a text on one line: there it parts no comment from what
// it is about.
func signedYAML(data []byte, root source.Node, signature string) ([]byte, error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	expires := 0
	for m := range root.Members() {
		switch i := m.Key.Line; m.Name {
		case "signature":
			parts := signatureLine.FindSubmatch(lines[i-1])
			if parts == nil {
				return nil, errors.New("write the signature on a line of its own, and sign again")
			}
			lines[i-1] = fmt.Appendf(nil, "%s %q%s", parts[1], signature, parts[3])
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
	added := append(fmt.Appendf(nil, "%ssignature: %q", indent, signature), ending...)
	if !bytes.HasSuffix(line, []byte("\n")) {
		// It is the last line of a file that does not end with one.
		added = append(bytes.Clone(ending), bytes.TrimSuffix(added, ending)...)
	}
	return bytes.Join(append(append(append([][]byte{}, lines[:expires]...), added), lines[expires:]...), nil), nil
}

type policyVerify struct {
	SecretFile string `required:"" help:"File with the secret." placeholder:"FILE"`
	File       string `arg:"" help:"Policy, in YAML or JSON."`
}

// Help is shown by "holdpoint policy verify --help".
func (policyVerify) Help() string {
	return `Ends with 0 when the policy is valid and its signature fits policy and secret, 2
when not, 3 when something cannot be read.

Example:
  holdpoint policy verify policy.yaml --secret-file policy-secret`
}

func (p *policyVerify) Run(ctx context.Context, c *cli) error {
	secret, err := readSecret(ctx, c, p.SecretFile)
	if err != nil {
		return unreadable(err)
	}
	b, err := loadPolicy(p.File, policy.Options{Secret: secret})
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "%s: the signature fits, %s\n", p.File, b.Digest)
	return nil
}
