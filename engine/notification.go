package engine

import "slices"

// NotificationKind is what a notification tells of an approval. Whatever differs
// between kinds is a field of NotificationTraits.
type NotificationKind string

// The kinds of notifications. An endpoint chooses among all but the last two.
const (
	NotifyOpened           NotificationKind = "opened"            // an approval waits for people
	NotifyStage            NotificationKind = "stage"             // its next requirement waits
	NotifyEdited           NotificationKind = "edited"            // what is to be approved has changed
	NotifyReminder         NotificationKind = "reminder"          // it still waits
	NotifyEscalated        NotificationKind = "escalated"         // another role may act on it, too
	NotifyPassedOn         NotificationKind = "passed_on"         // a reviewer passed it on to a colleague
	NotifyInfoRequested    NotificationKind = "info_requested"    // a reviewer asks the agent for something
	NotifyInfoGiven        NotificationKind = "info_given"        // the agent has answered
	NotifyBreakGlass       NotificationKind = "break_glass"       // somebody let a call pass in an emergency
	NotifyDecided          NotificationKind = "decided"           // it is over
	NotifyNobodyEligible   NotificationKind = "nobody_eligible"   // it waits, and nobody could act on it
	NotifyReviewOwed       NotificationKind = "review_owed"       // an emergency's review is still to be done
	NotifyExecutionUnknown NotificationKind = "execution_unknown" // the call may have run, and nobody has said how it ended
	NotifyAccessReview     NotificationKind = "access_review"     // who has which role waits for a review
	NotifyDigest           NotificationKind = "digest"            // several notifications in one
	NotifyTest             NotificationKind = "test"              // somebody tries whether notifications arrive
)

// NotificationTraits is all that holds of a kind of notification.
type NotificationTraits struct {
	Kind NotificationKind
	// Title heads the message. Message is its one sentence. Summary is a phrase for
	// lists of kinds. What is "" depends on more than the kind.
	Title, Message, Summary string
	// Waits says that it is sent because the approval waits for somebody.
	Waits bool
	// Urgent says that it is sent at once where others are gathered in a digest.
	Urgent bool
	// Rank orders a digest: 0 is what somebody should look at first.
	Rank int
}

// Precedes reports whether it is sent before others that have waited longer: what a digest
// has before everything that merely waits.
func (t NotificationTraits) Precedes() bool { return t.Rank < 2 }

// notificationTraits has every kind, in the order in which people choose.
var notificationTraits = []NotificationTraits{
	{
		Kind: NotifyOpened, Waits: true, Rank: 2,
		Title: "Approval needed", Summary: "an approval waits",
		Message: "A call waits for a decision.",
	},
	{
		Kind: NotifyStage, Waits: true, Rank: 2,
		Title: "Approval needed, next stage", Summary: "its next stage waits",
		Message: "What came before is done: the call waits for the next requirement.",
	},
	{
		Kind: NotifyEdited, Waits: true, Rank: 2,
		Title: "Call edited", Summary: "what is asked for has changed",
		Message: "What is asked for has changed, so what was said of it before does not count any more.",
	},
	{
		Kind: NotifyReminder, Waits: true, Rank: 2,
		Title: "Still waiting for approval", Summary: "it still waits",
		Message: "Nobody has decided yet.",
	},
	{
		Kind: NotifyEscalated, Waits: true, Urgent: true, Rank: 1,
		Title: "Approval escalated", Summary: "others may decide as well",
		Message: "It has waited for long, or too few are left who could decide: others may decide as well.",
	},
	{
		Kind: NotifyPassedOn, Waits: true, Urgent: true, Rank: 1,
		Title: "Approval passed on", Summary: "a reviewer passed it on",
		Message: "A reviewer passed it on to a colleague.",
	},
	{
		Kind: NotifyInfoRequested, Waits: true, Rank: 2,
		Title: "Information requested", Summary: "a reviewer asks for something",
		Message: "A reviewer asks for more information: see the page.",
	},
	{
		Kind: NotifyInfoGiven, Waits: true, Rank: 2,
		Title: "Information given", Summary: "the agent has answered",
		Message: "The requesting side has answered: see the page.",
	},
	{
		Kind: NotifyBreakGlass, Urgent: true,
		Title: "Break-glass was used", Summary: "somebody breaks the glass",
		Message: "Somebody breaks the glass: the call is to run without the approval that it needs.",
	},
	{
		Kind: NotifyDecided, Rank: 3,
		Title: "Decided", Summary: "it is decided",
	},
	{
		Kind: NotifyNobodyEligible, Waits: true, Urgent: true,
		Title: "Nobody can approve", Summary: "nobody can decide",
		Message: "It waits, and nobody is left who could decide. It runs out of time unless somebody gets the role.",
	},
	{
		Kind: NotifyReviewOwed, Rank: 2,
		Title: "Review needed after break-glass", Summary: "a review is needed after break-glass",
		Message: "One person let the call pass in an emergency: somebody else has to look at it.",
	},
	{
		Kind:  NotifyExecutionUnknown,
		Title: "Unknown whether the call ran", Summary: "nobody knows whether the call ran",
		Message: "Nobody knows whether the call ran. A person has to find out and say so.",
	},
	{
		Kind: NotifyAccessReview, Rank: 2,
		Title: "Access review", Summary: "who has which role is to be reviewed",
		Message: "Who has which role is to be reviewed.",
	},
	{Kind: NotifyDigest, Rank: 3, Title: "Digest", Summary: "digest"},
	{
		Kind: NotifyTest, Rank: 3,
		Title: "Test of notifications", Summary: "a test",
		Message: "This is a test. If you can read it, notifications arrive here.",
	},
}

// NotificationKinds returns every kind, those that an endpoint can choose first.
func NotificationKinds() []NotificationKind {
	all := make([]NotificationKind, len(notificationTraits))
	for i, t := range notificationTraits {
		all[i] = t.Kind
	}
	return all
}

// EndpointKinds returns the kinds that an endpoint can choose.
func EndpointKinds() []NotificationKind {
	return slices.DeleteFunc(NotificationKinds(), func(k NotificationKind) bool { return k == NotifyDigest || k == NotifyTest })
}

// Traits is what holds of the kind. One that is not known has nothing but its name.
func (k NotificationKind) Traits() NotificationTraits {
	if i := slices.IndexFunc(notificationTraits, func(t NotificationTraits) bool { return t.Kind == k }); i >= 0 {
		return notificationTraits[i]
	}
	return NotificationTraits{Kind: k, Title: "Notice", Summary: string(k), Rank: 3}
}
