package stream

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
)

// Numbers of RFC 5424, 6.2.1.
const (
	auditFacility = 13 // "log audit"

	critical      = 2
	warning       = 4
	notice        = 5
	informational = 6
)

// documentationNumber stands where a private enterprise number has to: structured
// data of one's own is name@number (RFC 5424, 7), and Holdpoint has no number. One
// that was made up would be somebody's, today or later. This one will never be: it
// is reserved for examples (RFC 5612). Whoever has a number sets it.
const documentationNumber = 32473

// severity is how much an event is worth a look: what was granted without or
// against the rules, then what was refused, then what waits or was changed.
func severity(m Message) int {
	switch m.Outcome {
	case engine.KillSwitch:
		if m.Type == engine.Admin {
			return critical // it was thrown; calls that it stops are refusals
		}
		return warning
	case engine.Deny, engine.Rejected, engine.RateLimited, engine.Timeout:
		return warning
	case engine.Allow, engine.Approved, engine.RequireApproval, engine.RequireStepUp, engine.RequireTicket, engine.RequireHuman:
	}
	switch m.Type {
	case engine.Broken:
		return critical
	case engine.Admin, engine.Granted, engine.Redeemed, engine.Edited:
		return notice
	default:
	}
	if m.Outcome == engine.Allow {
		return informational
	}
	return notice
}

// stampForm is RFC 3339 with exactly six digits: TIMESTAMP has no more.
const stampForm = "2006-01-02T15:04:05.000000Z"

// syslogLine is a message by RFC 5424. It is made of the event and the settings
// alone: whichever process sends it, and however often, it is the same bytes.
//
//	<PRI>1 TIMESTAMP HOSTNAME holdpoint - TYPE [holdpoint@… seq event_id digest] JSON
//
// There is no BOM before the JSON, because readers of JSON do not expect one; RFC
// 5424 has that as MSG-ANY. Canonical JSON has no line breaks.
func syslogLine(m Message, hostname string, enterprise int64) []byte {
	line := make([]byte, 0, len(m.Body)+256)
	line = fmt.Appendf(line, "<%d>1 %s %s holdpoint - %s [holdpoint@%d", auditFacility*8+severity(m), m.At.UTC().Truncate(time.Microsecond).Format(stampForm),
		visible(hostname, 255), visible(string(m.Type), 32), enterprise)
	for _, p := range []struct{ name, value string }{{"seq", strconv.FormatInt(m.Seq, 10)}, {"event_id", m.ID}, {"digest", m.Digest}} {
		line = fmt.Appendf(line, ` %s="%s"`, p.name, escaped(p.value))
	}
	line = append(line, "] "...)
	return append(line, m.Body...)
}

// frame is a message in a stream of bytes (RFC 5425, 4.3): its length, a blank,
// and itself.
func frame(line []byte) []byte {
	framed := strconv.AppendInt(make([]byte, 0, len(line)+8), int64(len(line)), 10)
	framed = append(framed, ' ')
	return append(framed, line...)
}

// visible is a header's field: up to limit characters of printable ASCII without
// blanks, each other one a question mark, or the dash that means none.
func visible(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7F {
			return '?'
		}
		return r
	}, text)
	return cmp.Or(text[:min(len(text), limit)], "-")
}

// escaped is a PARAM-VALUE (RFC 5424, 6.3.3): quotes, backslashes and closing
// brackets after a backslash. What is no UTF-8, and control characters, which
// relays may take for the end of a message, become U+FFFD.
func escaped(value string) string {
	var b strings.Builder
	for _, r := range value { // an invalid byte comes as U+FFFD
		switch {
		case r == '"', r == '\\', r == ']':
			b.WriteByte('\\')
		case r < ' ' || r >= 0x7F && r < 0xA0:
			r = '\uFFFD'
		}
		b.WriteRune(r)
	}
	return b.String()
}
