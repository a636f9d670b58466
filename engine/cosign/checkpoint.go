package cosign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize is the largest tree that a checkpoint may be of. The format allows
// 2^63-1, but no log gets there, and tlog's arithmetic does not end for a tree
// of more than 2^62 leaves.
const MaxSize int64 = 1 << 62

// Checkpoint is a log's tree at one moment (C2SP tlog-checkpoint).
type Checkpoint struct {
	// Origin identifies the log, and is never empty.
	Origin string
	// Size is how many leaves the tree has, 0 to MaxSize.
	Size int64
	// Root is the tree's hash (RFC 6962).
	Root tlog.Hash
	// Extensions are the lines that follow. Nobody vouches for what they say.
	Extensions []string
}

// ParseCheckpoint reads the text of a checkpoint, which is the note without its
// signatures: origin, size, root hash and extensions, each a line that is not
// empty and ends in a newline. There is one way to write a checkpoint:
// FormatCheckpoint of what ParseCheckpoint has read is the same text.
func ParseCheckpoint(text string) (Checkpoint, error) {
	body, ended := strings.CutSuffix(text, "\n")
	if !ended {
		return Checkpoint{}, errors.New("the checkpoint does not end in a newline")
	}
	lines := strings.Split(body, "\n")
	if len(lines) < 3 {
		return Checkpoint{}, errors.New("the checkpoint has fewer than three lines")
	}
	for _, line := range lines {
		if !isLine(line) {
			return Checkpoint{}, errors.New("the checkpoint has a line that is empty or not plain text")
		}
	}
	size, err := ParseSize(lines[1])
	if err != nil {
		return Checkpoint{}, err
	}
	root, err := ParseHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the root: %w", err)
	}
	c := Checkpoint{Origin: lines[0], Size: size, Root: root}
	if len(lines) > 3 {
		c.Extensions = slices.Clone(lines[3:])
	}
	return c, nil
}

// Text is the checkpoint as it is signed, whether ParseCheckpoint would read it or
// not.
func (c Checkpoint) Text() string {
	lines := append([]string{c.Origin, strconv.FormatInt(c.Size, 10), c.Root.String()}, c.Extensions...)
	return strings.Join(lines, "\n") + "\n"
}

// FormatCheckpoint writes what ParseCheckpoint reads, and refuses what it would
// refuse.
func FormatCheckpoint(c Checkpoint) (string, error) {
	text := c.Text()
	again, err := ParseCheckpoint(text)
	if err != nil {
		return "", err
	}
	if again.Origin != c.Origin || !slices.Equal(again.Extensions, c.Extensions) {
		return "", errors.New("the checkpoint has a newline within a line")
	}
	return text, nil
}

// ParseSize reads a tree's size: decimal, no sign, no leading zero, at most
// MaxSize.
func ParseSize(text string) (int64, error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != text {
		return 0, errors.New("the size is no decimal number without sign and leading zeros")
	}
	if size > MaxSize {
		return 0, errors.New("the size is larger than any tree")
	}
	return size, nil
}

// ParseHash reads a hash of 32 bytes in padded standard base64, in the one way
// to write it.
func ParseHash(text string) (tlog.Hash, error) {
	data, err := decode(text)
	if err != nil || len(data) != tlog.HashSize {
		return tlog.Hash{}, errors.New("it is no hash of 32 bytes in base64")
	}
	return tlog.Hash(data), nil
}

// decode reads padded standard base64. The library's decoder skips line breaks
// and, by default, bits that stand for nothing.
func decode(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("base64 with a line break")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// isLine reports whether text may be a line of a note (C2SP signed-note).
func isLine(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })
}
