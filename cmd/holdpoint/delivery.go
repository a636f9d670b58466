package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
	"holdpoint/internal/slack"
	"holdpoint/internal/store"
)

// sendWithin bounds an attempt to send, from the first lookup on.
const sendWithin = 20 * time.Second

// answerWithin bounds an answer to who has decided in Slack.
const answerWithin = 3 * time.Second

// guarded is the one client for addresses that people configure, as net/http's
// clients use it.
type guarded struct{ client *outbound.Client }

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) { return g.client.Do(req) }

// posting is the guarded client for what administrators configure.
func posting(cfg config.Config, within time.Duration) channel.HTTPConfig {
	return channel.HTTPConfig{Timeout: within, Client: &http.Client{Transport: guarded{outbound.New(outbound.Config{
		AllowPrivate: cfg.AllowPrivate, AllowHTTP: len(cfg.AllowPrivate) > 0, Timeout: within,
	})}}}
}

// slackDoor makes what takes decisions in Slack.
func slackDoor(cfg config.Config, s *store.Store, g *gate.Gate, a *admin.Admin, log *slog.Logger) (*slack.Door, error) {
	answers, err := channel.NewSlack(posting(cfg, answerWithin))
	if err != nil {
		return nil, err
	}
	return &slack.Door{Store: s, Votes: g.Contributions, Linker: a.Slack, Answers: answers, SecondFactorRoles: cfg.SecondFactorRoles, Logger: log}, nil
}

// mailLink sends links by which people set a password, by the settings' mail server; nil
// where there is none. What is wrong with the settings is said when one is to be sent.
func mailLink(cfg config.Config) func(ctx context.Context, to, link string, until time.Time) error {
	settings, there := cfg.Mail()
	if !there {
		return nil
	}
	return func(ctx context.Context, to, link string, until time.Time) error {
		mail, err := channel.NewMail(settings)
		if err != nil {
			return err
		}
		return mail.SendLink(ctx, to, link, until)
	}
}

// newDeliverer makes what delivers notifications, by the settings.
func newDeliverer(cfg config.Config, s *store.Store, log *slog.Logger) (*notify.Deliverer, error) {
	over := posting(cfg, sendWithin)
	d := &notify.Deliverer{Store: s, PublicURL: cfg.PublicURL, Logger: log, Calls: gate.Messages{Store: s, Sealer: cfg.Sealer, Logger: log}}
	var err error
	if cfg.Pushes.There() {
		// Anybody who signs in names a push service: what administrators may reach
		// inside the house is not theirs.
		services := channel.HTTPConfig{Timeout: sendWithin, Client: &http.Client{Transport: guarded{outbound.New(outbound.Config{
			AllowPrivate: cfg.PushPrivate, AllowHTTP: len(cfg.PushPrivate) > 0, Timeout: sendWithin,
		})}}}
		if d.Push, err = channel.NewPush(services, cfg.Pushes, cfg.PublicURL); err != nil {
			return nil, err
		}
	}
	if d.Webhook, err = channel.NewWebhook(over); err != nil {
		return nil, err
	}
	if d.Slack, err = channel.NewSlack(over); err != nil {
		return nil, err
	}
	if mail, there := cfg.Mail(); there {
		if d.Mail, err = channel.NewMail(mail); err != nil {
			return nil, err
		}
	}
	if cfg.PublicURL == "" {
		log.Warn("notifications have no link to the console: public_url is missing")
	}
	return d, nil
}
