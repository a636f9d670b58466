package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// caller asks the gate over one connection, with the same request each time, and takes
// as little of the two processors as pgbench's C does: http.Client took as much as a third
// of a decision, so that the figure was its own. What comes back is looked at whole.
type caller struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
	body    []byte
}

// dial connects a caller to a server. The key may be any text.
func dial(url, key string) (*caller, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "POST /v1/pre-tool-check HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		host, key, len(call), call)
	return &caller{conn: conn, answers: bufio.NewReaderSize(conn, 8<<10), request: request}, nil
}

func (c *caller) close() { _ = c.conn.Close() }

// ask sends the request and reads the answer: its status and its body, which is good until
// the next one.
func (c *caller) ask() (status int, body []byte, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, nil, err
	}
	length := -1
	for {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if status == 0 {
			if len(line) < 12 {
				return 0, nil, fmt.Errorf("the answer begins with %q", line)
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, nil, err
			}
			continue
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, nil, err
			}
		}
	}
	if length < 0 {
		return 0, nil, fmt.Errorf("an answer without Content-Length, status %d", status)
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.answers, c.body)
	return status, c.body, err
}
