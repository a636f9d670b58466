package threegate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// ToolName is the tool that a request proposes to call, whatever its language.
const ToolName = "tool-exec"

// Digest names a document by its bytes: "sha256:" and 64 lower-case hex digits.
// An approval is bound to the draft's.
func Digest(document []byte) string {
	sum := sha256.Sum256(document)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Arguments are the arguments of the call that a document proposes: an object
// whose only member, document, is the whole text, so that the call's digest
// binds every byte. Bytes that no JSON string can hold give null; Judge refuses
// them.
func Arguments(document []byte) canon.Value {
	text := string(document)
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return canon.Null()
	}
	return canon.Object(canon.Member{Name: "document", Value: canon.String(text)})
}

// Verdict is the answer of Eval.
type Verdict struct {
	Valid      bool        `json:"valid"`
	Violations []Violation `json:"violations"`
}

// Eval judges a promoted document for "holdpoint eval --dialect threegate".
func Eval(document string, now time.Time) any {
	report := Judge([]byte(document), now)
	return Verdict{Valid: report.Valid, Violations: report.Violations}
}
