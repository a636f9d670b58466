package stakes

import "testing"

func TestSort(t *testing.T) {
	for tool, want := range map[string]string{
		"pay_invoice": "payment", "transferFunds": "payment", "refund_order": "refund", "delete_payment": "deletion", "stripe.payouts.create": "payment",
		"get_payment": "", "list-messages": "", "send_email": "message", "run_sql": "query", "deploy": "deployment", "grant_role": "change of access",
		"mcp__shell__exec": "command", "frobnicate": "", "": "",
	} {
		if got := Sort(tool); got != want {
			t.Errorf("%q is a %q, want %q", tool, got, want)
		}
	}
}
