package views

// VerifyForm asks somebody to prove who they are. What it posts to Action are the
// Hidden fields and one of "code", "password", and "assertion" with "challenge".
type VerifyForm struct {
	Action string
	Hidden []Field
	// Code, Password and Passkey say what may be shown.
	Code, Password, Passkey bool
	// Purpose and BoundTo are what a passkey's assertion is for; Options is where
	// the script asks for its challenge, "/account/assertion" when "".
	Purpose, BoundTo, Options string
	// Provider is where to prove it at the provider by which one has signed in, or "".
	Provider string
	// Elsewhere is where passkeys work, when they do not at this page's address.
	Elsewhere string
	// Submit is what the button says; "Verify" when "".
	Submit string
	// Optional says that its form can also be sent without a proof.
	Optional bool
	// Focus puts the cursor into the first field.
	Focus bool
	// Failure is what to say about the last attempt, or "".
	Failure string
}

// Field is a name and its value: a hidden field of a form, a field of a document.
type Field struct{ Name, Value string }

func (f VerifyForm) submit() string {
	if f.Submit == "" {
		return "Verify"
	}
	return f.Submit
}

func (f VerifyForm) options() string {
	if f.Options == "" {
		return "/account/assertion"
	}
	return f.Options
}

// VerifyPage is a page that asks somebody to prove who they are.
type VerifyPage struct {
	Frame
	Heading, Lead string
	Form          VerifyForm
	// BackText and BackTo say where to go instead.
	BackText, BackTo string
}

// qrMargin is the margin that a QR code needs, in modules (ISO/IEC 18004).
const qrMargin = 4
