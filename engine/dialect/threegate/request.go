package threegate

import "time"

// Request is a document's content, typed. Fields that could not be read are zero.
type Request struct {
	RequestType      string
	RequestID        string
	CreatedUTC       time.Time
	RequestedBy      string // "human" or "core_draft"
	ApprovedBy       string // what the document claims; proof is a token over its digest
	ApprovedUTC      time.Time
	Purpose          string
	Language         string   // "python", "node", "ts", "go" or "ruby"
	Network          string   // "none" or "allowlist"
	NetworkAllowlist []string // host names
	CPULimit         string   // cores, a decimal
	MemoryLimitMB    int
	TimeLimitSec     int
	Inputs           []Input
	OutputsExpected  []Output
	Constraints      []string
	Command          Command
	Risk             Risk
}

// Input is a file that the run may read.
type Input struct {
	Name   string // relative to /in
	SHA256 string // 64 lower-case hex digits
}

// Output is a file that the run is expected to write.
type Output struct {
	Path        string // absolute: /out/…
	Description string
}

// Command is the one command line.
type Command struct {
	Line    string
	Program string
	// Argv is the line split into words as a shell would, Program first. The
	// line has no syntax but quotes.
	Argv []string
}

// Risk is the risk assessment's four labels.
type Risk struct {
	Level            string // "low", "medium" or "high"
	Justification    string
	DataSensitivity  string // "public", "internal" or "confidential"
	NetworkRationale string // empty or "none" without network
}
