// Package views holds the console's pages: templ templates that are pure
// functions of the structs declared here. Everything a page shows, the time
// included, comes in as a value; no template asks for anything, decides
// anything, or writes unescaped text. Text that an agent wrote passes through
// MarkDeceptive, which leaves nothing in it invisible.
package views
