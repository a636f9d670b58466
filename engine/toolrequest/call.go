package toolrequest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

const (
	// Dialect names these documents in an engine.Call.
	Dialect = "threegate"
	// ToolName is the tool that a request proposes to call, whatever its language.
	ToolName = "tool-exec"
)

// Digest names a document by its bytes: "sha256:" and 64 lower-case hex digits.
// An approval is bound to the draft's.
func Digest(document []byte) string {
	sum := sha256.Sum256(document)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Arguments are the arguments of the call that a document proposes: an object
// whose only member, document, is the whole text, so that the call's digest
// binds every byte. Bytes that no JSON string can hold give null; Check refuses
// them.
func Arguments(document []byte) canon.Value {
	text := string(document)
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return canon.Null()
	}
	return canon.Object(canon.Member{Name: "document", Value: canon.String(text)})
}

// Call is the call that a document proposes. The caller adds who proposes it and
// where it would run. The language is its category.
func Call(r *Request, document []byte) engine.Call {
	return engine.Call{
		Dialect: Dialect, RequestID: r.RequestID, Tool: ToolName, Category: r.Language,
		Digest: canon.Digest(ToolName, Arguments(document)),
	}
}

// Verdict is the answer of Eval.
type Verdict struct {
	Valid      bool        `json:"valid"`
	Violations []Violation `json:"violations"`
}

// Eval judges a promoted document for "holdpoint eval --dialect threegate".
func Eval(document string, now time.Time) any {
	report := Check([]byte(document), now)
	return Verdict{Valid: report.Valid, Violations: report.Violations}
}
