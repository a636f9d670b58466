package api_test

import "testing"

// Where nothing makes evidence packs, the answer says so.
func TestNoEvidencePacks(t *testing.T) {
	h := newHarness(t)
	h.ask("/v1/audit/evidence?approval_id=apr_a").want(t, 404, "no_evidence_packs")
	h.ask("/v1/audit/evidence?what=1").want(t, 400, "unknown_parameter")
}
