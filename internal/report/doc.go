// Package report answers what auditors and operators ask of people and approvals:
// who may approve what, what changed, how much each reviewer decides, whom agents
// name as their own side, how much money it was about. It reads and counts, and changes nothing;
// what is read out of sealed arguments are amounts alone. Its SQL is the store's Reports.
package report

import (
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Reports makes the reports.
type Reports struct {
	Store *store.Store
	// Judge returns what calls are judged by now; without one, reports read in the log what they
	// were judged by last.
	Judge func() *gate.Judge
	// Sealer opens arguments, for amounts; without one, reports say that they have none.
	Sealer *seal.Sealer
}
