package store

import (
	"github.com/google/uuid"
)

// NewEventID is a random UUID version 4.
func NewEventID() string { return uuid.NewString() }
