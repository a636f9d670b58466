package main

import (
	"strings"
	"testing"

	"holdpoint/internal/config"
	"holdpoint/internal/stream"
)

func TestStreamsOfSettings(t *testing.T) {
	cfg := config.Config{PublicURL: "https://holdpoint.example.com", LogStreams: []stream.Config{
		{Name: "a", Kind: stream.SyslogKind, Address: "siem.example.com:6514"}, {Name: "b", Kind: stream.WebhookKind, URL: "https://siem.example.com", Token: "x", Format: stream.JSONFormat},
	}}
	if list, err := newStreams(cfg, nil, nil); err != nil || len(list) != 2 || list[1].Config.Name != "b" {
		t.Errorf("%v, %v", list, err)
	}
	if got := sender(cfg); got != "holdpoint.example.com" {
		t.Errorf("sent by %q", got)
	}
	cfg.LogStreams[1].Format = "cef"
	if _, err := newStreams(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), "log_streams[1].format") {
		t.Errorf("an unknown format: %v", err)
	}
}
