// Package migrations embeds the numbered SQL files that make and change the
// schema. They are run by goose, forwards only in production; each file says
// why it does what it does. The package holds nothing but the files.
package migrations

import "embed"

// FS holds the migrations, at its root.
//
//go:embed *.sql
var FS embed.FS
