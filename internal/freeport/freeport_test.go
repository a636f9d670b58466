package freeport

import (
	"net"
	"testing"
)

func TestFind(t *testing.T) {
	held, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	port := func(preferred int) int {
		t.Helper()
		p, err := Find(preferred)
		if err != nil {
			t.Fatal(err)
		}
		if p < first || p > last {
			t.Errorf("%d may be given to an outgoing connection", p)
		}
		return p
	}
	free := port(0)
	if got := port(free); got != free {
		t.Errorf("%d was free, and got %d", free, got)
	}
	if taken := held.Addr().(*net.TCPAddr).Port; port(taken) == taken {
		t.Errorf("%d is taken", taken)
	}
}
