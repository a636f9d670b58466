package authzen_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/authzen"
)

func value(t interface{ Fatal(...any) }, text string) canon.Value {
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const order = `{"subject":{"type":"user","id":"alice"},"action":{"name":"refund","properties":{"amount":12}},"resource":{"type":"order","id":"7","properties":{"open":true}},"context":{"time":"now"}}`

func TestParse(t *testing.T) {
	r, wrong := authzen.Parse(value(t, `{"more":1,`+order[1:]))
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if got := string(r.Arguments.Canonical()); got != `{"amount":12,"open":true,"resource_id":"7","resource_type":"order"}` || r.Tool != "refund" {
		t.Errorf("%s with %s", r.Tool, got)
	}
	if r.Subject.Type != "user" || r.Subject.ID != "alice" {
		t.Errorf("subject %+v", r.Subject)
	}
	again, wrong := authzen.Parse(r.Document)
	if len(wrong) > 0 || string(again.Document.Canonical()) != string(r.Document.Canonical()) {
		t.Errorf("again: %s, %v", again.Document.Canonical(), wrong)
	}
}

// Every mistake is named with its place, at once.
func TestParseNamesEveryPlace(t *testing.T) {
	_, wrong := authzen.Parse(value(t, `{"subject":{},"action":[],"context":1}`))
	var places []string
	for _, w := range wrong {
		places = append(places, w.Path)
	}
	if want := []string{"/subject/type", "/subject/id", "/action", "/resource", "/context"}; !slices.Equal(places, want) {
		t.Errorf("got %v, want %v", places, want)
	}
}

// Changed arguments find their places, and are read again as exactly those, or not at
// all.
func TestWithArguments(t *testing.T) {
	names := []string{"amount", "open", "note", authzen.ResourceType, authzen.ResourceID, "Open"}
	rapid.Check(t, func(r *rapid.T) {
		doc, wrong := authzen.Parse(value(r, order))
		if len(wrong) > 0 {
			r.Fatal(wrong)
		}
		var members []canon.Member
		var used []string
		for range rapid.IntRange(0, 6).Draw(r, "members") {
			name := rapid.SampledFrom(names).Draw(r, "name")
			if slices.ContainsFunc(used, func(s string) bool { return strings.EqualFold(s, name) }) {
				continue
			}
			used = append(used, name)
			members = append(members, canon.Member{Name: name, Value: rapid.SampledFrom([]canon.Value{canon.String("x"), canon.String(""), canon.Number(1), canon.Object()}).Draw(r, "value")})
		}
		arguments := canon.Object(members...)
		changed, before, err := authzen.WithArguments(doc.Document, arguments)
		if err != nil || string(before.Canonical()) != string(doc.Arguments.Canonical()) {
			r.Fatalf("before %s, %v", before.Canonical(), err)
		}
		kind, _ := arguments.Get(authzen.ResourceType)
		id, _ := arguments.Get(authzen.ResourceID)
		whole := kind.Str() != "" && id.Str() != ""
		got, wrong := authzen.Parse(changed)
		if (len(wrong) == 0) != whole {
			r.Fatalf("%s: %v", changed.Canonical(), wrong)
		}
		if whole && (string(got.Arguments.Canonical()) != string(arguments.Canonical()) || got.Tool != "refund" || got.Subject.ID != "alice") {
			r.Fatalf("%s was read as %s", arguments.Canonical(), got.Arguments.Canonical())
		}
	})
}

// Whatever the document is, it is read without a panic, and what was read once is read
// again alike.
func FuzzParse(f *testing.F) {
	f.Add(order)
	f.Add(`{"subject":{"type":"user","id":"a"},"evaluations":[{"Subject":1,"action":{"name":"x"}},2]}`)
	f.Add(`{"subject":{"type":"a","id":"a"},"action":{"name":"x","properties":{"a":{"b":{}}}},"resource":{"type":"r","id":"1","properties":{"A":1}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := canon.Parse([]byte(text))
		if err != nil {
			return
		}
		documents := []canon.Value{doc}
		if b, wrong := authzen.Split(doc); len(wrong) == 0 {
			documents = append(documents, b.Items...)
		}
		for _, d := range documents {
			r, wrong := authzen.Parse(d)
			if len(wrong) > 0 {
				continue
			}
			again, wrong := authzen.Parse(r.Document)
			if len(wrong) > 0 || canon.Digest(again.Tool, again.Arguments) != canon.Digest(r.Tool, r.Arguments) {
				t.Errorf("%s was read as %s: %v", d.Canonical(), r.Document.Canonical(), wrong)
			}
		}
	})
}
