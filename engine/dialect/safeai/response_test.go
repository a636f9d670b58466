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

// Names that differ by case only are two fields, also below those that are masked.
func TestResponseFieldsOfTwoCases(t *testing.T) {
	set, problems := safeai.Load([]byte("tool_contracts:\n  pay:\n    allowed_response_fields: [status, Status]\n    mask_response: true\n"), "c.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	response, err := canon.ParseExact([]byte(`{"status":"ok","Status":{"to":"ada@example.com","To":1},"STATUS":2}`))
	if err != nil {
		t.Fatal(err)
	}
	got := set.InterceptResponse("pay", response, detector)
	if want := `{"Status":{"To":1,"to":"[REDACTED:personal.pii.email]"},"status":"ok"}`; string(got.SafeResponse.Canonical()) != want || !slices.Equal(got.StrippedFields, []string{"STATUS"}) {
		t.Errorf("%s, stripped %q; want %s", got.SafeResponse.Canonical(), got.StrippedFields, want)
	}
}
