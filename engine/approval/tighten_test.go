package approval

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

func TestTighten(t *testing.T) {
	for _, tc := range []struct{ base, more, want string }{
		{``, ``, ``},
		{`{"a":1}`, ``, `{"a":1}`},
		{``, `{"b":2,"a":1}`, `{"a":1,"b":2}`},
		{`{"max_rows":10}`, `{"max_rows":5}`, `{"max_rows":5}`},
		{`{"max_rows":10}`, `{"max_rows":11}`, `-`},
		{`{"maxRows":10}`, `{"maxRows":1e1}`, `{"maxRows":10}`},
		{`{"MAX_ROWS":10}`, `{"MAX_ROWS":9}`, `{"MAX_ROWS":9}`},
		{`{"maximum":10}`, `{"maximum":9}`, `{"maximum":9}`},
		{`{"min_age":10}`, `{"min_age":11}`, `{"min_age":11}`},
		{`{"min_age":10}`, `{"min_age":9}`, `-`},
		{`{"minutes":10}`, `{"minutes":60}`, `-`},
		{`{"maxwell":10}`, `{"maxwell":5}`, `-`},
		{`{"allowance":["a","b"]}`, `{"allowance":["a"]}`, `-`},
		{`{"allow_tables":["a","b"]}`, `{"allow_tables":["b"]}`, `{"allow_tables":["b"]}`},
		{`{"allowedHosts":["a"]}`, `{"allowedHosts":["a","b"]}`, `-`},
		{`{"deny":["a"]}`, `{"deny":["b","a"]}`, `{"deny":["b","a"]}`},
		{`{"blocklist":["a"]}`, `{"blocklist":["b"]}`, `-`},
		{`{"max_rows":10}`, `{"max_rows":"5"}`, `-`},
		{`{"max_rows":10}`, `{"max_rows":null}`, `-`},
		{`{"read_only":true}`, `{"read_only":false}`, `-`},
		{`{"read_only":true}`, `{"read_only":true}`, `{"read_only":true}`},
		{`{"a":1}`, `{"a":1,"a":1}`, `-`},
		{`{"a":1}`, `[]`, `-`},
		{`{"max_rows":10}`, `{"Max_Rows":5}`, `-`},
		{`[]`, `{"a":1}`, `-`},
	} {
		got, err := Tighten(json.RawMessage(tc.base), json.RawMessage(tc.more))
		if (err != nil) != (tc.want == "-") || err == nil && string(got) != tc.want {
			t.Errorf("%s with %s: got %s, %v; want %s", tc.base, tc.more, got, err, tc.want)
		}
	}
}

// FuzzTighten: nothing is lost, nothing gets wider, and a second time changes nothing.
func FuzzTighten(f *testing.F) {
	f.Add([]byte(`{"max_rows":10,"allow":["a","b"],"deny":[]}`), []byte(`{"max_rows":5,"allow":["a"],"deny":["x"],"new":{}}`))
	f.Add([]byte(`{"ma0000":0}`), []byte(`{"mA0000":0}`))
	f.Add([]byte(`{"min_n":-0.5}`), []byte(`{"min_n":1e308}`))
	f.Add([]byte(`null`), []byte(`{"a":[1,1.0]}`))
	f.Fuzz(func(t *testing.T, base, more []byte) {
		got, err := Tighten(base, more)
		if err != nil {
			return
		}
		if len(got) == 0 && len(base) == 0 {
			return
		}
		result, had, wanted := object(t, got), object(t, base), object(t, more)
		for _, m := range had.Members() {
			now, there := result.Get(m.Name)
			if !there || !narrowed(m.Name, m.Value, now) {
				t.Fatalf("%q of %s is wider in %s", m.Name, base, got)
			}
		}
		for _, m := range wanted.Members() {
			if now, _ := result.Get(m.Name); !bytes.Equal(now.Canonical(), m.Value.Canonical()) {
				t.Fatalf("%q of %s is not in %s", m.Name, more, got)
			}
		}
		if result.Len() > had.Len()+wanted.Len() {
			t.Fatalf("%s holds what neither %s nor %s does", got, base, more)
		}
		if twice, err := Tighten(got, more); err != nil || !bytes.Equal(twice, got) {
			t.Fatalf("a second time %s became %s, %v", got, twice, err)
		}
		if wanted.Len() > 0 && !bytes.Equal(result.Canonical(), got) {
			t.Fatalf("%s is not canonical", got)
		}
	})
}

func object(t *testing.T, text []byte) canon.Value {
	t.Helper()
	if len(text) == 0 || string(text) == "null" {
		return canon.Object()
	}
	v, err := canon.Parse(text)
	if err != nil || v.Kind() != canon.ObjectKind {
		t.Fatalf("%q is no object: %v", text, err)
	}
	return v
}

// narrowed reports whether what a value became permits no more by what its name
// says: of max no larger number, of min no smaller one, of a list one that holds
// the other.
func narrowed(name string, old, now canon.Value) bool {
	if bytes.Equal(old.Canonical(), now.Canonical()) {
		return true
	}
	if old.Kind() != now.Kind() || len(name) < 3 {
		return false
	}
	begins := strings.ToLower(name[:3])
	if old.Kind() == canon.NumberKind {
		return begins == "max" && now.Float() < old.Float() || begins == "min" && now.Float() > old.Float()
	}
	return old.Kind() == canon.ArrayKind && (begins == "all" && within(now, old) || (begins == "den" || begins == "blo") && within(old, now))
}
