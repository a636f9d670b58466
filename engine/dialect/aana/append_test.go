package aana_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/dialect/aana"
)

// An envelope is written as encoding/json writes it, whatever is in its fields: each of
// them is drawn, so that one that is added and not written fails here.
func TestAppendEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e aana.Envelope
		drawInto(t, reflect.ValueOf(&e).Elem())
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	})
}

// drawInto draws something for every field of v.
func drawInto(t *rapid.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *engine.Route:
		*x = rapid.SampledFrom(drawnRoutes).Draw(t, "route")
		return
	case *float64:
		*x = rapid.SampledFrom([]float64{0, 0.15, 0.45, 0.72, 0.75, 0.95, 1}).Draw(t, "score")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawInto(t, v.Field(i))
		}
	case reflect.Slice:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, "length"), 2))
			for i := range v.Len() {
				drawInto(t, v.Index(i))
			}
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_<>&"\\]{0,6}`), rapid.Just("")).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int:
		v.SetInt(rapid.Int64Range(0, 100).Draw(t, "number"))
	default:
		t.Fatalf("a field of kind %s: say how it is written", v.Kind())
	}
}

// A route that there is not is an error, as it is of encoding/json.
func TestAppendEnvelopeRefuses(t *testing.T) {
	e := aana.Envelope{RecommendedAction: 9}
	if got, err := e.AppendJSON(nil); err == nil {
		t.Errorf("route 9 was written: %s", got)
	}
}

func BenchmarkAppendEnvelope(b *testing.B) {
	r := judge([]byte(benchmarkEvent))
	e := r.Envelope(engine.Decision{Route: r.Route, Findings: r.Findings})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.AppendJSON(make([]byte, 0, 2048)); err != nil {
			b.Fatal(err)
		}
	}
}
