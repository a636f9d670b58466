// Package httpstatus turns kinds of refusals into HTTP's status codes, for the doors
// of agents and people alike. Nothing below a door knows HTTP.
package httpstatus

import (
	"net/http"

	"holdpoint/internal/access"
)

// ClientGone is the status of an answer that nobody waits for any more: who asked has hung up.
// Logs and figures have it; no caller sees it.
const ClientGone = 499

// Of is the status of an answer that is a refusal of this kind.
func Of(k access.Kind) int {
	switch k {
	case access.Malformed:
		return http.StatusBadRequest
	case access.Unauthenticated:
		return http.StatusUnauthorized
	case access.Forbidden:
		return http.StatusForbidden
	case access.NotFound:
		return http.StatusNotFound
	case access.Conflict:
		return http.StatusConflict
	case access.Expired:
		return http.StatusGone
	case access.TooLarge:
		return http.StatusRequestEntityTooLarge
	case access.UnsupportedType:
		return http.StatusUnsupportedMediaType
	case access.Invalid:
		return http.StatusUnprocessableEntity
	case access.Stopped:
		return http.StatusLocked
	case access.RateLimited:
		return http.StatusTooManyRequests
	case access.Unavailable:
		return http.StatusServiceUnavailable
	case access.Broken:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}
