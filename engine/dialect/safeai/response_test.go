package safeai_test

import (
	"slices"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
)

// A field of a response is the one that the contract lists if its name is exactly
// that: one with blanks or other letters around it is another field.
func TestResponseFieldsByTheirExactNames(t *testing.T) {
	set, problems := safeai.Load([]byte("tool_contracts:\n  pay:\n    allowed_response_fields: [status, ' padded ']\n"), "c.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	names := []string{"status", " status", "status ", "\tstatus", "status\n", "\u00a0status", "\u200bstatus", "padded", " padded "}
	var members []canon.Member
	for _, name := range names {
		members = append(members, canon.Member{Name: name, Value: canon.String("x")})
	}
	got := set.InterceptResponse("pay", canon.Object(members...), detector)
	var kept []string
	for name := range got.SafeResponse.All() {
		kept = append(kept, name)
	}
	// What the contract says is trimmed as it is read.
	if want := []string{"status", "padded"}; !slices.Equal(kept, want) || len(got.StrippedFields) != len(names)-len(want) {
		t.Errorf("kept %q and stripped %q, want to keep %q", kept, got.StrippedFields, want)
	}
}
