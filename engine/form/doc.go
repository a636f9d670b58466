// Package form turns the JSON Schema of an object into the fields of a form,
// and what people filled in back into an object. A reviewer edits a call's
// arguments with it, and the asked party supplies values that were missing. It
// never loads a schema from anywhere, never guesses what a text may have meant,
// and no message of it quotes a value, for values may be secrets.
//
// What has a simple control (a text, a number, yes or no, one of several
// choices) gets it; everything else, and every current value that its control
// could not give back unchanged, is a field of JSON. So reading what Fields
// wrote gives the same object, to the byte of its canonical form:
//
//	Text, LongText  the string; line ends are LF
//	Integer, Number JSON's spelling; surrounding white space does not count
//	Boolean         true or false; of several posted values the last counts, so
//	                that a hidden "false" may stand before a checkbox "true";
//	                one that is not required needs a control with an empty choice
//	Choice          one of Choices
//	JSON            a document that engine/canon accepts
//
// An empty text leaves its member out, unless the current value is shown as an
// empty text too: then it stays. A member that has to be there and may be null
// becomes null.
//
// Schemas come from strangers. Compile bounds their size and the work that they
// cause: a schema may refer only to itself, patterns are Go's regular
// expressions (their time is linear in the text), and a value that would take
// too many steps to check is refused and not checked.
package form
