//go:build nodev

package main

import "errors"

// withDev says that the embedded servers are in this build.
const withDev = false

// devCommand is not in this build: production goes without the embedded servers.
type devCommand struct{}

func (devCommand) Run(*cli) error {
	return errors.New("this build is for production and goes without “dev”; build without the tag nodev")
}
