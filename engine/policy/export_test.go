package policy

// Believing is the request as it is if all of its claims are true.
func Believing(r *Request) *Request {
	all := r.with()
	all.Claims = Claims{}
	return all
}
