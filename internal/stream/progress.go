package stream

import (
	"errors"
	"fmt"
	"time"

	"holdpoint/internal/store"
)

// Progress says how far one stream has come, and what is wrong with that.
func Progress(name string, positions map[string]store.StreamPosition) (string, error) {
	p, begun := positions[name]
	if !begun {
		return "log stream " + name, errors.New("no worker has begun it")
	}
	what := fmt.Sprintf("log stream %s, taken up to seq %d, %d behind", name, p.Leaf, p.Behind())
	switch {
	case p.Behind() < 0:
		return what, errors.New("its position is behind the end of the log: somebody has set it")
	case p.Error != "":
		return what, fmt.Errorf("since %s: %s", p.FailingAt.Format(time.RFC3339), p.Error)
	case p.Oldest > time.Minute:
		return what, fmt.Errorf("the oldest event that was not sent is from %s ago", p.Oldest.Round(time.Second))
	}
	return what, nil
}
