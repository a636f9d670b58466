package gate_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
)

// seededCall is an approval of a quarter, and how much the seed knows that it is about: cents
// of EUR and USD, whole JPY, thousandths of KWD.
type seededCall struct {
	id, status       string
	roles, by        []string
	units            int64
	currency, reason string
	// exactly is the amount as the arguments have it.
	exactly string
}

// digitsOf is how many digits the seed writes behind the point.
var digitsOf = map[string]int{"EUR": 2, "USD": 2, "JPY": 0, "KWD": 3, "": 2}

// written is an amount of so many units, as people write one.
func written(units int64, digits int) string {
	if digits == 0 {
		return fmt.Sprint(units)
	}
	sign := ""
	if units < 0 {
		sign, units = "-", -units
	}
	text := fmt.Sprintf("%0*d", digits+1, units)
	return sign + text[:len(text)-digits] + "." + text[len(text)-digits:]
}

var quarterBegins = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)

// seedQuarter adds n approvals that ended in a quarter, evenly, and some around it.
func (h *harness) seedQuarter(n int) (all []seededCall) {
	h.t.Helper()
	ctx := context.Background()
	sample := h.open(asked)
	conn := h.db.Connect(h.db.URL)
	if _, err := conn.Exec(ctx, `SET session_replication_role = replica`); err != nil {
		h.t.Fatal(err)
	}
	rows := &pgx.Batch{}
	send := func() {
		if err := conn.SendBatch(ctx, rows).Close(); err != nil {
			h.t.Fatal(err)
		}
		rows = &pgx.Batch{}
	}
	voters := []string{h.people["ada"].ID, h.people["ben"].ID, h.people["cleo"].ID}
	step := 90 * 24 * time.Hour / time.Duration(n)
	for i := range n {
		c := seededCall{id: store.NewID("apr"), status: []string{"approved", "approved", "approved", "denied", "expired", "cancelled"}[i%6], units: int64(i*i%9973)*37 + 1}
		c.roles = [][]string{{"finance"}, {"ops"}, {"finance", "ops"}}[i%3]
		tool, args, terms := "send_payment", "", `{}`
		amount := func(currency string) string {
			c.currency, c.exactly = currency, written(c.units, digitsOf[currency])
			return c.exactly
		}
		switch i % 11 {
		case 0:
			args = fmt.Sprintf(`{"amount":"%s","currency":"EUR","to":"x"}`, amount("EUR"))
		case 1: // a number's last zeros are nothing that its sender has said
			args = fmt.Sprintf(`{"amount":%s,"currency":"EUR","to":"x"}`, amount("EUR"))
			c.exactly = strings.TrimSuffix(strings.TrimRight(c.exactly, "0"), ".")
		case 2:
			args = fmt.Sprintf(`{"amount":"%s","currency":"usd","to":"x"}`, amount("USD"))
		case 3:
			args = fmt.Sprintf(`{"amount":"%s","currency":"JPY","to":"x"}`, amount("JPY"))
		case 4: // as its tool was registered then
			amount("KWD")
			tool, terms = "settle", `{"stakes":{"template":"Settle {fils|minor:money}","from":"tool"}}`
			args = fmt.Sprintf(`{"fils":%d,"money":"KWD"}`, c.units)
		case 5: // the longest there is
			args = fmt.Sprintf(`{"amount":"%s","currency":"EUR","to":"x","memo":%q}`, amount("EUR"), strings.Repeat("m", 20_000))
			if n > 10_000 {
				args = strings.Replace(args, strings.Repeat("m", 20_000), "m", 1)
			}
		case 6:
			args, c.reason = fmt.Sprintf(`{"amount":"%s","to":"x"}`, amount("")), "no_currency"
		case 7:
			tool, args, c.reason = "frobnicate", `{"amount":"12.00","currency":"EUR"}`, "no_template"
		case 8:
			args, c.reason = `{"amount":"a lot","currency":"EUR","to":"x"}`, "no_amount"
		case 9:
			tool, args, c.reason, terms = "settle", `{"units":5,"money":"GLD"}`, "smallest_unit", `{"stakes":{"template":"Settle {units|minor:money}","from":"tool"}}`
		case 10:
			args, c.reason = `{"amount":"77.00","currency":"EUR","to":"x"}`, "unreadable"
		}
		if c.reason != "" && c.reason != "no_currency" {
			c.units = 0
		}
		document := fmt.Sprintf(`{"tool_name":%q,"tool_category":"write","authorization_state":"authenticated","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":%s,"recommended_route":"accept"}`, tool, args)
		id := c.id
		if c.reason == "unreadable" {
			id = "apr_another" // sealed for another one
		}
		box, err := h.db.Sealer.Seal(id, []byte(document))
		if err != nil {
			h.t.Fatal(err)
		}
		ended := quarterBegins.Add(time.Duration(i)*step + time.Minute)
		final := map[string]any{}
		switch c.status {
		case "approved":
			c.by = []string{voters[i%3], voters[(i+1)%3]}[:1+i%2]
			seqs := []int{}
			for k := range c.by {
				seqs = append(seqs, 1_000_000+i*10+k)
			}
			final["counted"] = seqs
		case "denied":
			c.by = []string{voters[i%3]}
			final["decisive"] = 1_000_000 + i*10
		}
		record, err := json.Marshal(map[string]any{
			"id": c.id, "tool": tool, "terms": json.RawMessage(terms), "status": c.status, "asked": c.roles, "opened_at": ended.Add(-time.Hour), "ended_at": ended, "final": final, "version": 1, "due_at": nil,
			"sealed": `\x` + hex.EncodeToString(box.Data), "sealed_key": `\x` + hex.EncodeToString(box.Key), "sealed_size": len(args),
		})
		if err != nil {
			h.t.Fatal(err)
		}
		rows.Queue(`INSERT INTO approvals SELECT (jsonb_populate_record(a, $1)).* FROM approvals a WHERE a.id = $2`, record, sample.ID)
		for k, who := range c.by {
			rows.Queue(`INSERT INTO facts (seq, approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, 'vote', 'human', $4, 'console', $5, $6, '')`,
				1_000_000+i*10+k, c.id, ended, who, c.status == "approved", map[bool]string{true: "never"}[c.status == "denied"])
		}
		if all = append(all, c); rows.Len() > 1000 {
			send()
		}
	}
	rows.Queue(`ANALYZE approvals, facts`)
	send()
	return all
}

