package registry

import "testing"

func TestNames(t *testing.T) {
	var none Names
	if name, ok := none.Lookalike("anything"); ok {
		t.Errorf("of no names, it looks like %q", name)
	}
	var n Names
	for _, name := range []string{"issue_refund", "Bash", "bash", "read.file"} {
		n.Add(name)
	}
	n.AddPrefix("read.")
	n.AddPrefix("shell_")
	for name, want := range map[string]string{
		"issue_refund": "", "Issue_Refund": "issue_refund", "ISSUE_REFUND": "issue_refund", "issue_refunđ": "", "ıssue_refund": "issue_refund", "issue_refunds": "",
		"Bash": "", "bash": "", "BASH": "Bash", "read.file": "", "read.File": "read.file", "read.mail": "", "Read.mail": "read.*", "READ.FILE": "read.file",
		"Shell_exec": "shell_*", "sheII_exec": "shell_*", "shell_exec": "", "shell": "", "web": "", "": "",
	} {
		if got, ok := n.Lookalike(name); got != want || ok != (want != "") {
			t.Errorf("%q looks like %q (%v), want %q", name, got, ok, want)
		}
	}
}
