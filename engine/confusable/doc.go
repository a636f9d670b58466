// Package confusable tells which texts look like others, by Unicode's own data and
// rules (UTS #39, Unicode Security Mechanisms): what each character is drawn like
// (Skeleton), which characters names are made of (the identifier profile), which
// scripts may meet in a name (Level), and where a text has characters that pass
// for ASCII ones (Lookalikes). It is a pure function of its data: it reads no
// file, changes no text, and never decides what becomes of a call.
//
// It leaves out bidiSkeleton: what mixes directions of writing is no clear name,
// and is shown as such.
package confusable

//go:generate go run generate.go
