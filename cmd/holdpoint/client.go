package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// clientFlags say to which server a command talks for an agent, and under which key.
type clientFlags struct {
	Data    string `help:"Data directory of a running “holdpoint dev”, instead of --url and a key." type:"path" placeholder:"DIR"`
	Runtime bool   `help:"With --data: use the runtime's key, which may claim that a user has confirmed; else the agent's."`
	URL     string `name:"url" env:"HOLDPOINT_URL" help:"Where the server is." placeholder:"URL"`
	KeyFile string `help:"File with the API key; else HOLDPOINT_API_KEY holds the key itself." type:"path" placeholder:"FILE"`
}

// server is where to send requests, and under which key.
func (f *clientFlags) server() (address, key string, err error) {
	if f.Data != "" {
		running, err := readDevFile(f.Data)
		if err != nil {
			return "", "", err
		}
		if f.Runtime {
			return running.URL, running.RuntimeKey, nil
		}
		return running.URL, running.AgentKey, nil
	}
	if f.Runtime {
		return "", "", errors.New("--runtime goes with --data; elsewhere the key itself says what it is")
	}
	if !isAddress(f.URL) {
		return "", "", errors.New("say where the server is with --url or HOLDPOINT_URL, such as https://holdpoint.example.com, or name the data directory of a running “holdpoint dev” with --data")
	}
	key = os.Getenv("HOLDPOINT_API_KEY")
	if f.KeyFile != "" {
		data, err := os.ReadFile(f.KeyFile)
		if err != nil {
			return "", "", fmt.Errorf("read the API key: %w", err)
		}
		key = string(data)
	}
	if key = strings.TrimSpace(key); key == "" || strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", "", errors.New("give the API key in HOLDPOINT_API_KEY or in a file named by --key-file; it is one word, hp_…")
	}
	return strings.TrimRight(f.URL, "/"), key, nil
}

// isAddress reports whether a text is the address of a server, and nothing besides.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
