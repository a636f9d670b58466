package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

type healthcheckCommand struct {
	URL string `arg:"" optional:"" default:"http://127.0.0.1:8080/readyz" help:"What to ask."`
}

// Help is shown by "holdpoint healthcheck --help".
func (healthcheckCommand) Help() string {
	return `For containers, which have no other program to ask with: ends with 0 when the
answer is 200, else with 1.`
}

func (h *healthcheckCommand) Run(ctx context.Context, _ *cli) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", h.URL, answer.Status)
	}
	return nil
}
