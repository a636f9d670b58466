// Package devserver runs a Temporal server inside this process, for `holdpoint dev` and for tests that need a real one. It
// keeps its state in a database of a given Postgres, so that waiting workflows outlive the process, and listens on the
// loopback interface only. It never talks to anything but that Postgres and itself (no version check, no metrics, no traces),
// and production never contains it: its other files carry the build constraint !nodev, and binaries built with -tags nodev
// leave the server and its two hundred megabytes out.
package devserver
