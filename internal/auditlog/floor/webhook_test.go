package floor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// receiver answers posts, one after the other, by what it was told to.
type receiver struct {
	answers []func() (*http.Response, error)
	took    []string
	got     []string
}

func (r *receiver) Do(req *http.Request) (*http.Response, error) {
	note, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.got = append(r.got, string(note))
	answer := status(204)
	if len(r.answers) > 0 {
		answer, r.answers = r.answers[0], r.answers[1:]
	}
	resp, err := answer()
	if err == nil && resp.StatusCode/100 == 2 {
		r.took = append(r.took, string(note))
	}
	return resp, err
}

func status(code int) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(""))}, nil
	}
}

// TestWebhookPostsUntilTaken: the last checkpoint gets there, also when nothing
// comes after it, and an outage is told once.
func TestWebhookPostsUntilTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := func() (*http.Response, error) { return nil, errors.New("nobody is there") }
		r := &receiver{answers: []func() (*http.Response, error){status(200), gone, gone, status(500), gone}}
		var failed []string
		w := &Webhook{URL: "https://keeper.example.com/", Client: r, Failed: func(err error) { failed = append(failed, err.Error()) }}
		keep := func(note string) {
			if err := w.Keep(t.Context(), []byte(note)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		keep("1")
		keep("2")
		keep("3") // while 2 is tried again
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"1", "3"}; !slices.Equal(r.took, want) {
			t.Errorf("it took %q, want %q", r.took, want)
		}
		if want := []string{"1", "2", "3", "3", "3", "3"}; !slices.Equal(r.got, want) {
			t.Errorf("it got %q, want %q", r.got, want)
		}
		if want := 3; len(failed) != want {
			t.Errorf("it was told %d times of two outages of one kind and one of another: %q", len(failed), failed)
		}
		if w.posting || w.waiting != nil {
			t.Error("somebody still posts")
		}
	})
}

// TestWebhookStops: nobody goes on posting when the process ends.
func TestWebhookStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &receiver{answers: slices.Repeat([]func() (*http.Response, error){status(503)}, 100)}
		w := &Webhook{URL: "https://keeper.example.com/", Client: r}
		if err := w.Keep(ctx, []byte("1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		before := len(r.got)
		time.Sleep(time.Hour)
		if len(r.got) != before || before < 2 {
			t.Errorf("it posted %d times, and then %d", before, len(r.got))
		}
	})
}
