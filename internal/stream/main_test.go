package stream

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// childVariable makes the test binary a worker that streams, and nothing else.
const childVariable = "STREAM_TEST_CHILD"

func TestMain(m *testing.M) {
	if told := os.Getenv(childVariable); told != "" {
		child(strings.Split(told, " "))
		return
	}
	pgtest.Main(m)
}

// testBatch is the window of these tests.
const testBatch = 40

// child streams until it is killed: the database, the data key, the receiver's
// address, the file of the authority.
func child(args []string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	fail := func(err error) {
		if err != nil {
			log.Error("the child ends", "error", err)
			os.Exit(1)
		}
	}
	key, err := seal.ParseKey(args[1])
	fail(err)
	sealer, err := seal.New(key)
	fail(err)
	s, err := store.Open(context.Background(), store.Config{URL: args[0], Sealer: sealer, Logger: log, Timeout: time.Minute})
	fail(err)
	ca, err := os.ReadFile(args[3])
	fail(err)
	c := Config{Name: "siem", Kind: SyslogKind, Address: args[2], CA: ca, From: FromBeginning, Batch: testBatch}
	r, err := c.Receiver(loopback, "h")
	fail(err)
	(&Stream{Config: c, Store: s, Receiver: r, Logger: log, Pause: time.Millisecond}).Run(context.Background())
}
