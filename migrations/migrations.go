// Package migrations embeds the numbered SQL files that make and change the
// schema. 00001 to 00009 are the baseline of version 0.1.0: a file for each room,
// every object defined once. What comes later adds files and changes none that is
// listed in testdata/released.sha256. They are run by goose, forwards only in
// production; each file says why it does what it does. The package holds nothing
// but the files.
package migrations

import "embed"

// FS holds the migrations, at its root.
//
//go:embed *.sql
var FS embed.FS
