package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" default:"1" help:"Run the migrations that the database lacks."`
	Status migrateStatus `cmd:"" help:"List the migrations, and which of them the database has had."`
	Plan   migratePlan   `cmd:"" help:"Show what would be run: the SQL, and what it locks."`
}

// Help is shown by "holdpoint migrate --help".
func (migrateCommand) Help() string {
	return "Without a further word it is “migrate up”.\n\n" + migrateUp{}.Help()
}

type migrateUp struct{}

// Help is shown by "holdpoint migrate up --help".
func (migrateUp) Help() string {
	return `Runs the migrations that the database lacks, as the role that owns the schema.
Running it twice, or in two places at once, does no harm. Serve and worker refuse
to start on a schema that is older than theirs. On a newer one they start, with a
warning, unless a migration of it does not fit them: so run the newer program's
“migrate” first, and replace serve and worker one after another.

Example:
  HOLDPOINT_DATABASE_ADMIN_URL=postgres://owner:…@db/holdpoint holdpoint migrate`
}

func (migrateUp) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(config.Admin)
	if err != nil {
		return err
	}
	names, err := store.Migrate(ctx, cfg.DatabaseAdminURL)
	for _, name := range names {
		fmt.Println("applied", name)
	}
	if err != nil || len(names) > 0 {
		return err
	}
	list, err := store.Migrations(ctx, cfg.DatabaseAdminURL)
	if err == nil {
		fmt.Println(nothingToDo(list))
	}
	return err
}

// nothingToDo says of the migrations that a database has had why it lacks none.
func nothingToDo(list []store.Migration) string {
	if last := list[len(list)-1]; last.SQL == "" {
		return fmt.Sprintf("nothing to do: the schema has version %d, that of a newer program; this one knows it up to version %d", last.Version, store.SchemaVersion())
	}
	return "nothing to do: the schema is up to date"
}

type migrateStatus struct {
	databaseFlags
	JSON bool `help:"As JSON, one object a line." name:"json"`
}

// Help is shown by "holdpoint migrate status --help".
func (migrateStatus) Help() string {
	return `Changes nothing. It ends with 0 when the schema is this program's, else with 1.

Example:
  holdpoint migrate status --json`
}

func (m migrateStatus) Run(ctx context.Context, c *cli) error {
	url, err := m.url(c)
	if err != nil {
		return err
	}
	list, err := store.Migrations(ctx, url)
	if err != nil {
		return err
	}
	table, lines := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0), json.NewEncoder(os.Stdout)
	differs := false
	for _, one := range list {
		differs = differs || one.AppliedAt == nil || one.SQL == ""
		if m.JSON {
			err = lines.Encode(struct {
				Version   int        `json:"version"`
				Name      string     `json:"name"`
				AppliedAt *time.Time `json:"applied_at"`
				Known     bool       `json:"known"`
			}{one.Version, one.Name, one.AppliedAt, one.SQL != ""})
			if err != nil {
				return err
			}
			continue
		}
		state := "missing"
		if one.AppliedAt != nil {
			state = one.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\n", one.Version, state, one.Name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if differs {
		return exitCode(1)
	}
	return nil
}

type migratePlan struct{ databaseFlags }

// Help is shown by "holdpoint migrate plan --help".
func (migratePlan) Help() string {
	return `Changes nothing. Each migration runs in a transaction of its own. What it says of
locks goes by the statements, and not by how much the tables hold; CHANGELOG.md
says which of them take long.

Example:
  holdpoint migrate plan | less`
}

func (m migratePlan) Run(ctx context.Context, c *cli) error {
	url, err := m.url(c)
	if err != nil {
		return err
	}
	list, err := store.Migrations(ctx, url)
	if err != nil {
		return err
	}
	planned := 0
	for _, one := range list {
		if one.AppliedAt != nil {
			continue
		}
		planned++
		fmt.Printf("-- %s\n", one.Name)
		for _, line := range one.Locks() {
			fmt.Printf("-- locks %s\n", line)
		}
		fmt.Printf("\n%s\n\n", strings.TrimSpace(one.SQL))
	}
	if planned == 0 {
		fmt.Println(nothingToDo(list))
	}
	return nil
}
