package tally

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type line struct {
			kind string
			n    int64
		}
		var lines []line
		var broken error
		failed := 0
		tally := New(Config[string]{Every: time.Minute, First: 2, Failed: func(error) { failed++ }, Write: func(_ context.Context, kind string, n Count) error {
			if broken == nil {
				lines = append(lines, line{kind, n.N})
			}
			return broken
		}})
		add := func(kind string, times int) {
			for range times {
				if err := tally.Add(t.Context(), kind); err != nil {
					t.Fatal(err)
				}
			}
		}
		expect := func(when string, want ...line) {
			t.Helper()
			synctest.Wait()
			if len(lines) != len(want) {
				t.Fatalf("%s: %v, want %v", when, lines, want)
			}
			for i := range want {
				if lines[i] != want[i] {
					t.Fatalf("%s: %v, want %v", when, lines, want)
				}
			}
			lines = nil
		}
		add("a", 1000)
		add("b", 1)
		expect("at first", line{"a", 0}, line{"a", 0}, line{"b", 0})
		time.Sleep(time.Minute)
		expect("after a window", line{"a", 998})
		add("a", 7)
		expect("in the next")
		broken = errors.New("the store is away")
		time.Sleep(time.Minute)
		if synctest.Wait(); failed != 1 {
			t.Errorf("failed %d times", failed)
		}
		add("a", 3)
		broken = nil
		time.Sleep(time.Minute)
		expect("after an outage", line{"a", 10})
		time.Sleep(time.Minute)
		if synctest.Wait(); len(tally.windows) != 0 {
			t.Errorf("%d kinds are remembered after a quiet window", len(tally.windows))
		}
		add("a", 3)
		expect("again", line{"a", 0}, line{"a", 0})
		tally.Flush()
		expect("at the end", line{"a", 1})
		time.Sleep(time.Hour)
		expect("afterwards")
	})
}
