package stream

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes the other side's system has not acknowledged yet, or
// what the connection has come to.
func unsent(c *net.TCPConn) (left int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if left, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); failed != nil { // #nosec G115 -- a descriptor
			return
		}
		// Second: a reset empties what is unsent.
		var code int
		if code, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); failed == nil && code != 0 { // #nosec G115 -- a descriptor
			failed = syscall.Errno(code) // #nosec G115 -- an error's number
		}
	}); err != nil {
		return 0, err
	}
	return left, failed
}
