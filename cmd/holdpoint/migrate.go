package main

import (
	"context"
	"fmt"

	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

type migrateCommand struct{}

// Help is shown by "holdpoint migrate --help".
func (migrateCommand) Help() string {
	return `Runs the migrations that the database lacks, as the role that owns the schema.
Running it twice, or in two places at once, does no harm.

Example:
  HOLDPOINT_DATABASE_ADMIN_URL=postgres://owner:…@db/holdpoint holdpoint migrate`
}

func (migrateCommand) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(config.Admin)
	if err != nil {
		return err
	}
	names, err := store.Migrate(ctx, cfg.DatabaseAdminURL)
	for _, name := range names {
		fmt.Println("applied", name)
	}
	if err == nil && len(names) == 0 {
		fmt.Println("nothing to do: the schema is up to date")
	}
	return err
}
