package views

// AuditExport is the page from which the audit log is exported.
type AuditExport struct {
	Frame
	// Since and Until are days as they were entered, Format one of Formats.
	Since, Until, Format string
	Formats              []Option
	// Failure is why nothing was exported, or "".
	Failure string
	// Server is where this server is reached, and Keys are the log's.
	Server string
	Keys   []string
}
