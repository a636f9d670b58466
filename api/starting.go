package api

import (
	"net/http"
	"time"
)

// Starting answers while the server has yet to reach its database: it is alive and not
// ready, and everything else is a 503 as it is without the database later on.
func Starting() http.Handler {
	answer := func(status int, h Health) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			reply, err := jsonReply(status, h, nil)
			if err != nil {
				reply = (&failure{Status: http.StatusInternalServerError, Code: "internal"}).reply()
			}
			writeReply(w, reply)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(http.StatusOK, Health{Status: "ok", Missing: []string{}}))
	mux.HandleFunc("GET /readyz", answer(http.StatusServiceUnavailable, Health{Status: "unavailable", Missing: []string{"postgres"}}))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, (&failure{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second,
			Detail: "The server is waiting for its database. Nothing has been granted; try again.",
		}).reply())
	})
	return mux
}
