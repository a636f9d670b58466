package stakes

import (
	"slices"
	"strings"
)

// sorts are the sorts of calls that a tool's name tells of, the first that fits: what is
// deleted is a deletion, whatever it is.
var sorts = []struct{ sort, words string }{
	{"deletion", deletes},
	{"refund", "refund refunds reimburse reimbursement"},
	{"payment", "pay payment payments payout payouts transfer transfers wire remit disburse charge"},
	{"change of access", "grant revoke permission permissions role roles iam acl"},
	{"deployment", "deploy deployment release rollout promote rollback"},
	{"message", "mail email mails emails gmail smtp message messages sms slack teams notify chat"},
	{"query", "sql query postgres mysql"},
	{"command", "shell bash exec command terminal"},
}

// Sort says by a tool's name alone what sort of call it makes, "payment", or "" where
// the name does not tell. It is for where nothing of the arguments may be shown.
func Sort(tool string) string {
	words := wordsOf(tool)
	says := func(list string) bool {
		return slices.ContainsFunc(strings.Fields(list), func(w string) bool { return slices.Contains(words, w) })
	}
	if says(looks) {
		return ""
	}
	for _, s := range sorts {
		if says(s.words) {
			return s.sort
		}
	}
	return ""
}