func theQuarter() report.ListQuery {
	return report.ListQuery{Since: quarterBegins, Until: quarterBegins.AddDate(0, 3, 0), Limit: 300}
}

// all are the rows of all pages.
func (h *harness) all(name string, q report.ListQuery) (rows []map[string]string) {
	h.t.Helper()
	for {
		page, err := h.Reports.List(context.Background(), name, q)
		if err != nil || len(page.Rows) > q.Limit {
			h.t.Fatalf("%s: %d rows, %v", name, len(page.Rows), err)
		}
		rows = append(rows, page.Rows...)
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			return rows
		}
	}
}

// sumsOf adds up what the seed knows, by itself: units of a currency are whole numbers.
func sumsOf(calls []seededCall) map[string]string {
	n, units := map[string]int{}, map[string]int64{}
	for _, c := range calls {
		keys := []string{"all/"}
		for _, role := range c.roles {
			keys = append(keys, "role/"+role)
		}
		for _, who := range c.by {
			keys = append(keys, "person/"+who)
		}
		for _, key := range keys {
			key += "/" + c.status + "/" + c.currency + "/" + c.reason
			n[key]++
			units[key] += c.units
		}
	}
	sums := map[string]string{}
	for key, units := range units {
		parts := strings.Split(key, "/")
		amount := ""
		if parts[4] == "" {
			amount = written(units, digitsOf[parts[3]])
		}
		sums[key] = fmt.Sprintf("%d of %s", n[key], amount)
	}
	return sums
}

