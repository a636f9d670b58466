package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/engine/stakes"
	"holdpoint/internal/access"
	"holdpoint/internal/config"
	"holdpoint/internal/report"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

type auditReport struct {
	operatorFlags
	Data string `type:"path" help:"Data directory of a running “holdpoint dev”; without it, HOLDPOINT_DATABASE_URL says where." placeholder:"DIR"`
	Name string `arg:"" optional:"" help:"Which report; without it they are listed, each with the question that it answers."`
	periodFlag
	Since   string `help:"From this day or time on, such as 2026-07-01 (UTC); thirty days before --until when left out." placeholder:"TIME"`
	Until   string `help:"Before this day or time; now when left out." placeholder:"TIME"`
	Person  string `help:"About this person, by id, address or name; of approvals, those that they decided." placeholder:"PERSON"`
	AtLeast string `help:"Of approvals and amounts: what is about as much as this or more, such as 1000 (of each currency) or '1000 EUR'." placeholder:"AMOUNT"`
	Zone    string `help:"Of reviewers: the time zone by which it is night, a weekend or another day, such as Europe/Berlin; UTC when left out." placeholder:"ZONE"`
	Format  string `default:"table" enum:"table,csv,json" help:"table for people; csv, the file that the console gives; json, one object a line."`
	Output  string `short:"o" type:"path" default:"-" help:"New file to write; - for standard output." placeholder:"FILE"`
}

// Help is shown by "holdpoint audit report --help".
func (auditReport) Help() string {
	return `The same rows as the console's pages under Audit → Reports and the API
(docs/compliance.md). That somebody has taken a CSV file is an event of the log, and
so is that they were given amounts. Those of approvals and amounts are read out of the
sealed arguments, by the data key; without it they are blank.

Examples:
  holdpoint audit report --data .holdpoint
  holdpoint audit report roles --data .holdpoint --period 2026-Q3
  holdpoint audit report approvals --person ada@example.com
  holdpoint audit report approvals --since 2026-07-01 --until 2026-10-01 --format csv -o approvals.csv
  holdpoint audit report approvals --period 2026-Q3 --at-least '10000 EUR'
  holdpoint audit report amounts --period 2026-Q3
  holdpoint audit report reviewers --period 2026-Q3 --zone Europe/Berlin
  holdpoint audit report access --until 2026-10-01`
}

