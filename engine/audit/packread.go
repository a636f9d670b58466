package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// maxDisclosed bounds a line of what a pack discloses: a card with 1 MiB of
// arguments, with markup around every value and escapes for the markup.
const maxDisclosed = 512 << 20

// errNoPack says that a page is no evidence pack.
var errNoPack = errors.New("the page has no proof in it: it is no evidence pack, or was cut off")

// brokenPack is what is wrong with a pack that has a proof, and not the rest.
type brokenPack string

func (b brokenPack) Error() string { return string(b) }

// Read reads a whole pack. An error says that it could not be read, or is none; what
// is wrong with it is a problem of the report.
func (p *PackVerifier) Read(in io.Reader) error {
	err := p.read(in)
	var broken brokenPack
	if errors.As(err, &broken) {
		p.bad("%s", string(broken))
		return nil
	}
	return err
}

func (p *PackVerifier) read(in io.Reader) error {
	lines := &packLines{r: bufio.NewReaderSize(in, 1<<16)}
	pages, err := lines.pages()
	if err != nil {
		return err
	}
	if err := lines.block(maxProof, p.proof); err != nil {
		return err
	}
	p.pages = pages
	if line, err := lines.next(maxProof); err != nil || string(line) != DisclosedOpens {
		return brokenPack("what is disclosed does not follow the proof: the pack was changed or cut off")
	}
	list := disclosedList{p: p}
	if err := lines.block(maxDisclosed, list.line); err != nil {
		return err
	}
	if list.state != listClosed || list.broken {
		return brokenPack("what is disclosed is not one list, a thing a line: the pack was changed")
	}
	rest, err := io.ReadAll(io.LimitReader(lines.r, 1<<16))
	if err != nil {
		return err
	}
	if string(rest) != PackEnds {
		return brokenPack("the pack does not end with what is disclosed: it was changed or cut off")
	}
	return nil
}

// disclosedList reads the lines of what is disclosed: an array as every JSON reader takes it.
type disclosedList struct {
	p      *PackVerifier
	state  int
	broken bool
}

const (
	listBegins = iota
	listOpen   // an item, or the end of an empty list
	listItem   // after a comma: an item
	listEnds   // after an item without one
	listClosed
)

func (l *disclosedList) line(line []byte) {
	item, comma := bytes.CutSuffix(line, []byte(","))
	switch {
	case l.state == listBegins && string(line) == "[":
		l.state = listOpen
	case (l.state == listOpen || l.state == listEnds) && string(line) == "]":
		l.state = listClosed
	default:
		l.broken = l.broken || l.state != listOpen && l.state != listItem
		l.p.item(item)
		if l.state = listEnds; comma {
			l.state = listItem
		}
	}
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
	opens := []byte(ProofOpens + "\n")
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

// block gives every line up to the block's end. One with a "<" in it is none: a
// browser could take it for that end, and for a page what follows.
func (l *packLines) block(most int, give func(line []byte)) error {
	for {
		line, err := l.next(most)
		if errors.Is(err, io.EOF) {
			return brokenPack("the pack was cut off")
		}
		if err != nil {
			return err
		}
		if string(line) == BlockCloses {
			return nil
		}
		if bytes.IndexByte(line, '<') >= 0 {
			return brokenPack("a line of a block is not escaped, so that a browser could show it as part of the pages: the pack was changed")
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
