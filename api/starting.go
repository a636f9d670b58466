package api

import (
	"context"
	"net/http"
	"time"
)

// Starting answers while the server has yet to reach its database: it is alive and not
// ready, and everything else is a 503 as it is without the database later on.
func Starting() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health(func(context.Context) (int, Health) { return http.StatusOK, alive }))
	mux.HandleFunc("GET /readyz", health(func(context.Context) (int, Health) {
		return http.StatusServiceUnavailable, Health{Status: "unavailable", Missing: []string{"postgres"}}
	}))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, (&failure{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second,
			Detail: "The server is waiting for its database. Nothing has been granted; try again.",
		}).reply())
	})
	return mux
}
