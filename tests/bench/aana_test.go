package bench

import (
	"flag"
	"fmt"
	"testing"
)

var (
	aanaURL   = flag.String("aana", "", "BenchmarkAANA: the URL of AANA's own service, without rate limit, such as http://127.0.0.1:8766")
	aanaToken = flag.String("aana-token", "", "BenchmarkAANA: its token")
)

// BenchmarkAANA compares the gate with AANA's own service, which somebody has started
// beside it: the same call and the same client, in turns. Both keep an audit log; only the
// gate answers after its event is durable.
//
//	go test ./tests/bench -run '^$' -bench AANA -benchtime 1x -aana http://127.0.0.1:8766 -aana-token T
func BenchmarkAANA(b *testing.B) {
	if *aanaURL == "" {
		b.Skip("-aana is not set: AANA's service is not part of Holdpoint")
	}
	m := start(b)
	theirs := machine{URL: *aanaURL, AgentKey: *aanaToken, path: "/pre-tool-check"}
	gate(b, m, 8) // warm
	gate(b, theirs, 8)
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			for range b.N {
				var ours, aana, p99, aana99 []float64
				for range *rounds {
					got := gate(b, theirs, callers)
					aana, aana99 = append(aana, got.perSecond), append(aana99, ms(got.p99))
					got = gate(b, m, callers)
					ours, p99 = append(ours, got.perSecond), append(p99, ms(got.p99))
				}
				b.ReportMetric(median(ours), "decisions/s")
				b.ReportMetric(median(aana), "aana/s")
				b.ReportMetric(median(ours)/median(aana), "ratio")
				b.ReportMetric(median(p99), "p99-ms")
				b.ReportMetric(median(aana99), "aana-p99-ms")
			}
		})
	}
}
