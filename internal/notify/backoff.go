package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

// delays is how long to wait before each attempt, as the Standard Webhooks
// specification recommends it: ten attempts in a little more than three days.
var delays = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// Backoff says how long to wait before an attempt, counted from the one before
// it; the first is attempt 1, at once. False: there is no such attempt, and the
// notification is a dead letter. Up to a tenth is added, so that what failed together
// does not come again together; how much depends on id and attempt alone, so
// that whoever asks again gets the same answer.
func Backoff(id string, attempt int) (time.Duration, bool) {
	if attempt < 1 || attempt > len(delays) {
		return 0, false
	}
	delay := delays[attempt-1]
	sum := sha256.Sum256([]byte(id + " " + strconv.Itoa(attempt)))
	part := int64(binary.BigEndian.Uint16(sum[:])) // of 65536
	return delay + time.Duration(int64(delay)/10*part>>16), true
}
