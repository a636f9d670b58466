// Package freeport finds ports of loopback for servers that are stopped and started
// again at the same address.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports that no system we run on gives to outgoing connections (Linux begins at 32768,
// others at 49152). Such a connection would keep a server that is away for a moment from
// coming back.
const (
	first = 20000
	last  = 32767
)

// Listen holds a free TCP port of 127.0.0.1: preferred if that is not 0 and free, else
// one that outgoing connections are not given, else any.
func Listen(preferred int) (net.Listener, error) {
	listen := func(port int) (net.Listener, error) {
		return new(net.ListenConfig).Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	if preferred != 0 {
		if l, err := listen(preferred); err == nil {
			return l, nil
		}
	}
	for range 20 {
		if l, err := listen(first + rand.IntN(last-first+1)); err == nil { // #nosec G404 -- no secret
			return l, nil
		}
	}
	l, err := listen(0)
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return l, nil
}

// Find is Listen for a server that listens itself: the port is free again.
func Find(preferred int) (int, error) {
	l, err := Listen(preferred)
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
