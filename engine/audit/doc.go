// Package audit is the audit log's format and everything that can be checked
// about it without a server: how an event becomes a leaf of a Merkle tree, how
// the tree is laid out in tiles, what a checkpoint says, and whether a log or
// an export of one is what it claims to be. It never reads a clock, a database
// or the network; whoever verifies needs only bytes and a public key.
//
// # Format, version 1
//
// The log is a list of events, each with its place: leaf 0, 1, 2 … without a
// gap. An event's seq, as everybody sees it, is its leaf plus 1.
//
//	document   the event as JSON (engine.Event, with seq and timestamp), in its
//	           RFC 8785 form. A record that is not one JSON object which agrees
//	           with its columns is kept as it is, in the member "unreadable".
//	digest     "sha256:" and the hex of SHA-256 over the document
//	entry      {"digest":"sha256:…","seq":18,"time":"2026-01-02T03:04:05.678901Z","v":1}
//	           in its RFC 8785 form: the leaf's data, at most 65,535 bytes
//	leaf hash  SHA-256(0x00 ‖ entry)                            RFC 6962, 2.1
//	node hash  SHA-256(0x01 ‖ left ‖ right)                     RFC 6962, 2.1
//
// The entry is all that the public log shows of an event. An event_id is a UUID
// with 74 random bits at least, so nobody can find out what happened by trying
// digests; and nobody can be shown another event under the same digest.
//
// Tiles hold 256 hashes of 32 bytes each; tile N of level L holds hashes 256·N
// to 256·N+255 of the complete subtrees of height 8·L. Bundles hold the entries
// of a tile of level 0, each after its length as two big-endian bytes. Both are
// named as in C2SP tlog-tiles. Where an event is gone its bundle has
//
//	{"gone":true,"seq":18,"v":1}
//
// in its place, which is no entry and fits no leaf hash.
//
// A checkpoint is a signed note (C2SP signed-note, tlog-checkpoint) over
//
//	origin
//	number of leaves
//	base64 of the root hash
//
// whose first signature is the log's own, by an Ed25519 key of that name.
//
// Sources: RFC 6962; RFC 8785; C2SP tlog-tiles, tlog-checkpoint, tlog-proof, signed-note;
// golang.org/x/mod/sumdb/tlog and note, which do the hashing and the signing.
package audit
