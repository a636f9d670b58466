package store

import (
	"context"
	"testing"
)

// TestLeaderWhoseMachineIsGone: Postgres asks after whoever leads a stream and says
// nothing, and does not wait for what the system thinks of a dead connection.
func TestLeaderWhoseMachineIsGone(t *testing.T) {
	s, _ := open(t)
	led, err := s.Streams.Lead(t.Context(), "siem", func(ctx context.Context, l *StreamLeader) error {
		var idle, interval, count int
		err := l.conn.QueryRow(ctx, `SELECT current_setting('tcp_keepalives_idle')::int, current_setting('tcp_keepalives_interval')::int, current_setting('tcp_keepalives_count')::int`).
			Scan(&idle, &interval, &count)
		if err != nil {
			return err
		}
		if gone := idle + interval*count; idle < 1 || interval < 1 || count < 1 || gone > 60 {
			t.Errorf("a leader that is gone is noticed after %d + %d × %d seconds", idle, interval, count)
		}
		return nil
	})
	if !led || err != nil {
		t.Fatal(led, err)
	}
}
