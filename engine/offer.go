package engine

// Offer is what a message shows of a call that can be decided right there, by a button
// beside it, without the console's page.
type Offer struct {
	// Why says in a few words why it cannot, "" where it can. With it nothing else is set.
	Why string
	// Sentence says what the call will do, Reasons why it was held, and Arguments are all
	// of its arguments as canonical JSON (RFC 8785), Laid the same in lines.
	Sentence, Arguments, Laid string
	Reasons                   []string
	// Ticket binds what the button does to this call as it is: to its arguments, to the
	// version of its card, and to the endpoint. Nobody else can write one.
	Ticket string
}
