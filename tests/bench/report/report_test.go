package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const said = `goos: linux
cpu: A <fast> one
BenchmarkGate/callers=8-2         	       1	6412 ns/op	      3378 decisions/s	         0.55 ratio	         1.2 p50-ms
    gate_test.go:1: something else
BenchmarkFlood-2   	       1	6923 ns/op	         2.5 ratio-p99
PASS
`

// What benchmarks say is reported, kept, and compared with the next run.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	o := options{from: filepath.Join(dir, "said"), out: dir, of: filepath.Join(dir, "history.jsonl"), keep: true}
	report := func(text string) string {
		t.Helper()
		if err := os.WriteFile(o.from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := report(t.Context(), o, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := report(said)
	for _, want := range []string{"| Flood ratio-p99 | 2.5 |  |  |", "| Gate/callers=8 decisions/s | 3378 |  |  |", "A <fast> one"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if strings.Contains(first, "ns/op") {
		t.Errorf("nanoseconds of what waits are reported:\n%s", first)
	}
	second := report(strings.Replace(said, "2.5 ratio-p99", "5 ratio-p99", 1))
	if want := "| Flood ratio-p99 | 5 | 2.5 | 2× |"; !strings.Contains(second, want) {
		t.Errorf("no %q in\n%s", want, second)
	}
	// Of another machine only ratios are compared.
	third := report(strings.Replace(said, "A <fast> one", "a slow one", 1))
	for _, want := range []string{"| Flood ratio-p99 | 2.5 | 5 | 0.5× |", "| Gate/callers=8 decisions/s | 3378 |  |  |"} {
		if !strings.Contains(third, want) {
			t.Errorf("no %q in\n%s", want, third)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "report.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
	}
}

func TestMistakesAreTold(t *testing.T) {
	dir := t.TempDir()
	empty, damaged := filepath.Join(dir, "empty"), filepath.Join(dir, "damaged")
	for file, text := range map[string]string{empty: "PASS\n", damaged: "{}\n{"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, o := range map[string]options{
		"no benchmark reported": {from: empty, of: filepath.Join(dir, "none")},
		"damaged:2":             {from: empty, of: damaged},
	} {
		if err := report(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
