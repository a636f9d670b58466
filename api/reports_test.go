package api

import (
	"net/url"
	"testing"
	"time"
)

func TestReportQuery(t *testing.T) {
	for query, want := range map[string]bool{
		"": true, "since=2027-01-31": true, "since=2027-01-31T10:00:00Z&zone=Europe/Berlin": true, "since=": true,
		"since=yesterday": false, "since=2027-01-31&since=2027-02-01": false, "from=2027-01-31": false, "zone=a&zone=b": false,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var since time.Time
		var zone string
		err = parameters{"since": day(&since), "zone": anyText(&zone)}.read(values)
		if (err == nil) != want {
			t.Errorf("%q: %v", query, err)
		}
		if query == "since=2027-01-31T10:00:00Z&zone=Europe/Berlin" && (since.Hour() != 10 || zone != "Europe/Berlin") {
			t.Errorf("%q: %s in %q", query, since, zone)
		}
	}
}
