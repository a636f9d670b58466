package hook

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// However many runs there are for one try, one at a time is busy with it.
func TestOneRunAtATimeForATry(t *testing.T) {
	t.Parallel()
	s := &session{dir: t.TempDir()}
	var busy, most atomic.Int32
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 20 {
				leave, err := s.enter(t.Context(), Call{ID: "toolu_1", Tool: "Bash"})
				if err != nil {
					t.Error(err)
					return
				}
				if n := busy.Add(1); n > most.Load() {
					most.Store(n)
				}
				for range 2000 { // others come meanwhile
					runtime.Gosched()
				}
				busy.Add(-1)
				leave()
			}
		})
	}
	runs.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
}
