package canon

import "testing"

func TestWith(t *testing.T) {
	v := Object(Member{"b", Number(1)})
	if got, want := string(v.With(Member{"a", Null()}, Member{"c", Bool(true)}).Canonical()), `{"a":null,"b":1,"c":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(v.Canonical()), `{"b":1}`; got != want {
		t.Errorf("the object itself has become %s, want %s", got, want)
	}
	if got, want := string(Object().With(Member{"a", Null()}).Canonical()), `{"a":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, add := range map[string]func(){
		"a name that is there":           func() { v.With(Member{"b", Null()}) },
		"but for case":                   func() { v.With(Member{"B", Null()}) },
		"twice among the new":            func() { v.With(Member{"x", Null()}, Member{"x", Null()}) },
		"a name that is no text":         func() { v.With(Member{"\xff", Null()}) },
		"to what is no object":           func() { Null().With(Member{"x", Null()}) },
		"to an array, which has a box":   func() { Array(Null()).With(Member{"x", Null()}) },
		"a name with a NUL":              func() { v.With(Member{"\x00", Null()}) },
		"but for case, outside of ASCII": func() { Object(Member{"k", Null()}).With(Member{"\u212a", Null()}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was added", name)
				}
			}()
			add()
		}()
	}
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-7": -7, "1e3": 1000, "9007199254740991": 1<<53 - 1, "-9007199254740991": 1 - 1<<53} {
		v, err := Parse([]byte(text))
		if got, ok := v.Int(); err != nil || !ok || got != want {
			t.Errorf("%s: %d, %v, %v", text, got, ok, err)
		}
	}
	for _, text := range []string{"1.5", "-0.1", "5e-324", "1e300", "1e16", `"1"`, "null", "[1]", "{}", "true"} {
		v, err := Parse([]byte(text))
		if got, ok := v.Int(); err != nil || ok || got != 0 {
			t.Errorf("%s: %d, %v, %v", text, got, ok, err)
		}
	}
}
