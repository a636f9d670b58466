// Package workercomponent would run a worker controller's own workflows: see
// package client.
package workercomponent

import "go.uber.org/fx"

// Module provides nothing.
var Module = fx.Options()