func totalled(rows []map[string]string) map[string]string {
	sums := map[string]string{}
	for _, row := range rows {
		sums[row["of"]+"/"+row["role"]+row["person_id"]+"/"+row["status"]+"/"+row["currency"]+"/"+row["amount_note"]] = row["approvals"] + " of " + row["amount"]
	}
	return sums
}

// TestAmountsOfAQuarter: each approval's amount is the one that the quarter was seeded with,
// the sums are those of the seed's own whole numbers, and how many approvals there are is
// what SQL counts.
func TestAmountsOfAQuarter(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	calls := h.seedQuarter(264)
	h.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	by := access.PersonInitiator(h.people["owner"], "cli", "")
	for i := range calls { // of which three in a hundred are erased
		if i%33 != 0 {
			continue
		}
		if _, err := h.Retention.Erase(ctx, by, admin.EraseRequest{ApprovalID: calls[i].id, Reason: "asked for"}, nil); err != nil {
			t.Fatal(err)
		}
		calls[i].units, calls[i].exactly, calls[i].currency, calls[i].reason = 0, "", "", "erased"
	}
	rows := h.all("approvals", theQuarter())
	if len(rows) != len(calls) {
		t.Fatalf("%d rows of %d", len(rows), len(calls))
	}
	seen := map[string]int{}
	for i, row := range rows {
		c := calls[i]
		if row["approval_id"] != c.id || row["amount"] != c.exactly || row["currency"] != c.currency || row["amount_note"] != c.reason {
			t.Errorf("%s: %q %q (%s), want %q %q (%s)", row["approval_id"], row["amount"], row["currency"], row["amount_note"], c.exactly, c.currency, c.reason)
		}
		seen[c.reason]++
	}
	if len(seen) != 7 {
		t.Fatalf("the seed has not all cases: %v", seen)
	}

	totals := theQuarter()
	totals.Limit = 7
	if got, want := totalled(h.all("amounts", totals)), sumsOf(calls); !maps.Equal(got, want) {
		t.Errorf("sums:\n got %v\nwant %v", got, want)
	}
	var counted, wanted int
	for _, row := range h.all("amounts", theQuarter()) {
		if row["of"] == "all" {
			n := 0
			_, _ = fmt.Sscan(row["approvals"], &n)
			counted += n
		}
	}
	if err := h.db.Connect(h.db.URL).QueryRow(ctx, `SELECT count(*) FROM approvals WHERE ended_at >= '2021-01-01' AND ended_at < '2021-04-01'`).Scan(&wanted); err != nil || counted != wanted {
		t.Errorf("the sums are of %d approvals, and there are %d, %v", counted, wanted, err)
	}

	for _, least := range []string{"1000", "1000.00 eur", " 99999999 ", "50000 JPY", "0"} {
		q, number, currency := theQuarter(), int64(0), ""
		q.AtLeast, q.Limit = least, 13
		_, _ = fmt.Sscan(strings.Replace(least, ".00", "", 1), &number, &currency)
		var enough []seededCall
		for _, c := range calls {
			known := c.reason == "" || c.reason == "no_currency"
			one := map[int]int64{0: 1, 2: 100, 3: 1000}[digitsOf[c.currency]]
			if known && c.units >= number*one && (currency == "" || c.currency == strings.ToUpper(currency)) {
				enough = append(enough, c)
			}
		}
		var got, want []string
		for _, row := range h.all("approvals", q) {
			got = append(got, row["approval_id"])
		}
		for _, c := range enough {
			want = append(want, c.id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at least %q: %d rows, want %d", least, len(got), len(want))
		}
		if got, want := totalled(h.all("amounts", q)), sumsOf(enough); !maps.Equal(got, want) {
			t.Errorf("sums of at least %q:\n got %v\nwant %v", least, got, want)
		}
	}
	ada := theQuarter()
	ada.Person = h.people["ada"].ID
	hers := slices.DeleteFunc(slices.Clone(calls), func(c seededCall) bool { return !slices.Contains(c.by, ada.Person) })
	if got, want := totalled(h.all("amounts", ada)), sumsOf(hers); !maps.Equal(got, want) || len(hers) == 0 {
		t.Errorf("sums of one person:\n got %v\nwant %v", got, want)
	}

	without := h.Reports
	without.Sealer = nil
	page, err := without.List(ctx, "approvals", theQuarter())
	if err != nil || page.Rows[1]["amount"] != "" || page.Rows[1]["amount_note"] != "no_key" {
		t.Errorf("without a data key: %v, %v", page.Rows[1], err)
	}
}

// TestAmountsAreOnRecord: a file of the report has its amounts, and whoever is given some by
// another way is on record as well; of reports without amounts there is nothing to record.
func TestAmountsAreOnRecord(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	h.seedQuarter(22)
	by := access.PersonInitiator(engine.Person{ID: "usr_aude"}, "console", "req_1")
	q := theQuarter()
	q.AtLeast = "1 USD"
	var file bytes.Buffer
	if err := h.Reports.ExportList(ctx, by, "approvals", q, &file, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&file).ReadAll()
	if err != nil || len(rows) != 3 || strings.Join(rows[0][len(rows[0])-3:], " ") != "amount currency amount_note" || strings.Join(rows[1][len(rows[1])-3:], " ") != "1.49 USD " {
		t.Errorf("the file is %q, %v", rows, err)
	}
	codes, last := h.exports()
	if strings.Join(codes, " ") != "EXPORT_BEGUN EXPORTED" || !strings.Contains(string(last.SafePayload), `"amounts":true,"as":"report","at_least":"1 USD"`) {
		t.Errorf("on record is %q, %s", codes, last.SafePayload)
	}
	for _, list := range []string{"amounts", "approvals", "roles"} {
		page, err := h.Reports.List(ctx, list, theQuarter())
		if err == nil {
			err = h.Reports.Told(ctx, by, theQuarter(), page, "json")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	codes, last = h.exports()
	if len(codes) != 4 || last.Actor.ID != "usr_aude" || !strings.Contains(string(last.SafePayload), `"format":"json","report":"approvals","rows":22`) {
		t.Errorf("on record is %q, %s", codes, last.SafePayload)
	}
	h.db.Exec(`REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM holdpoint_runtime`)
	page, err := h.Reports.List(ctx, "approvals", theQuarter())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reports.Told(ctx, by, theQuarter(), page, "json"); err == nil {
		t.Error("amounts are given to somebody of whom it is not on record")
	}
	for _, least := range []string{"x", "1,000", "1000 EURO", "1e3", "-5", "EUR 5", "1000 €", strings.Repeat("9", 60), "1\x00"} {
		if _, err := h.Reports.List(ctx, "approvals", report.ListQuery{AtLeast: least}); code(err) != "bad_amount" {
			t.Errorf("at least %q: %v", least, err)
		}
	}
	if _, err := h.Reports.List(ctx, "roles", report.ListQuery{AtLeast: "5"}); code(err) != "bad_query" {
		t.Errorf("a report without amounts: %v", err)
	}
	if _, err := h.Reports.List(ctx, "amounts", report.ListQuery{Cursor: "-1"}); code(err) != "bad_cursor" {
		t.Errorf("no place: %v", err)
	}
	broken := errors.New("the reader is gone")
	if err := h.Reports.ExportList(ctx, by, "amounts", q, &recordedFirst{h: h, broken: broken}, func() error { return nil }); err == nil {
		t.Error("a file that breaks off")
	}
}
