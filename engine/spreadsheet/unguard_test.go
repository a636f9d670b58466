package spreadsheet

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unguard is the text that Guard made the cell of. A label that Guard would not
// write is an error: the cell has been changed, or was never guarded.
func Unguard(cell string) (string, error) {
	i := strings.IndexByte(cell, '[')
	if i < 0 {
		return cell, nil
	}
	var b strings.Builder
	for rest := cell; ; {
		i := strings.IndexByte(rest, '[')
		if i < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		isChar, isByte := strings.HasPrefix(rest, charLabel), strings.HasPrefix(rest, byteLabel)
		if !isChar && !isByte {
			b.WriteByte('[')
			rest = rest[1:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if end < 0 || end > len("[U+10FFFF") {
			return "", fmt.Errorf("read a cell: %.12q is no label", rest)
		}
		label := rest[:end+1]
		rest = rest[end+1:]
		if isByte {
			n, err := strconv.ParseUint(label[len(byteLabel):end], 16, 8)
			if err != nil || label != fmt.Sprintf("%s%02X]", byteLabel, n) {
				return "", fmt.Errorf("read a cell: %q is no label", label)
			}
			b.WriteByte(byte(n))
			continue
		}
		n, err := strconv.ParseUint(label[len(charLabel):end], 16, 21)
		c := rune(n) // #nosec G115 -- of 21 bits
		if err != nil || !utf8.ValidRune(c) || label != fmt.Sprintf("%s%04X]", charLabel, c) {
			return "", fmt.Errorf("read a cell: %q is no label", label)
		}
		b.WriteRune(c)
	}
}
