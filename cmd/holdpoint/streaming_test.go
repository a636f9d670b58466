package main

import (
	"strings"
	"testing"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/store"
	"holdpoint/internal/stream"
)

func TestStreamState(t *testing.T) {
	for name, test := range map[string]struct {
		at   store.StreamPosition
		want string // part of what is wrong; "" for nothing
	}{
		"caught up":       {store.StreamPosition{Leaf: 7, Size: 7}, ""},
		"a little behind": {store.StreamPosition{Leaf: 7, Size: 9, Oldest: time.Second}, ""},
		"far behind":      {store.StreamPosition{Leaf: 7, Size: 9, Oldest: time.Hour}, "1h0m0s ago"},
		"failing":         {store.StreamPosition{Leaf: 7, Size: 9, Error: "the receiver answers 500", FailingAt: time.Unix(0, 0).UTC()}, "since 1970-01-01T00:00:00Z: the receiver answers 500"},
		"set wrongly":     {store.StreamPosition{Leaf: 9, Size: 7}, "behind the end"},
	} {
		test.at.Name = "siem"
		what, err := streamState("siem", map[string]store.StreamPosition{"siem": test.at})
		if !strings.Contains(what, "siem, taken up to seq") || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s: %v", name, what, err)
		}
	}
	if _, err := streamState("siem", nil); err == nil {
		t.Error("a stream that has never run is well")
	}
}

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
