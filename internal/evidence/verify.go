package evidence

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdpoint/engine/audit"
	"holdpoint/engine/policy"
	"holdpoint/engine/toolcontract"
)

// maxDisclosed bounds a line of what a pack discloses: a card with 1 MiB of
// arguments, with markup around every value and escapes for the markup.
const maxDisclosed = 512 << 20

// errNoPack says that a page is no evidence pack.
var errNoPack = errors.New("the page has no proof in it: it is no evidence pack, or was cut off")

// Verify checks an evidence pack with the keys, and against the former checkpoints,
// of a verifier that has checked nothing yet. It asks nobody. An error says that it
// could not be checked; what is wrong with it is in the report.
func Verify(in io.Reader, verifier *audit.Verifier) (audit.Report, audit.Disclosure, error) {
	p := &audit.PackVerifier{Verifier: *verifier, Means: map[string]func([]byte) (string, error){
		audit.ItemPolicy: func(text []byte) (string, error) {
			b, problems := policy.Load(text, policy.Options{})
			if b == nil {
				return "", fmt.Errorf("it cannot be read: %s", problems[0])
			}
			return b.Digest, nil
		},
		audit.ItemContracts: func(text []byte) (string, error) {
			s, problems := toolcontract.Load(text, "contracts")
			if len(problems) > 0 {
				return "", fmt.Errorf("it cannot be read: %s", problems[0])
			}
			return s.Digest(), nil
		},
	}}
	err := verify(in, p)
	var broken brokenPack
	if errors.As(err, &broken) {
		p.Broken(string(broken))
	} else if err != nil {
		return audit.Report{}, audit.Disclosure{}, err
	}
	report, disclosed := p.Done()
	return report, disclosed, nil
}

// brokenPack is what is wrong with a pack that has a proof, and not the rest.
type brokenPack string

func (b brokenPack) Error() string { return string(b) }

func verify(in io.Reader, p *audit.PackVerifier) error {
	lines := &packLines{r: bufio.NewReaderSize(in, 1<<16)}
	pages, err := lines.pages()
	if err != nil {
		return err
	}
	if err := lines.block(maxProof, p.Proof); err != nil {
		return err
	}
	p.Pages(pages)
	if line, err := lines.next(maxProof); err != nil || string(line) != audit.DisclosedOpens {
		return brokenPack("what is disclosed does not follow the proof: the pack was changed or cut off")
	}
	open := false
	err = lines.block(maxDisclosed, func(line []byte) {
		text := strings.TrimSuffix(string(line), ",")
		switch {
		case text == "[" && !open:
			open = true
		case text == "]":
			open = false
		default:
			p.Item([]byte(text))
		}
	})
	if err != nil {
		return err
	}
	rest, err := io.ReadAll(io.LimitReader(lines.r, 1<<16))
	if err != nil {
		return err
	}
	if string(rest) != audit.PackEnds {
		return brokenPack("the pack does not end with what is disclosed: it was changed or cut off")
	}
	return nil
}

// maxProof bounds the lines of a proof, as exports are bounded: escapes make each
// "<" six times as long.
const maxProof = 6 << 20

// packLines reads an evidence pack.
type packLines struct{ r *bufio.Reader }

// pages reads up to the proof, however long the lines are, and returns the digest
// of what was before.
func (l *packLines) pages() (string, error) {
	sum := sha256.New()
	opens := []byte(audit.ProofOpens + "\n")
	start := true // of a line
	for {
		part, err := l.r.ReadSlice('\n')
		if start && bytes.Equal(part, opens) {
			return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
		}
		sum.Write(part)
		start = err == nil
		if errors.Is(err, io.EOF) {
			return "", errNoPack
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

// block gives every line up to the block's end.
func (l *packLines) block(most int, give func(line []byte)) error {
	for {
		line, err := l.next(most)
		if errors.Is(err, io.EOF) {
			return brokenPack("the pack was cut off")
		}
		if err != nil {
			return err
		}
		if string(line) == audit.BlockCloses {
			return nil
		}
		give(line)
	}
}

// next is the next line without its line feed. One without a line feed is none.
func (l *packLines) next(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > most:
			return nil, fmt.Errorf("a line has more than %d bytes: it is no evidence pack", most)
		}
	}
}
