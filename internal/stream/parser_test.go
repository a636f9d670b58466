package stream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// parsed is a message as the grammar of RFC 5424, 6, reads it.
type parsed struct {
	facility, severity int
	at                 time.Time
	host, app, proc    string
	kind               string
	data               map[string]map[string]string // SD-ID, name, value
	msg                []byte
}

var (
	priForm  = regexp.MustCompile(`^<(0|[1-9][0-9]{0,2})>([1-9][0-9]{0,2}) `)
	timeForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$`)
)

// parse accepts what the grammar has, and nothing besides; not even what the RFC
// has receivers put up with.
func parse(line string) (p parsed, err error) {
	m := priForm.FindStringSubmatch(line)
	if m == nil || m[2] != "1" {
		return p, errors.New("no PRI and VERSION 1")
	}
	pri, _ := strconv.Atoi(m[1])
	if pri > 191 {
		return p, fmt.Errorf("PRI %d", pri)
	}
	p.facility, p.severity = pri/8, pri%8
	rest := line[len(m[0]):]
	field := func(name string, limit int) string {
		text, after, found := strings.Cut(rest, " ")
		if err == nil && (!found || text == "" || len(text) > limit || strings.ContainsFunc(text, func(r rune) bool { return r < 33 || r > 126 })) {
			err = fmt.Errorf("%s %q", name, text)
		}
		rest = after
		return text
	}
	stamp := field("TIMESTAMP", 32)
	p.host, p.app, p.proc, p.kind = field("HOSTNAME", 255), field("APP-NAME", 48), field("PROCID", 128), field("MSGID", 32)
	if err != nil {
		return p, err
	}
	if !timeForm.MatchString(stamp) {
		return p, fmt.Errorf("TIMESTAMP %q", stamp)
	}
	if p.at, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
		return p, err
	}
	if p.data, rest, err = parseData(rest); err != nil {
		return p, err
	}
	if rest == "" {
		return p, nil
	}
	if rest[0] != ' ' {
		return p, errors.New("no blank before MSG")
	}
	p.msg = []byte(rest[1:])
	return p, nil
}

func parseData(rest string) (map[string]map[string]string, string, error) {
	data := map[string]map[string]string{}
	if after, none := strings.CutPrefix(rest, "-"); none {
		return data, after, nil
	}
	for first := true; first || strings.HasPrefix(rest, "["); first = false {
		if !strings.HasPrefix(rest, "[") {
			return nil, "", errors.New("no STRUCTURED-DATA")
		}
		rest = rest[1:]
		id, after, err := sdName(rest, " ]")
		if err != nil {
			return nil, "", err
		}
		if name, number, own := strings.Cut(id, "@"); own && (name == "" || !regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`).MatchString(number)) {
			return nil, "", fmt.Errorf("SD-ID %q", id)
		}
		if data[id] != nil {
			return nil, "", fmt.Errorf("SD-ID %q is there twice", id)
		}
		data[id] = map[string]string{}
		rest = after
		for strings.HasPrefix(rest, " ") {
			name, after, err := sdName(rest[1:], "=")
			if err != nil {
				return nil, "", err
			}
			value, after, err := paramValue(strings.TrimPrefix(after, "="))
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", name, err)
			}
			if _, there := data[id][name]; there {
				return nil, "", fmt.Errorf("%s is there twice", name)
			}
			data[id][name] = value
			rest = after
		}
		if !strings.HasPrefix(rest, "]") {
			return nil, "", errors.New("an SD-ELEMENT does not end")
		}
		rest = rest[1:]
	}
	return data, rest, nil
}

// sdName reads an SD-NAME that one of the characters of until ends.
func sdName(text, until string) (name, rest string, err error) {
	i := strings.IndexAny(text, until)
	if i < 1 || i > 32 || strings.ContainsFunc(text[:i], func(r rune) bool { return r < 33 || r > 126 || strings.ContainsRune(`= ]"`, r) }) {
		return "", "", fmt.Errorf("no SD-NAME at %.40q", text)
	}
	return text[:i], text[i:], nil
}

// paramValue reads a PARAM-VALUE with its quotes.
func paramValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", errors.New("no quote before a value")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			if !utf8.ValidString(b.String()) {
				return "", "", errors.New("a value is not UTF-8")
			}
			return b.String(), text[i+1:], nil
		case ']':
			return "", "", errors.New("a bracket that is not escaped")
		case '\\':
			i++
			if i == len(text) || !strings.ContainsRune(`"\]`, rune(text[i])) {
				return "", "", errors.New("an escape that is none")
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("a value does not end")
}

// readFrame reads a frame of RFC 5425, 4.3: io.EOF before the first byte of one,
// and another error inside.
func readFrame(r *bufio.Reader) (string, error) {
	length := ""
	for {
		c, err := r.ReadByte()
		if err != nil {
			if length != "" && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		if c == ' ' && length != "" {
			break
		}
		if c < '0' || c > '9' || length == "" && c == '0' || len(length) > 7 {
			return "", fmt.Errorf("MSG-LEN %q and %q", length, c)
		}
		length += string(c)
	}
	n, _ := strconv.Atoi(length)
	line := make([]byte, n)
	if _, err := io.ReadFull(r, line); err != nil {
		return "", io.ErrUnexpectedEOF
	}
	return string(line), nil
}
