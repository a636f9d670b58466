// Package stream sends the audit log to receivers outside, a SIEM for one, event
// by event in the log's order, each at least once. It reads what has its place in
// the log and nothing else, keeps how far each receiver has come in the database,
// and moves that only once the receiver has taken what was sent. It never changes
// an event, never drops one because a receiver is slow or gone, and never holds up
// anything else: one goroutine a stream, one window of events in memory.
//
//	log_positions ─► read a window ─► encode ─► send ─► taken? ─► log_positions
//	      ▲                                        │ no
//	      └──────────── wait, let others try ◄─────┘
//
// One process at a time sends a stream. When it dies, or a window is not taken,
// the window is sent again, by it or by another one: at most one window comes
// twice, and inside a window the order is the log's.
//
// # What "taken" means
//
// A webhook has taken a window when it has answered it with a status of 2xx.
//
// Syslog has no answer. A window is a connection of its own, and counts as taken
// when all of this holds: every byte was acknowledged by the receiver's system;
// the connection stayed open for a while after that; we then said that we were
// done (the close_notify of TLS); after that, and not before, the receiver closed
// the connection, without a reset. A receiver reads in order, so one that answers
// our close_notify has read what came before it (RFC 5425, 4.4, demands the
// answer); one that was killed or stopped with unread messages resets the
// connection or closes it too early. What remains is a receiver that has read
// messages and loses them before it has stored them: no sender can see that.
//
// Sources: RFC 5424, RFC 5425, RFC 5612; Standard Webhooks; C2SP tlog-tiles for
// what a place in the log is.
package stream
