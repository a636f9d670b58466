// Package threegate is the ThreeGate tool execution request: it checks a
// document — YAML front matter and four Markdown sections that ask for one
// command to be run — against every rule of the schema, and turns an approved
// draft into the promoted document. It never runs, fetches or repairs anything,
// never takes what it cannot read for harmless, and believes no approval: that
// somebody wrote approved_by into a document proves nothing.
//
//	draft ── JudgeDraft ──→ Report ──→ people decide over Digest(draft)
//	  └──── Promote(approved_by, time) ──→ promoted document ── Judge ──→ Report
//	                                          └─ Demote ──→ the draft, byte for byte
//
// The rules D1 to K5 are docs/spec/threegate-tool-request.md; a Violation names
// the rule by its code there. A0 is Holdpoint's own: a draft whose approval fields
// say something. A draft
// leaves approved_by and approved_utc out, or writes nothing or "" after the
// colon; null, ~ and single quotes are refused, so that a promoted document
// tells which draft it was.
//
// The front matter is read by package source, which takes the forms of YAML that
// have one meaning and repairs nothing: what the reviewer's, the runner's and our
// reader take differently is the attack. Refused are anchors, aliases, tags, merge
// keys, duplicate keys, directives, a second document and explicit keys. Plain
// scalars have the types of YAML 1.2's core schema; a time is a string.
//
// Where the specification leaves a choice it was made so:
//
//   - Hidden characters (D4) are also refused when an escape of the front matter
//     writes them. Invisible fillers, variation selectors and private characters
//     count as hidden.
//   - --option=/in/name and name=/out/name are read as paths and must be
//     declared; paths glued to an option or an @ are refused wherever they point.
//   - A flag of C5 is refused anywhere in the command. Before the script, clusters
//     and glued forms are too. A command must name a script or a module.
//   - network_allowlist is a list if it is there at all; null is refused. A line --- in
//     the body is refused (F1): it could be taken for another front matter.
//   - "No package installation" and "do not install" are no instructions to
//     install; the negation must stand directly before the words.
//   - "Usage by installing team" tells nobody to install; "installing team packages" does.
//   - A file that a section lists twice is not listed exactly: two lines can say two things.
//   - A text may mention https only as a word: URLs are refused everywhere (X2).
//   - Labels of the risk assessment may be in bold and their values may go on
//     over indented lines. Label words anywhere else in the body count as a
//     second label.
package threegate
