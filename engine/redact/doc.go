// Package redact finds personal data and secrets in text, says where they are,
// and masks them. It judges shapes: check digits, prefixes, names in front of
// values. It knows no person's name, decodes nothing, never decides what
// becomes of a call, and never lets what it found into an error. It has no
// clock, no I/O and no state.
//
//	text ─ fold ─→ ASCII ─ one pass ─→ triggers ─→ detectors ─→ []Span ─ Mask ─→ text
//
// Most bytes are looked at once. A byte or pair of bytes that may begin or mark
// something ("@", a digit, "gh", "://") starts the detector that knows more;
// regular expressions run only there, tied to the place and over a bounded
// stretch. So the time for a text is bounded by its size, and a text that would
// take longer is not half searched: it counts as a secret as a whole
// (Unscanned).
//
// The secrets of some two hundred providers come from the gitleaks rules
// (gitleaks.json, taken from the library by internal/generate); rules.go says
// what is read differently here. Personal data, bank data, assignments such as
// password=…, URLs with passwords and PEM blocks are this package's own.
// docs/detectors.md has the measured precision and recall, and the known misses.
//
// A name is personal data (personal.pii.name), but no shape tells one: that tag
// is only ever declared by a caller, never detected.
package redact
