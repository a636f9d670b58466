package report

import (
	"slices"

	"holdpoint/internal/gate"
)

// Lists are the reports that are lists, in the order in which an auditor asks. Their SQL
// is the store's, with columns of the same names in the same order.
func Lists() []List {
	return []List{
		{
			Name: "roles", Title: "Joiners, movers, leavers", Asks: "Who got or lost which role, when, by whose act, and on whose approval.",
			None: "Nobody joined, left or changed roles in this period, nobody was put on call, and nobody stood in for anybody.",
			Columns: slices.Concat(
				[]ListColumn{own("time", "When", TimeCell), own("act", "What", TermCell)}, person("Person"),
				[]ListColumn{
					own("roles_given", "Roles given", TextCell), own("roles_taken", "Roles taken", TextCell), file("roles_after", "Roles afterwards"),
					below("in_place_of", "In place of", TextCell, "in place of "), below("valid_from", "From", TimeCell, "from "), below("valid_until", "Until", TimeCell, "until "),
				}, byWhom(), []ListColumn{
					own("approved", "Approved", TermCell), below("approval_id", "Approval", ApprovalCell, "as "), below("proposed_by", "Proposed by", TextCell, "proposed by "), below("approved_by", "Who approved", TextCell, "approved by "),
				}),
			Terms: []Term{
				{"joined", "The account was added."},
				{"moved", "The account’s roles were changed."},
				{"left", "The account was disabled."},
				{"returned", "The account was enabled again."},
				{"on_call", "They were put on call, which gives the schedule’s role for a time. Without a person: the schedule was emptied."},
				{"stands_in", "They decide in somebody else’s place for a time."},
				{"stands_in_no_more", "That was revoked."},
				{"people", "By people: the change waited for them, and settlement made it once they had approved it."},
				{"nobody_asked", "People should have approved it, and were not asked: whoever owns the database made it in an emergency."},
				{"no_need", "Nobody had to approve it."},
			},
		},
		{
			Name: "approvals", Title: "Approvals", Asks: "Every approval that ended: of which call, asked of which role, who decided, how long it took, how it ended, and how much it was about.",
			None: "No approval ended in this period.",
			Columns: slices.Concat(
				[]ListColumn{own("time", "Ended", TimeCell)}, call(),
				[]ListColumn{
					file("risk_domain", "Risk domain"), own("roles", "Asked of", TextCell),
					fileTime("proposed_at", "Proposed"),
					own("seconds", "Took", SecondsCell), own("status", "Outcome", TermCell), own("decided", "Decided by", TermCell), below("decided_by", "Who decided", TextCell, ""),
					file("decided_by_id", "Who decided, by id"), own("execution", "The call", TermCell),
				}, amount()),
			Terms: append([]Term{
				{"approved", "It may run once."},
				{"denied", "It may not run."},
				{"expired", "Nobody decided in time: it may not run."},
				{"cancelled", "The requesting side took it back."},
				{"people", "By people: those whose yes counted, or who denied it. A standing grant counts as its maker."},
				{"break_glass", "In an emergency, by people without the role."},
				{"rules", "By the rules alone: accepted when it was proposed, or refused when it was judged again."},
				{"time", "By the deadline."},
				{"requesting_side", "By the requesting side: it confirmed, or took it back."},
			}, slices.Concat(executionTerms(), amountTerms())...),
		},
		{
			Name: AmountsList, Title: "Amounts", Asks: "How much was approved and how much was not, in each currency: in all, asked of which role, and decided by whom.",
			None: "No approval ended in this period.",
			Columns: slices.Concat(
				[]ListColumn{own("of", "Of", TermCell), below("role", "Role", TextCell, "")}, person("Person"),
				[]ListColumn{own("status", "Outcome", TermCell), own("approvals", "Approvals", NumberCell)}, amount()),
			Terms: append([]Term{
				{"all", "Each approval once."},
				{"role", "Asked of this role. What was asked of two roles is in the rows of both: these do not add up to all."},
				{"person", "Decided by this person. What two people decided is in the rows of both: these do not add up to all."},
				{"approved", "They might run once."},
				{"denied", "They might not run."},
				{"expired", "Nobody decided in time."},
				{"cancelled", "The requesting side took them back."},
			}, amountTerms()...),
		},
		{
			Name: "duties", Title: "Separation of duties", Asks: "Who has duties that should be apart, and who decided on what was their own.",
			None: "Nobody had duties that should be apart, as far as accounts, roles and votes say.",
			Columns: slices.Concat(
				[]ListColumn{own("finding", "Finding", TermCell), own("time", "Since", TimeCell)}, person("Person"),
				[]ListColumn{
					own("other", "With", TextCell), own("approval_id", "Approval", ApprovalCell), below("tool", "Tool", TextCell, ""), below("agent_id", "Agent", TextCell, "by "), own("count", "How many", NumberCell),
				}),
			Terms: []Term{
				{"two_accounts", "The person has another account. Both share one voice, so that they count once; with is the first account."},
				{"administers_and_decides", "At the period’s end the account administered and had the roles beside it, by which it decides."},
				{"audits_and_decides", "At the period’s end the account read everything as auditor and had the roles beside it, by which it decides."},
				{"administered_and_decided", "In the period they changed people, keys, agents, tools or limits, and approved calls: how many."},
				{"decided_own_call", "They approved a call of their own side. Holdpoint refuses that: a row means that data was changed around it, or that accounts were joined since."},
				{"decided_for_own_agent", "They approved a call of an agent for which they answer today."},
				{"voted_twice", "One person approved the same call by two accounts."},
				{"reviewed_own_emergency", "They reviewed an emergency approval of their own."},
			},
		},
		{
			Name: "break-glass", Title: "Break-glass register", Asks: "Who approved in an emergency without the role, and whether somebody else has reviewed it.",
			None: "Nobody broke the glass in this period.",
			Columns: slices.Concat(
				[]ListColumn{own("time", "When", TimeCell)}, person("Who"), call(),
				[]ListColumn{
					own("roles", "In place of", TextCell), own("status", "Outcome", TermCell), own("review", "Review", TermCell), below("owed_at", "Needed since", TimeCell, "needed since "),
					below("reviewed_at", "Reviewed", TimeCell, "reviewed "), below("reviewed_by", "Reviewer", TextCell, "by "), file("reviewed_by_id", "Reviewer, by id"),
					own("execution", "The call", TermCell), own("event_id", "Event", EventCell),
				}),
			Terms: append([]Term{
				{"owed", "One person did so alone, and nobody has reviewed it yet."},
				{"justified", "Somebody else reviewed it: it was justified."},
				{"not_justified", "Somebody else reviewed it: it was not justified."},
				{"not_owed", "Two people did so together, or it did not end that way: no review is needed."},
			}, executionTerms()...),
		},
		{
			Name: "executions", Title: "Approved, not seen to run", Asks: "Which approved calls never ran or were never reported, and which calls ran without a decision.",
			None: "Every approved call ran and was reported, and no call is known to have run without a decision.",
			Columns: slices.Concat(
				[]ListColumn{own("time", "Approved", TimeCell), own("finding", "Finding", TermCell)}, call(),
				[]ListColumn{
					own("may_run_until", "May run until", TimeCell), own("run_at", "Started", TimeCell), below("report_until", "Report due", TimeCell, "report due "),
					file("execution", "The call"), own("found_out_by", "Found out by", TextCell), below("found_out_at", "Found out", TimeCell, ""), own("event_id", "Event", EventCell),
				}),
			Terms: []Term{
				{"never_run", "It was approved, and its time to run has passed or the world has changed."},
				{"not_run_yet", "It was approved, and may still run."},
				{"running", "It was started, and its time to report is not over."},
				{"not_reported", "It was started, and its time to report is over."},
				{"outcome_unknown", "It was started, and nobody knows what became of it. A person has to find out."},
				{"found_out", "Nobody knew what became of it, and a person found out."},
				{"ungated", "It ran although nothing had permitted it, as the program beside the agent has found. The time is that of the report."},
			},
		},
		{
			Name: "policies", Title: "Policy history", Asks: "Which policy and tool contracts were in force from when to when, who put them there, on whose approval, and whose keys have signed them.",
			None: "The log has no policy that was in force in this period.",
			Columns: slices.Concat(
				[]ListColumn{
					own("kind", "What", TermCell), own("version", "Version", TextCell), own("in_force_from", "From", TimeCell), own("in_force_until", "Until", TimeCell),
					file("digest", "Digest"), file("document", "The file’s digest"),
					own("approved", "Approved", TermCell), own("approval_id", "Approval", ApprovalCell), below("author", "Author", TextCell, "written by "), below("approved_by", "Who approved", TextCell, "approved by "),
					own("signed_by", "Signed by", TextCell),
				}, byWhom()),
			Terms: []Term{
				{"policy", "A policy bundle. Its digest, in the CSV file, is that which decisions and tokens name."},
				{"contracts", "Tool contracts."},
				{"people", "By people, who saw the difference to what was in force before: the approval has it, with its author and the reason."},
				{"nobody_asked", "People should have approved it, and were not asked: whoever owns the database put it in force in an emergency."},
				{"no_need", "Nobody had to approve it."},
			},
		},
		{
			Name: "factors", Title: "Second factors", Asks: "Who had which second factor, from when to when.",
			None: "Nobody had a second factor in this period.",
			Columns: slices.Concat(
				person("Person"),
				[]ListColumn{
					own("factor", "Factor", TermCell), own("since", "Since", TimeCell), own("until", "Until", TimeCell), below("ended_by", "How it ended", TermCell, ""), own("source", "Known from", TermCell),
				}, byWhom()),
			Terms: []Term{
				{"passkey", "A passkey (WebAuthn)."},
				{"totp", "An authenticator app (TOTP)."},
				{"removed", "Its holder removed it."},
				{"reset", "An administrator removed all of the person’s factors."},
				{"log", "The event that added it."},
				{"database", "It is there today, and no event says who added it."},
			},
		},
		{
			Name: "keys", Title: "API keys", Asks: "Which API keys were good, whose and for what, who made and revoked them, and when they were last used.",
			None: "No API key was good in this period.",
			Columns: slices.Concat(
				[]ListColumn{
					own("key_id", "Key", TextCell), below("label", "Label", TextCell, ""), own("kind", "Kind", TermCell), below("agent", "Agent", TextCell, "of "), file("agent_id", "Agent, by id"),
					below("person", "Person", TextCell, "of "), file("person_id", "Person, by id"), own("scopes", "For", TextCell), own("max_state", "May claim", TextCell), own("created_at", "Made", TimeCell), own("expires_at", "Until", TimeCell),
					below("revoked_at", "Revoked", TimeCell, "revoked "), below("revoked_by", "Revoked by", TextCell, "by "), own("last_used_at", "Last used", TimeCell),
				}, byWhom()),
			Terms: []Term{
				{"agent", "Held by an agent: it proposes calls of its own."},
				{"runtime", "Held by the host of an agent."},
				{"admin", "Held by an administrator, or by a program that administers, reads the log or is a directory."},
			},
		},
		{
			Name: "access-reviews", Title: "Access reviews", Asks: "Who was asked to review which role of whom, what they said, and what became of it.",
			None: "No access review was started in this period.",
			Columns: slices.Concat(
				[]ListColumn{
					own("time", "Started", TimeCell), own("review", "Review", TextCell), file("review_id", "Review, by id"), fileTime("period_from", "Period from"), fileTime("period_until", "Period until"),
					below("due_at", "Due", TimeCell, "due "), below("state", "State", TermCell, ""), fileTime("ended_at", "Ended"),
				}, person("Person"),
				[]ListColumn{
					own("role", "Role", TextCell), own("reviewer", "Reviewer", TextCell), file("reviewer_id", "Reviewer, by id"), own("decision", "Decision", TermCell), below("decided_at", "Decided", TimeCell, ""),
					below("comment", "Comment", TextCell, ""), below("removed_at", "Taken away", TimeCell, "taken away "), file("incomplete", "Ended all the same, because"), file("digest", "Digest of its lines"),
				}),
			Terms: []Term{
				{"open", "Reviewers have time left."},
				{"overdue", "It is not over, although it is due."},
				{"completed", "Everything was reviewed, and what was to be taken away was."},
				{"ended", "It was ended with something left to do."},
				{"certified", "The reviewer said that the role is still needed."},
				{"removal_asked", "The reviewer said that the role is to be taken away, and the account is not known to be without it."},
				{"removed", "The reviewer said so, and it was taken away; a grant after that is another one."},
				{"not_reviewed", "Nobody has said anything."},
			},
		},
		{
			Name: AccessList, Title: "Access", Asks: "Who had which role at the period’s end, how and since when, with which second factors; and which role that is asked for nobody had.",
			None: "Nobody had a role, and none was asked for.",
			Columns: slices.Concat(
				[]ListColumn{own("role", "Role", TextCell), file("asked", "Asked for")}, person("Person"),
				[]ListColumn{
					own("how", "How", TermCell), below("via", "In place of", TextCell, "in place of "), own("since", "Since", TimeCell), below("until", "Until", TimeCell, "until "), file("unsure", "What the log does not say"),
					own("factors", "Second factors", TextCell), own("last_sign_in", "Last signed in", TimeCell), own("people", "Have it", NumberCell), below("needed", "Needed", NumberCell, "needed "), fileTime("as_of", "As of"),
				}),
			Terms: []Term{
				{"direct", "By the account’s own roles."},
				{"on_call", "By being on call."},
				{"delegation", "By standing in for somebody. That is no further voice."},
				{"nobody", "Something asks for it, or Holdpoint gives it a meaning, and nobody had it."},
			},
		},
		{
			Name: ReviewersList, Title: "Reviewers", Asks: "How much each person decided, how fast, and what looks like fatigue.",
			None: "Nobody decided anything in this period.",
			Columns: slices.Concat(
				person("Reviewer"),
				[]ListColumn{
					own("decided", "Decided", NumberCell), own("approved", "Approved", NumberCell), own("denied", "Denied", NumberCell), own("median_seconds", "Median time", SecondsCell), own("p95_seconds", "95% within", SecondsCell),
					file("timed", "Votes after a card that was shown"), own("quick", "Within 5 s", NumberCell), file("nights", "At night"), file("weekends", "On weekends"), own("off_hours", "Off hours", NumberCell), own("questions", "Questions", NumberCell),
					file("on_call", "On call"), own("alone", "Alone on call", NumberCell), own("by_grant", "By grant", NumberCell), file("as_deputy", "In somebody’s place"), file("busiest_day", "Busiest day"), file("busiest", "Decided on it"),
					fileTime("last_vote", "Last vote"), own("note", "Looks like fatigue", TextCell), file("disabled", "Account disabled"), file("zone", "Time zone of nights, weekends and days"),
				}),
			Terms: []Term{},
		},
		{
			Name: ClaimsList, Title: "Claims", Asks: "Whom agents named as their own side, so that these could not decide.",
			None: "No agent kept anybody from deciding in this period.",
			Columns: []ListColumn{
				own("agent", "Agent", TextCell), file("agent_id", "Agent, by id"), own("of", "Of", TermCell), own("person", "Whom", TextCell), file("identity", "Whom, by identity"),
				own("times", "Approvals with claims", NumberCell), own("before", "In the period before", NumberCell), own("opened", "Opened in all", NumberCell), own("widened", "Widened", NumberCell), own("sudden", "Sudden", TermCell),
			},
			Terms: []Term{
				{"all", "Each approval once, whomever it excludes."},
				{"person", "Approvals that exclude this person. What excludes two is in the rows of both: these do not add up to all."},
				{"sudden", "At least three, and more than three times as many as in the period before, which is as long."},
			},
		},
		{
			Name: "erasures", Title: "Erasures and legal holds", Asks: "What was erased, by which rule and for whom, and what was held from being erased.",
			None: "Nothing was erased in this period, and nothing was held.",
			Columns: slices.Concat(
				[]ListColumn{
					own("time", "When", TimeCell), own("act", "What", TermCell), own("covers", "Covers", TermCell), own("of", "Of", TextCell), below("approval_id", "Approval", ApprovalCell, ""), file("of_id", "Of, by id"),
					own("rule", "By", TermCell), file("parts", "Parts"), own("reason", "Reason", TextCell), own("released_at", "Released", TimeCell), below("released_by", "Released by", TextCell, "by "),
					own("by", "By whom", TextCell), file("by_id", "By, by id"), own("event_id", "Event", EventCell),
				}),
			Terms: []Term{
				{"erased", "Its sealed parts are gone. What remains is that, when and why."},
				{"held", "It cannot be erased until the hold is released."},
				{"approval", "One approval."},
				{"agent", "All approvals of one agent."},
				{"person", "One person: the name and address, and how they sign in."},
				{"everything", "Everything."},
				{"request", "Somebody asked for it."},
				{"age", "It had ended as long ago as the settings keep it."},
			},
		},
	}
}

