// Package gate is the one place through which everything passes: it judges
// proposed calls, takes votes, answers and cancellations, and spends tokens.
// Every refusal and every grant is appended to the audit log before it is
// answered. It never imports HTTP or a database driver, and it never waits for
// Temporal.
package gate
