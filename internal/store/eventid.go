package store

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// NewEventID is a UUID of version 4 whose first 48 bits are the milliseconds since 1970
// instead of random ones, and whose other 74 are random: nobody can guess it, and ids
// that are made one after another stand beside each other in an index, where those of
// random ones would each touch a page of their own. Nothing is decided by the time in it.
func NewEventID() string {
	id := uuid.New()
	var now [8]byte
	binary.BigEndian.PutUint64(now[:], uint64(time.Now().UnixMilli())) // #nosec G115 -- it is after 1970
	copy(id[:6], now[2:])
	return id.String()
}
