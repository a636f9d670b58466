package views

import (
	"slices"
	"strings"
	"time"
)

// Inbox is the list of what waits for the signed-in person.
type Inbox struct {
	Frame
	// Accesses are roles of people that the person is asked to review.
	Accesses AwaitedReview
	// Tasks, Tickets and Mine are what the person is asked for beside deciding.
	Tasks, Tickets, Mine []TaskRow
	Rows                 []InboxRow
	// All is how many calls wait for the person, Found how many of them the search finds,
	// and Groups in how many rows. From is how many rows come before the first one here.
	All, Found, Groups, From int
	// Snoozed is how many calls the person has snoozed, which are at SnoozedURL; that is ""
	// where there are none, or it is them who are shown.
	Snoozed    int
	SnoozedURL string
	// Snoozes are for how long calls can be snoozed.
	Snoozes []Option
	// First, Previous and Next are the addresses of other pages, or "".
	First, Previous, Next string
	Search                InboxSearch
	// Agents are the agents with the most calls, with how many, where there are several
	// and more than a page.
	Agents []CountLink
	Saved  []SavedView
	// Roles are the person's.
	Roles []string
}

// InboxSearch is what is wanted of the inbox, and what there is to choose from.
type InboxSearch struct {
	// Form is what was entered, by parameter, and Query all of it as part of an address;
	// "" for nothing. Problems are what cannot be understood of it.
	Form     map[string]string
	Query    string
	Problems []string
	Chips    []Chip
	// What there is to choose, by parameter.
	Options map[string][]Option
	// Alike says that alike calls are one row, and Other is the address of the list where
	// it is the other way round.
	Alike bool
	Other string
}

// CountLink is how many calls there are of something, and where they are.
type CountLink struct {
	Name, URL string
	N         int
}

// SavedView is a search that the person keeps. Here says that it is the one shown.
type SavedView struct {
	ID, Name, URL string
	Here          bool
}

// TaskRow is something that the person is asked for.
type TaskRow struct {
	ID, Tool, Agent string
	What            string
	// Deadline is when it is too late, zero for never.
	Deadline time.Time
}

// InboxRow is one approval of the inbox, or several alike.
type InboxRow struct {
	ID, Tool, Agent, Domain string
	// Change says that it is a change of the rules, which Tool names in words; no agent asks for it.
	Change bool
	// Environment is the one that the call was judged for, Named what the call itself
	// names, where that is another; else "".
	Environment, Named string
	// Stopped says that a kill switch stops the agent, StoppedWhy for what reason, and Flags
	// are what else deserves a second look, each in a few words.
	Stopped    bool
	StoppedWhy string
	Flags      []string
	// Before says how the last calls of the agent and tool were decided, "" where none was; MostlyDenied,
	// that more of them were denied, and not just one.
	Before       string
	MostlyDenied bool
	// Amounts are what the call moves, as its sentence has it; of several alike, the least and
	// the largest of each currency.
	Amounts []string
	// Pick says that the call can be chosen, to be decided together with others.
	Pick bool
	// Alike is how many calls the row stands for; more than one are at AlikeURL.
	Alike    int
	AlikeURL string
	// Group is what is at stake with all of them, in parts.
	Group []string
	// Stakes says what the call does; of several, the first one.
	Stakes Stakes
	// SnoozedUntil is until when the person has snoozed it, and BringBack where a form with its
	// id ends that; zero and "" where they have not.
	SnoozedUntil time.Time
	BringBack    string
	// Unreadable says that the call's arguments cannot be read.
	Unreadable bool
	// ClaimedBy is who has claimed it, or "".
	ClaimedBy string
	// PassedBy is who passed it on to them; "" where they claimed it themselves.
	PassedBy string
	// Mine says that the reader has claimed it, or that it was passed on to them, and ByMe that
	// they passed it on themself.
	Mine, ByMe bool
	// Edited says that a reviewer has changed the arguments, Question that one waits for
	// an answer, and Deceptive that the row has text that may mislead.
	Edited, Question, Deceptive bool
	// Answered says that the last question has its answer, "" where none has, and AskedByMe that
	// the question was the reader's.
	Answered  string
	AskedByMe bool
	// Why is the strictest finding's message.
	Why string
	// Asked says what is needed: "review by finance-approver", and WhyMe why of this
	// person, where that needs to be said.
	Asked, WhyMe       string
	Given, Needed      int
	OpenedAt, Deadline time.Time
}

// AwaitedReview is what somebody has to review of who has which role.
type AwaitedReview struct {
	Lines int
	DueAt time.Time
}

// OtherTasks is how much the person is asked for beside deciding.
func (v Inbox) OtherTasks() int { return len(v.Tasks) + len(v.Tickets) + len(v.Mine) }

// WaitingWords says how much waits.
func WaitingWords(v Inbox) string {
	switch {
	case v.Search.Form["snoozed"] != "" && v.Found == 0:
		return "Nothing is snoozed"
	case v.All == 0 && v.OtherTasks() > 0:
		return "Nothing else waits for you"
	case v.All == 0:
		return "Nothing waits for you"
	case v.Search.Form["snoozed"] != "":
		return Plural(v.Found, "call is", "calls are") + " snoozed"
	case v.Search.Query != "" && v.Found != v.All:
		return Thousands(v.Found) + " of the " + Plural(v.All, "call that waits", "calls that wait") + " for you"
	}
	return Plural(v.All, "call waits", "calls wait") + " for you"
}

// SayWords is what is said of an open inbox when it changes.
func SayWords(v Inbox) string {
	words, said := WaitingWords(v), map[string]bool{}
	for _, row := range v.Rows {
		if row.Stopped && !said[row.Agent] {
			words, said[row.Agent] = words+". Stopped by the kill switch: "+Visible(row.Agent), true
		}
	}
	return words
}

// shownWords says which rows are here and in what order.
func shownWords(v Inbox) string {
	words := map[string]string{"": ", the earliest deadline first", "oldest": ", the oldest first", "newest": ", the newest first"}[v.Search.Form["sort"]]
	if v.Search.Alike {
		words = ", in " + Plural(v.Groups, "group", "groups") + " of alike calls" + words
	}
	if v.Groups > len(v.Rows) {
		words += ": " + Thousands(v.From+1) + " to " + Thousands(v.From+len(v.Rows))
	}
	return words + "."
}

// Since says how long ago a moment was: "12 min ago".
func Since(at, now time.Time) string {
	switch ago := now.Sub(at); {
	case ago < time.Minute:
		return "just now"
	case ago < time.Hour:
		return itoa(int(ago/time.Minute)) + " min ago"
	case ago < 48*time.Hour:
		return itoa(int(ago/time.Hour)) + " h ago"
	default:
		return itoa(int(ago/(24*time.Hour))) + " days ago"
	}
}

func inboxRowURL(row InboxRow) string {
	if row.Alike > 1 {
		return row.AlikeURL
	}
	return "/approvals/" + row.ID
}

// What to know of a search that finds nothing.
const (
	argumentsUnsearched = "Arguments are sealed, and not searched."
	searchScope         = "Words are looked for in tools, agents, environments, risk domains and ids. What a call’s sentence and arguments say is sealed, and not searched."
)

func problemLines(problems []string) string { return strings.Join(problems, "\n") }

func savedHere(saved []SavedView) (SavedView, bool) {
	i := slices.IndexFunc(saved, func(s SavedView) bool { return s.Here })
	if i < 0 {
		return SavedView{}, false
	}
	return saved[i], true
}

// PageTitle is what the browser shows as a page's title.
func PageTitle(f Frame) string { return f.Title + " · Holdpoint" }
