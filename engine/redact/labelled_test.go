package redact_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/redact"
)

var (
	writeSet   = flag.Bool("write-labelled", false, "write testdata/labelled.jsonl from the shapes")
	writeTable = flag.Bool("write-table", false, "print the table of docs/detectors.md")
	showMisses = flag.Bool("show-misses", false, "print the tuned examples that are judged wrongly")
)

// example is one line of testdata/labelled.jsonl.
type example struct {
	ID   string `json:"id"`
	Part string `json:"part"` // tuned, held or limits
	// Text is cut where one piece would look like a live key.
	Text []string `json:"text"`
	Tags []string `json:"tags"`
}

const (
	eachPositive = 6 // examples of a shape
	eachNegative = 8
)

// labelled makes the examples: the same ones each time.
func labelled() []example {
	var out []example
	for _, part := range []struct {
		name   string
		shapes []shape
		seed   uint64
	}{{"tuned", tunedShapes, 1}, {"held", heldShapes, 2}, {"limits", limitShapes, 3}} {
		r := rand.New(rand.NewPCG(part.seed, 20260101)) //nolint:gosec // examples are to be the same each time
		for i, s := range part.shapes {
			n, tags := eachPositive, []string{s.tag}
			if s.tag == "" {
				n, tags = eachNegative, []string{}
			}
			for k := range n {
				out = append(out, example{
					ID: fmt.Sprintf("%s-%03d-%d", part.name, i, k), Part: part.name, Tags: tags,
					Text: strings.Split(fill(r, s.text), "¦"),
				})
			}
		}
	}
	return out
}

func readLabelled(t testing.TB) []example {
	t.Helper()
	path := filepath.Join("testdata", "labelled.jsonl")
	if *writeSet {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		for _, e := range labelled() {
			if err := enc.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []example
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e example
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// count is what became of the examples for one tag.
type count struct{ right, wrong, missed int }

func (c count) precision() float64 { return ratio(c.right, c.wrong) }
func (c count) recall() float64    { return ratio(c.right, c.missed) }

func ratio(good, bad int) float64 {
	if good+bad == 0 {
		return 1
	}
	return float64(good) / float64(good+bad)
}

// coarse is the tag that examples are labelled with: secrets without their rule.
func coarse(tag string) string {
	if redact.Secret(tag) {
		return strings.Join(strings.SplitN(tag, ".", 3)[:2], ".")
	}
	return tag
}

// measured are the tags in the order of the table.
var measured = []string{email, phone, ssn, card, iban, credential, token}

// measure counts, for each part and tag, the examples that are judged rightly.
func measure(d *redact.Detector, examples []example, wrong func(example, []redact.Span)) map[string]map[string]count {
	out := map[string]map[string]count{"tuned": {}, "held": {}, "limits": {}}
	for _, e := range examples {
		spans := d.Find(strings.Join(e.Text, ""))
		var got []string
		for _, s := range spans {
			got = append(got, coarse(s.Tag))
		}
		ok := true
		for _, tag := range measured {
			c := out[e.Part][tag]
			all := out[e.Part]["all"]
			switch has, should := slices.Contains(got, tag), slices.Contains(e.Tags, tag); {
			case has && should:
				c.right, all.right = c.right+1, all.right+1
			case has:
				c.wrong, all.wrong, ok = c.wrong+1, all.wrong+1, false
			case should:
				c.missed, all.missed, ok = c.missed+1, all.missed+1, false
			}
			out[e.Part][tag], out[e.Part]["all"] = c, all
		}
		if !ok && wrong != nil {
			wrong(e, spans)
		}
	}
	return out
}

// floors are what was reached, less nothing: a change that makes any of these
// numbers smaller has to say why. The limits are counted, not judged.
var floors = map[string]map[string]struct{ precision, recall float64 }{
	"tuned": {
		email: {1, 1}, phone: {1, 1}, ssn: {1, 1}, card: {1, 1}, iban: {1, 1}, credential: {1, 1}, token: {1, 1}, "all": {1, 1},
	},
	"held": {
		email: {0.75, 1}, phone: {1, 1}, ssn: {1, 1}, card: {1, 1}, iban: {1, 1}, credential: {0.92, 0.89}, token: {0.88, 1}, "all": {0.92, 0.96},
	},
}

func TestPrecisionAndRecall(t *testing.T) {
	got := measure(redact.New(), readLabelled(t), func(e example, spans []redact.Span) {
		if *showMisses {
			t.Logf("%s: want %q, got %v in %q", e.ID, e.Tags, spans, strings.Join(e.Text, ""))
		}
	})
	for part, tags := range floors {
		for tag, floor := range tags {
			c := got[part][tag]
			if c.right == 0 || c.precision() < floor.precision || c.recall() < floor.recall {
				t.Errorf("%s, %s: precision %.3f, recall %.3f, want at least %.3f and %.3f", part, tag, c.precision(), c.recall(), floor.precision, floor.recall)
			}
		}
	}
	if !*writeTable {
		return
	}
	fmt.Println("| tag | tuned: examples | precision | recall | held out: examples | precision | recall |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	for _, tag := range append(slices.Clone(measured), "all") {
		row := "| " + tag
		for _, part := range []string{"tuned", "held"} {
			c := got[part][tag]
			row += fmt.Sprintf(" | %d | %.3f | %.3f", c.right+c.missed, c.precision(), c.recall())
		}
		fmt.Println(row + " |")
	}
	c := got["limits"]["all"]
	fmt.Printf("limits: %d found, %d missed, %d false\n", c.right, c.missed, c.wrong)
}

// The committed set is the one that the shapes make.
func TestLabelledSetIsFresh(t *testing.T) {
	got, want := readLabelled(t), labelled()
	if !slices.EqualFunc(got, want, func(a, b example) bool {
		return a.ID == b.ID && slices.Equal(a.Text, b.Text) && slices.Equal(a.Tags, b.Tags)
	}) {
		t.Error("testdata/labelled.jsonl is not what the shapes make; run with -write-labelled")
	}
	positives := 0
	for _, e := range got {
		positives += len(e.Tags)
	}
	if negatives := len(got) - positives; positives < 300 || negatives < 300 {
		t.Errorf("the set has %d positives and %d negatives, want 300 of each", positives, negatives)
	}
}
