package engine

import (
	"fmt"
	"slices"
)

// Trust is an agent's level of trust, from untrusted to system: a higher level
// may do what every lower one may (Agent-SPM v0.3, AgentTrustLevel).
type Trust uint8

// The five levels.
const (
	Untrusted Trust = iota
	Basic
	Verified
	Privileged
	System
)

var trustNames = []string{"untrusted", "basic", "verified", "privileged", "system"}

// TrustLevels lists the names of the levels, lowest first.
func TrustLevels() []string { return slices.Clone(trustNames) }

// ParseTrust reads a level's name. Unknown names are an error: a caller fails closed.
func ParseTrust(name string) (Trust, error) {
	if i := slices.Index(trustNames, name); i >= 0 {
		return Trust(i), nil // #nosec G115 -- one of five
	}
	return Untrusted, fmt.Errorf("unknown trust level %q", name)
}

// String is the level's name.
func (t Trust) String() string {
	if int(t) < len(trustNames) {
		return trustNames[t]
	}
	return fmt.Sprintf("trust(%d)", uint8(t))
}

// MarshalText writes the name; a level outside the five is an error.
func (t Trust) MarshalText() ([]byte, error) {
	if int(t) >= len(trustNames) {
		return nil, fmt.Errorf("unknown trust level %d", uint8(t))
	}
	return []byte(trustNames[t]), nil
}

// UnmarshalText reads a name as ParseTrust does.
func (t *Trust) UnmarshalText(text []byte) error {
	parsed, err := ParseTrust(string(text))
	*t = parsed
	return err
}
