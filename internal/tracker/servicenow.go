package tracker

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// serviceNow asks ServiceNow's Table API.
type serviceNow struct{ tracker }

var serviceNowNumber = regexp.MustCompile(`^(INC|CHG|PRB|RITM|TASK)[0-9]{1,15}$`)

// serviceNowTables are the tables in which numbers of a prefix are kept.
var serviceNowTables = map[string]string{
	"INC": "incident", "CHG": "change_request", "PRB": "problem", "RITM": "sc_req_item", "TASK": "task",
}

// serviceNowTime is UTC where the API says value, and somebody's own time where
// it says display_value.
const serviceNowTime = "2006-01-02 15:04:05"

// parseServiceNow reads INC0010023, or the address that Lookup gives for it:
// https://acme.service-now.com/incident.do?sysparm_query=number=INC0010023.
func parseServiceNow(web place, ref string) (table, number string, err error) {
	if len(ref) > maxRef {
		return "", "", ErrBadRef
	}
	at, query, asked := strings.Cut(ref, "?")
	rest, full, err := web.cut(at)
	if err != nil || full != asked {
		return "", "", ErrBadRef
	}
	number = rest
	if full {
		var found bool
		if number, found = strings.CutPrefix(query, "sysparm_query=number="); !found {
			return "", "", ErrBadRef
		}
	}
	match := serviceNowNumber.FindStringSubmatch(number)
	if match == nil {
		return "", "", ErrBadRef
	}
	table = serviceNowTables[match[1]]
	if full && rest != table+".do" {
		return "", "", ErrBadRef
	}
	return table, number, nil
}

// serviceNowField is how the API writes a field with sysparm_display_value=all.
type serviceNowField struct {
	Value   string
	Display string `json:"display_value"`
}

// Ref implements Source.
func (s *serviceNow) Ref(ref string) (string, error) {
	_, number, err := parseServiceNow(s.web, ref)
	if err != nil {
		return "", err
	}
	return number, nil
}

// Lookup implements Source. Project is the class of the record: incident,
// change_request and so on. Closed is a record that is no longer active.
func (s *serviceNow) Lookup(ctx context.Context, ref string) (Ticket, error) {
	table, number, err := parseServiceNow(s.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	query := url.Values{
		"sysparm_query":         {"number=" + number},
		"sysparm_limit":         {"1"},
		"sysparm_fields":        {"number,short_description,state,active,sys_class_name,sys_created_on,sys_updated_on,assigned_to"},
		"sysparm_display_value": {"all"},
	}
	var reply struct {
		Result []struct {
			Number, State, Active serviceNowField
			Title                 serviceNowField `json:"short_description"`
			Class                 serviceNowField `json:"sys_class_name"`
			Created               serviceNowField `json:"sys_created_on"`
			Updated               serviceNowField `json:"sys_updated_on"`
			Assignee              serviceNowField `json:"assigned_to"`
		}
	}
	if err := s.get(ctx, "/api/now/table/"+table+"?"+query.Encode(), &reply); err != nil {
		return Ticket{}, err
	}
	switch {
	case reply.Result == nil:
		return Ticket{}, errUnreadable
	case len(reply.Result) == 0:
		return Ticket{}, ErrNotFound
	}
	record := reply.Result[0]
	active := record.Active.Value
	if record.Number.Value == "" || record.Class.Value == "" || active != "true" && active != "false" {
		return Ticket{}, errUnreadable
	}
	// A query that the instance does not understand brings up any record.
	if len(reply.Result) != 1 || record.Number.Value != number {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: number, Title: record.Title.Value, Project: record.Class.Value, State: record.State.Display,
		URL:    s.web.String() + "/" + table + ".do?sysparm_query=number=" + number,
		Closed: active == "false", Assignee: record.Assignee.Display,
	}
	if t.CreatedAt, err = time.Parse(serviceNowTime, record.Created.Value); err != nil {
		return Ticket{}, errUnreadable
	}
	if t.UpdatedAt, err = time.Parse(serviceNowTime, record.Updated.Value); err != nil {
		return Ticket{}, errUnreadable
	}
	return t.finish()
}
