// Package stakes writes the one sentence that says what a call will do: "Pay
// 1,250.00 EUR to Paper & Pens Ltd.". It fills a template with the exact arguments
// of the call, and with nothing else: no word of it is the agent's. Where nobody has
// registered a template, one of its own fits the usual payments, mails, queries,
// commands, files, requests, deployments and permissions; where none does, the
// sentence names the tool and some arguments, and says that it is no more than that.
//
//	template = [ "[" ( "low" | "medium" | "high" ) "] " ] { text | "{{" | "}}" | field }
//	field    = "{" [ "*" ] place [ "|" format [ ":" place ] ] "}"
//	place    = name { "." name }          a whole number names an array's element
//	format   = "money" | "minor" | "count" | "list" | "account" | "host" | "line" | "path" | "patch"
//
// The word in brackets says how dangerous such a call is. The asterisk marks whom or
// what the call is about: a page tells when no approved call has named it before.
//
//	(none)   a text, a number, true or false, as it is
//	money    an amount; behind the colon is the place of its currency
//	minor    the same, in the currency's smallest unit: 125000 is 1,250.00 EUR
//	count    how many elements an array has, or members an object
//	list     the elements of an array
//	account  an account number, without its middle
//	host     the host of an address
//	line     the first line of a text
//	path     a file's path
//	patch    the files that a patch changes, and how many lines
//
// A sentence is never silently wrong: what is missing, empty, of another kind, too
// long, or looks like a secret is said in a Note in its place. It is short, whatever
// the arguments are. Texts come as they are: whoever shows a sentence marks what
// deceives in it.
//
// The package is a pure function of its arguments. It never rounds, never reads what
// an agent says of its call, and never decides what becomes of one.
package stakes
