package main

import (
	"log/slog"
	"net/http"
	"time"

	"holdpoint/activities"
	"holdpoint/internal/config"
	"holdpoint/internal/herald"
	"holdpoint/internal/notify"
	"holdpoint/internal/outbound"
	"holdpoint/internal/store"
)

// sendWithin bounds an attempt to send, from the first lookup on.
const sendWithin = 20 * time.Second

// guarded is the one client for addresses that people configure, as net/http's
// clients use it.
type guarded struct{ client *outbound.Client }

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) { return g.client.Do(req) }

// newDeliverer makes what sends notifications by the settings.
func newDeliverer(cfg config.Config, s *store.Store, crier *herald.Herald, log *slog.Logger) (*activities.Deliverer, error) {
	over := notify.HTTPConfig{Timeout: sendWithin, Client: &http.Client{Transport: guarded{outbound.New(outbound.Config{
		AllowPrivate: cfg.AllowPrivate, AllowHTTP: len(cfg.AllowPrivate) > 0, Timeout: sendWithin,
	})}}}
	d := &activities.Deliverer{Store: s, Herald: crier, Logger: log}
	var err error
	if d.Webhook, err = notify.NewWebhook(over); err != nil {
		return nil, err
	}
	if d.Slack, err = notify.NewSlack(over); err != nil {
		return nil, err
	}
	if mail, there := cfg.Mail(); there {
		if d.Mail, err = notify.NewMail(mail); err != nil {
			return nil, err
		}
	}
	if cfg.PublicURL == "" {
		log.Warn("notifications have no link to the console: public_url is missing")
	}
	return d, nil
}