func (a *auditReport) Run(ctx context.Context, c *cli) error {
	if a.Name == "" {
		return a.list()
	}
	l, ok := report.FindList(a.Name)
	if !ok {
		var names []string
		for _, l := range report.Lists() {
			names = append(names, l.Name)
		}
		return fmt.Errorf("there is no report %q: there are %s", a.Name, strings.Join(names, ", "))
	}
	q, err := a.query()
	if err != nil {
		return err
	}
	s, sealer, err := a.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	by, err := a.looking(ctx, s)
	if err != nil {
		return err
	}
	file := os.Stdout
	if a.Output != "-" {
		if file, err = os.OpenFile(a.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: name another file, or move it away", a.Output)
		} else if err != nil {
			return err
		}
	}
	out := bufio.NewWriter(file)
	r := report.Reports{Store: s, Sealer: sealer}
	if l.OfAmounts() && sealer == nil {
		fmt.Fprintln(terminalError, "careful: there is no data key here, so amounts are blank: set HOLDPOINT_DATA_KEY_FILE, or ask a server")
	}
	switch a.Format {
	case "csv":
		err = r.ExportList(ctx, by, a.Name, q, out, out.Flush)
	case "json":
		err = a.rows(ctx, r, by, q, func(_ report.ListPage, rows []map[string]string) error {
			for _, row := range rows {
				if err := json.NewEncoder(out).Encode(row); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		err = a.table(ctx, r, by, l, q, out)
	}
	if err == nil {
		err = out.Flush()
	}
	if a.Output == "-" {
		return plain(err)
	}
	if err = closed(file, out, err); err != nil {
		return errors.Join(plain(err), os.Remove(a.Output)) // half of a report is none
	}
	return nil
}

// list lists the reports.
func (a *auditReport) list() error {
	if a.Format == "json" {
		return printEach(report.Lists(), asIs)
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tANSWERS")
	for _, l := range report.Lists() {
		fmt.Fprintf(table, "%s\t%s\n", l.Name, l.Asks)
	}
	return table.Flush()
}

var quarter = regexp.MustCompile(`^(\d{4})-?[Qq]([1-4])$`)

// query is the period that was asked for.
func (a *auditReport) query() (q report.ListQuery, err error) {
	q.Person, q.AtLeast, q.Zone = a.Person, a.AtLeast, a.Zone
	if a.Period != "" {
		q.Since, q.Until, err = a.period(a.Since == "" && a.Until == "")
		return q, err
	}
	for flag, of := range map[string]struct {
		text string
		into *time.Time
	}{"--since": {a.Since, &q.Since}, "--until": {a.Until, &q.Until}} {
		if of.text == "" {
			continue
		}
		if *of.into, err = report.ParseTime(of.text); err != nil {
			return q, fmt.Errorf("%s: want a day or a time such as 2026-07-01 or 2026-07-01T18:00:00Z, got %q", flag, of.text)
		}
	}
	return q, nil
}

// periodFlag names a period in one word.
type periodFlag struct {
	Period string `help:"A year, quarter, month or day, in UTC, instead of --since and --until: 2026, 2026-Q3, 2026-09 or 2026-09-30." placeholder:"PERIOD"`
}

// period is the period that was named, where it is named alone.
func (p periodFlag) period(alone bool) (since, until time.Time, err error) {
	if !alone {
		return since, until, errors.New("give either --period, or --since and --until")
	}
	return period(p.Period)
}

// fill fills in the times of the period, where one was named.
func (p periodFlag) fill(since, until *moment) (err error) {
	if p.Period != "" {
		since.Time, until.Time, err = p.period(since.IsZero() && until.IsZero())
	}
	return err
}

// period is a year, a quarter, a month or a day, in UTC.
func period(text string) (since, until time.Time, err error) {
	if found := quarter.FindStringSubmatch(text); found != nil {
		year, err1 := strconv.Atoi(found[1])
		n, err2 := strconv.Atoi(found[2])
		since = time.Date(year, time.Month(3*n-2), 1, 0, 0, 0, 0, time.UTC)
		return since, since.AddDate(0, 3, 0), errors.Join(err1, err2)
	}
	for layout, after := range map[string][3]int{"2006": {1, 0, 0}, "2006-01": {0, 1, 0}, time.DateOnly: {0, 0, 1}} {
		if since, err = time.Parse(layout, text); err == nil {
			return since, since.AddDate(after[0], after[1], after[2]), nil
		}
	}
	return since, until, fmt.Errorf("--period: want a year, quarter, month or day such as 2026, 2026-Q3, 2026-09 or 2026-09-30, got %q", text)
}

// open opens the database as the role that only reads and appends, with what opens arguments
// where that is here.
func (a *auditReport) open(ctx context.Context, c *cli) (*store.Store, *seal.Sealer, error) {
	var database string
	var sealer *seal.Sealer
	if a.Data != "" {
		running, err := readDevFile(a.Data)
		if err == nil {
			sealer, err = devSealer(a.Data)
		}
		if err != nil {
			return nil, nil, err
		}
		database = running.DatabaseURL
	} else {
		cfg, err := c.load(config.Database)
		if err == nil && cfg.DataKey != "" {
			sealer, err = sealerOf(cfg.DataKey)
		}
		if err != nil {
			return nil, nil, orDataDir(err, "")
		}
		database = cfg.DatabaseURL
	}
	s, err := openSchema(ctx, store.Config{URL: database, MaxConns: 4})
	return s, sealer, err
}

// rows goes through all pages of a report.
func (a *auditReport) rows(ctx context.Context, r report.Reports, by access.Initiator, q report.ListQuery, each func(report.ListPage, []map[string]string) error) error {
	q.Limit = report.MaxListPage
	for {
		page, err := r.List(ctx, a.Name, q)
		if err == nil {
			err = r.Told(ctx, by, q, page, a.Format)
		}
		if err != nil {
			return err
		}
		if q.Cursor == "" {
			for _, gap := range page.Gaps {
				fmt.Fprintf(terminalError, "careful: %s\n", gap)
			}
		}
		if err := each(page, page.Rows); err != nil {
			return err
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			return nil
		}
		q.Since, q.Until = page.Since, page.Until
		if page.Person != nil {
			q.Person = page.Person.ID
		}
	}
}

// table writes a report for people: what belongs to another cell stands in it, and what is only in
// files is left out.
func (a *auditReport) table(ctx context.Context, r report.Reports, by access.Initiator, l report.List, q report.ListQuery, out *bufio.Writer) error {
	table := tabwriter.NewWriter(maskingWriter{out}, 0, 0, 2, ' ', 0)
	var heads []string
	for _, c := range l.Columns {
		if c.Place == report.OwnColumn && c.Kind != report.EventCell {
			heads = append(heads, strings.ToUpper(c.Title))
		}
	}
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	n, used, about, zone := 0, map[string]bool{}, "", ""
	err := a.rows(ctx, r, by, q, func(page report.ListPage, rows []map[string]string) error {
		q.Since, q.Until = page.Since, page.Until
		if page.Person != nil {
			about = ", of " + cmp.Or(page.Person.Name, page.Person.Email, page.Person.ID)
		}
		if page.Zone != "" {
			zone = "; nights, weekends and days by " + page.Zone
		}
		n += len(rows)
		for _, row := range rows {
			var cells []string
			for _, c := range page.Columns {
				value := strings.Join(strings.Fields(row[c.Name]), " ")
				if c.Kind == report.TermCell {
					used[value] = true
					value = strings.ReplaceAll(value, "_", " ")
				}
				if at, err := time.Parse(time.RFC3339Nano, value); c.Kind == report.TimeCell && err == nil {
					value = at.UTC().Format(time.RFC3339)
				}
				if c.Kind == report.AmountCell {
					value = strings.TrimSpace(stakes.Grouped(value) + " " + row["currency"])
				}
				switch {
				case c.Kind == report.EventCell || c.Place == report.InFile || c.Place == report.Below && (value == "" || len(cells) == 0):
				case c.Place == report.Below:
					cells[len(cells)-1] = strings.TrimPrefix(cells[len(cells)-1]+", "+c.Lead+value, ", ")
				default:
					cells = append(cells, value)
				}
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n > 0 {
		err = table.Flush()
	}
	fmt.Fprintf(terminalError, "%s%s: %s from %s until %s%s\n", l.Title, about, plural(int64(n), "row"), q.Since.UTC().Format(time.RFC3339), q.Until.UTC().Format(time.RFC3339), zone)
	if n == 0 && about == "" {
		fmt.Fprintln(terminalError, l.None)
	}
	for _, t := range l.Terms {
		if used[t.Word] {
			used[t.Word] = false // once
			fmt.Fprintf(terminalError, "%s: %s\n", strings.ReplaceAll(t.Word, "_", " "), t.Means)
		}
	}
	return err
}