func own(name, title string, kind CellKind) ListColumn {
	return ListColumn{Name: name, Title: title, Kind: kind}
}

func below(name, title string, kind CellKind, lead string) ListColumn {
	return ListColumn{Name: name, Title: title, Kind: kind, Place: Below, Lead: lead}
}

func file(name, title string) ListColumn {
	return ListColumn{Name: name, Title: title, Kind: TextCell, Place: InFile}
}

func fileTime(name, title string) ListColumn {
	return ListColumn{Name: name, Title: title, Kind: TimeCell, Place: InFile}
}

func person(title string) []ListColumn {
	return []ListColumn{own("person", title, TextCell), below("email", "E-mail", TextCell, ""), file("person_id", "Person, by id")}
}

func byWhom() []ListColumn {
	return []ListColumn{own("by", "By", TextCell), file("by_id", "By, by id"), below("channel", "Through", TextCell, ""), own("event_id", "Event", EventCell)}
}

func call() []ListColumn {
	return []ListColumn{own("approval_id", "Approval", ApprovalCell), own("tool", "Tool", TextCell), file("agent_id", "Agent, by id"), below("agent", "Agent", TextCell, "by "), file("environment", "Environment")}
}

// amount are the columns of how much it is about, or of why that is not known.
func amount() []ListColumn {
	return []ListColumn{own("amount", "Amount", AmountCell), file("currency", "Currency"), below("amount_note", "Why there is no amount", TermCell, "")}
}

func amountTerms() []Term {
	return []Term{
		{noCurrency, "The call names no currency, so its amount is added to no other."},
		{string(gate.AmountErased), "The arguments were erased, and the amount with them."},
		{string(gate.AmountUntold), "No sentence is written for the tool, so nothing says which argument is an amount."},
		{string(gate.AmountNone), "The call’s sentence has no amount, or the call gives none in its place."},
		{string(gate.AmountInUnits), "It is in the smallest unit of a currency of which Holdpoint does not know how many make one."},
		{string(gate.AmountUnreadable), "The sealed arguments cannot be read."},
		{noKey, "The program that made this report has no data key, without which arguments are not read."},
	}
}

func executionTerms() []Term {
	return []Term{{"none", "It did not run."}, {"redeemed", "It was started, and not reported yet."}, {"succeeded", "It ran."}, {"failed", "It was started and failed."}, {"unknown", "Nobody knows what became of it."}}
}
