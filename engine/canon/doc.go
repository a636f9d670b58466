// Package canon is the one way in which Holdpoint reads JSON and the one way in
// which it writes JSON that is to be compared, signed or hashed. Parse accepts
// only documents that every careful JSON reader understands alike; Canonical
// writes the RFC 8785 form (JSON Canonicalization Scheme); Digest names a tool
// call by the SHA-256 of that form. The package never guesses, repairs,
// coerces or keeps the first of two meanings: what could be read in two ways
// is an error. It does no I/O, and no error of it quotes a value.
//
// What Parse accepts is JSON (RFC 8259), less everything that two readers take
// differently:
//
//	document  at most MaxBytes bytes of UTF-8, one value, no byte order mark,
//	          nothing but white space around it
//	nesting   at most MaxDepth arrays and objects inside each other
//	values    at most MaxValues in all
//	object    at most MaxMembers members; no two names equal after unescaping,
//	          nor equal under Unicode simple case folding (strings.EqualFold)
//	string    valid UTF-8, no raw control character, no NUL in any spelling,
//	          no unpaired surrogate
//	number    its decimal value is the decimal value of the ECMAScript text of
//	          the nearest float64, and it is not a negative zero; so 1.0, 1e2
//	          and 0.1 are in, 2^53+1, 1e400, 1e-400 and -0 are out
//
// Because of the last rule the canonical form never changes what a document
// says, only how it is spelled.
package canon
