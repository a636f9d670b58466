package redact_test

import (
	"strings"
	"testing"

	"holdpoint/engine/redact"
)

// payload is JSON as tools get it: words, ids, times and numbers, one address.
func payload(size int) string {
	const part = `{"id":"3f2a9c1e-77b4-4a0d-9d55-0c1f6f1f2a10","to":"alice@example.com","subject":"Invoice 4711 for the access of March",` +
		`"body":"Dear Alice, please find attached what we agreed on. The key dates are 2026-03-14 and 2026-04-01; ask for a new token if the ` +
		`link has expired. Kind regards, Boris","amount":"1249.00","commit":"9fceb02d0ae598e95dc970b74767f19372d61af8","tags":["billing","api"]},`
	return "[" + strings.Repeat(part, size/len(part)+1)[:size-1]
}

func BenchmarkFind(b *testing.B) {
	d := redact.New()
	for _, bm := range []struct{ name, text string }{
		{"1KB", payload(1 << 10)},
		{"1KB-nothing", strings.ReplaceAll(payload(1<<10), "@", " ")},
		{"64KB", payload(64 << 10)},
		{"1MB", payload(1 << 20)},
		{"1MB-hostile", strings.Repeat("curl q~ facebook ghp_", 1<<20/21)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				d.Find(bm.text)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		redact.New()
	}
}
