package peers

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

var (
	ratios = flag.Bool("ratios", false, "print one table of ratios instead of running tests")
	rounds = flag.Int("rounds", 5, "interleaved rounds of the table; the median counts")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *ratios {
		printRatios()
		return
	}
	os.Exit(m.Run())
}

// measures is from where on a call's way to its decision the time is taken.
var measures = []struct {
	name string
	from start
}{
	{"decision only", fromPrepared},
	{"with conversion", fromRead},
	{"with reading the JSON", fromJSON},
}

type start int

const (
	fromPrepared start = iota // the call is in the engine's own values
	fromRead                  // the call is in the program's values
	fromJSON
)

// measure is the cost of a call from there on.
func measure(b *testing.B, from start, d decider, c *call) {
	b.Helper()
	body := c.json(b)
	read, err := d.read(body)
	if err != nil {
		b.Fatal(err)
	}
	ready := prepared(b, d, body)
	b.ReportAllocs()
	for b.Loop() {
		if from == fromJSON {
			if read, err = d.read(body); err != nil {
				b.Fatal(err)
			}
		}
		if from != fromPrepared {
			if ready, err = d.prepare(read); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := d.decide(ready); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPeers is every engine with 100 rules and a call of 1 KB.
func BenchmarkPeers(b *testing.B) {
	for _, m := range measures {
		for _, s := range shapes() {
			for _, e := range engines {
				b.Run(m.name+"/"+s.name+"/"+e.name, func(b *testing.B) { measure(b, m.from, e.load(b, s.rules), kilobyte(s.tool)) })
			}
		}
	}
}

// sizes is how many rules there are in what shows the cost of their number.
var sizes = []int{100, 10_000}

// BenchmarkRules is our decision by the last of the rules, for a tool each.
func BenchmarkRules(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { measure(b, fromPrepared, newHoldpoint(b, plain(n)), kilobyte(name(n-1))) })
	}
}

// BenchmarkEveryTool is the worst case: the index is of no use when all rules
// are for every tool, and every one is tried.
func BenchmarkEveryTool(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { measure(b, fromPrepared, newHoldpoint(b, elsewhere(n)), kilobyte(name(0))) })
	}
}

// printRatios measures all of it in interleaved rounds and prints the medians,
// the peers' with their ratio to ours.
func printRatios() {
	for _, m := range measures {
		fmt.Printf("\n| %s, ns |", m.name)
		for _, e := range engines {
			fmt.Printf(" %s |", e.name)
		}
		fmt.Print("\n|---|")
		for range engines {
			fmt.Print("---:|")
		}
		fmt.Println()
		for _, s := range shapes() {
			runs := make([]func(b *testing.B), len(engines))
			for i, e := range engines {
				runs[i] = func(b *testing.B) { measure(b, m.from, e.load(b, s.rules), kilobyte(s.tool)) }
			}
			row(s.name, runs)
		}
	}
	fmt.Print("\n| holdpoint, ns | 100 rules | 10,000 rules |\n|---|---:|---:|\n")
	for _, c := range []struct {
		name  string
		rules func(n int) []rule
		tool  func(n int) string
	}{
		{"a tool for each rule, last match", plain, func(n int) string { return name(n - 1) }},
		{"every rule for every tool, last match", elsewhere, func(int) string { return name(0) }},
	} {
		runs := make([]func(b *testing.B), len(sizes))
		for i, n := range sizes {
			runs[i] = func(b *testing.B) { measure(b, fromPrepared, newHoldpoint(b, c.rules(n)), kilobyte(c.tool(n))) }
		}
		row(c.name, runs)
	}
}

// row prints the medians of what is run, with their ratio to the first.
func row(name string, runs []func(b *testing.B)) {
	times := make([][]float64, len(runs))
	for range *rounds {
		for i, run := range runs {
			r := testing.Benchmark(run)
			if r.N == 0 {
				fmt.Fprintln(os.Stderr, name+": the benchmark did not end")
				os.Exit(1)
			}
			times[i] = append(times[i], float64(r.T.Nanoseconds())/float64(r.N))
		}
	}
	fmt.Printf("| %s |", name)
	ours := median(times[0])
	for i := range times {
		t := median(times[i])
		if i == 0 {
			fmt.Printf(" %s |", figure(t))
			continue
		}
		fmt.Printf(" %s (%s×) |", figure(t), figure(t/ours))
	}
	fmt.Println()
}

func median(list []float64) float64 {
	slices.SortFunc(list, cmp.Compare)
	return list[len(list)/2]
}

// figure is a number with as many digits as mean something.
func figure(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
