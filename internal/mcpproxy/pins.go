package mcpproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holdpoint/engine/canon"
)

// Pins is an operator's file of what a server's tools were when somebody accepted
// them. A server that changes what it tells the model of a tool, or comes up with a
// new one, is not believed before that is accepted as well.
//
// Where there is no file yet, what the server lists first is written into it. The
// file has to be where neither the model nor the server can write.
type Pins struct{ Path string }

// pinned is the file: definitions by the tool's name.
type pinned struct {
	// Tools are those that were accepted.
	Tools map[string]json.RawMessage `json:"tools"`
	// Held are those that the server tells of now, and that were not accepted.
	Held map[string]json.RawMessage `json:"held,omitempty"`
}

// read reads the file; ok is false when there is none.
func (p *Pins) read() (got pinned, ok bool, err error) {
	data, err := os.ReadFile(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return pinned{}, false, nil
	}
	if err != nil {
		return pinned{}, false, fmt.Errorf("read the pinned tools: %w", err)
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Tools == nil {
		return pinned{}, false, fmt.Errorf("%s is no file of pinned tools", p.Path)
	}
	return got, true, nil
}

// write replaces the file, or leaves it as it was.
func (p *Pins) write(now pinned) error {
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the pinned tools: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(p.Path), filepath.Base(p.Path)+".*")
	if err != nil {
		return fmt.Errorf("write the pinned tools: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is not there any more, or not wanted
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), p.Path)
	}
	if err != nil {
		return fmt.Errorf("write the pinned tools: %w", err)
	}
	return nil
}

// locked runs f while no other process changes the file.
func (p *Pins) locked(f func() error) error {
	if err := os.MkdirAll(filepath.Dir(p.Path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the pinned tools: %w", err)
	}
	lock, err := os.OpenFile(p.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the pinned tools: %w", err)
	}
	defer func() { _ = lock.Close() }() // which ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the pinned tools: %w", err)
	}
	return f()
}

// check compares what a server says of its tools with what is pinned, keeps what is
// different for an operator to look at, and names what was not held before. Where
// nothing is pinned yet, all of them are, if these are all.
func (p *Pins) check(tools []tool, all bool) (newly []string, err error) {
	err = p.locked(func() error {
		now, ok, err := p.read()
		if err != nil {
			return err
		}
		if !ok {
			if !all {
				return errors.New("nothing is pinned yet")
			}
			now.Tools = map[string]json.RawMessage{}
			for _, t := range tools {
				now.Tools[t.name] = json.RawMessage(t.definition)
			}
			return p.write(now)
		}
		held := maps.Clone(now.Held)
		if held == nil {
			held = map[string]json.RawMessage{}
		}
		for _, t := range tools {
			accepted, err := canonical(now.Tools[t.name])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", p.Path, t.name, err)
			}
			before, err := canonical(held[t.name])
			switch {
			case err != nil:
				return fmt.Errorf("%s: %s: %w", p.Path, t.name, err)
			case string(accepted) == string(t.definition):
				delete(held, t.name)
			case string(before) != string(t.definition):
				held[t.name] = json.RawMessage(t.definition)
				newly = append(newly, t.name)
			}
		}
		if len(newly) == 0 && len(held) == len(now.Held) {
			return nil
		}
		now.Held = held
		return p.write(now)
	})
	return newly, err
}

// canonical is a definition as the file has it, which may have been laid out anew.
func canonical(raw json.RawMessage) (definition, error) {
	if raw == nil {
		return nil, nil
	}
	v, err := canon.Parse(raw)
	if err != nil {
		return nil, err
	}
	return v.Canonical(), nil
}

// accepted is a tool as it was accepted; nil when it was not.
func (p *Pins) accepted(name string) (definition, error) {
	now, _, err := p.read()
	if err != nil {
		return nil, err
	}
	return canonical(now.Tools[name])
}

// Pin is a tool of the file.
type Pin struct {
	Name string
	// Accepted is its accepted definition, Held the one that waits to be accepted; ""
	// for none.
	Accepted, Held string
	// Sum is the SHA-256 of what would be, or is, accepted.
	Sum string
}

// List is all that the file has, by name.
func (p *Pins) List() ([]Pin, error) {
	now, ok, err := p.read()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s is not there: it is written when the server is used for the first time", p.Path)
	}
	names := map[string]bool{}
	for name := range now.Tools {
		names[name] = true
	}
	for name := range now.Held {
		names[name] = true
	}
	var pins []Pin
	for _, name := range slices.Sorted(maps.Keys(names)) {
		accepted, err := canonical(now.Tools[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p.Path, name, err)
		}
		held, err := canonical(now.Held[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p.Path, name, err)
		}
		pin := Pin{Name: name, Accepted: string(accepted), Held: string(held), Sum: accepted.sum()}
		if held != nil {
			pin.Sum = held.sum()
		}
		pins = append(pins, pin)
	}
	return pins, nil
}

// Accept takes over what is held of a tool, if it is still what the operator was
// shown.
func (p *Pins) Accept(shown Pin) error {
	return p.locked(func() error {
		now, _, err := p.read()
		if err != nil {
			return err
		}
		held, err := canonical(now.Held[shown.Name])
		if err != nil || held == nil || string(held) != shown.Held {
			return fmt.Errorf("%s: what the server says of it has changed meanwhile; look again", shown.Name)
		}
		now.Tools[shown.Name] = json.RawMessage(held)
		delete(now.Held, shown.Name)
		return p.write(now)
	})
}
