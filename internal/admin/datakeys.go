package admin

import (
	"fmt"

	"holdpoint/engine"
	"holdpoint/internal/access"
)

// DataKeyAdded is the event that records are sealed with another data key from now on.
func DataKeyAdded(id string, by engine.Actor) engine.Event {
	return dataKeyEvent("DATA_KEY_ADDED", "Records are sealed with another data key.", id, by)
}

// DataKeyRetired is the event that a data key opens nothing any more.
func DataKeyRetired(id string, by engine.Actor) engine.Event {
	return dataKeyEvent("DATA_KEY_REMOVED", "A data key was retired: nothing is sealed with it.", id, by)
}

func dataKeyEvent(code, message, id string, by engine.Actor) engine.Event {
	e := access.Initiator{Actor: by}.Event(code, message, "", "")
	e.SafePayload = fmt.Appendf(nil, `{"subject":%q}`, id)
	return e
}
