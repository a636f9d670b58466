package api

import (
	"errors"
	"net/http"
	"testing"
)

// A credential has so many answers under way that read much of the log; another one's are
// not counted with them.
func TestLongAnswersAreBounded(t *testing.T) {
	f := newInFlight(Limits{})
	var leave func()
	for range mostLong {
		var err error
		if leave, err = f.read("key_a"); err != nil {
			t.Fatal(err)
		}
	}
	var refused *failure
	if _, err := f.read("key_a"); !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || refused.Code != tooManyInFlight {
		t.Errorf("one more: %v", err)
	}
	if _, err := f.read("key_b"); err != nil {
		t.Errorf("another key: %v", err)
	}
	leave()
	if _, err := f.read("key_a"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
