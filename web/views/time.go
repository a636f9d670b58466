package views

import (
	"fmt"
	"time"
)

// Until says how far away a deadline is: "in 29 min". The script counts down
// in the same words.
func Until(deadline, now time.Time) string {
	left := deadline.Sub(now)
	s := int(left / time.Second)
	switch {
	case left <= 0:
		return "deadline passed"
	case s < 60:
		return fmt.Sprintf("in %d s", max(s, 1))
	case s < 600:
		return fmt.Sprintf("in %d min %02d s", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("in %d min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("in %d h %02d min", s/3600, s/60%60)
	}
	days, hours := s/86400, s/3600%24
	if days >= 730 {
		return fmt.Sprintf("in %d years", days/365)
	}
	if hours == 0 || days >= 7 {
		return fmt.Sprintf("in %d days", days)
	}
	return fmt.Sprintf("in %d days %d h", days, hours)
}

// Ago says how long ago something was: "4 min ago".
func Ago(then, now time.Time) string {
	switch s := int(now.Sub(then) / time.Second); {
	case s < 60:
		return "just now"
	case s < 3600:
		return fmt.Sprintf("%d min ago", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%d h ago", s/3600)
	default:
		return fmt.Sprintf("%d days ago", s/86400)
	}
}

// Soon reports whether a deadline is so near that it deserves a mark.
func Soon(deadline, now time.Time) bool { return deadline.Sub(now) < 10*time.Minute }

// Clock writes a moment for people, in the only form that pages have; the script
// writes the same in the reader's own zone.
func Clock(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// ClockSeconds is Clock to the second: what records and reports say, which is
// UTC for everybody.
func ClockSeconds(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") }

// Day writes a day, as Clock does.
func Day(t time.Time) string { return t.UTC().Format("2 Jan 2006") }

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
