package registry

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/confusable"
	"holdpoint/engine/form"
	"holdpoint/engine/stakes"
)

// Bounds of what may be registered.
const (
	maxRateCalls     = 100_000
	maxRatePer       = 24 * time.Hour
	maxSessionLength = 30 * 24 * time.Hour
	maxName          = 200
	maxToolName      = 512
	maxRoles         = 100
	maxChain         = 100
	maxSchema        = 32 << 10
	maxLabels        = 100
)

// Check returns every mistake in what is to be registered, each naming its field.
func (a Agent) Check() []error {
	var errs []error
	if a.ID == "." || a.ID == ".." {
		errs = append(errs, fmt.Errorf("agent_id: %q is no name that a page could have", a.ID))
	}
	if !confusable.ClearName(a.ID) {
		errs = append(errs, fmt.Errorf("agent_id: %q could be taken for another's by how it is drawn", a.ID))
	}
	errs = append(errs, text("agent_id", a.ID, maxName, true), text("name", a.Name, maxName, true), text("agent_type", a.Type, maxName, false))
	for _, list := range []struct {
		name   string
		values []string
	}{{"roles", a.Roles}, {"capabilities", a.Capabilities}} {
		if len(list.values) > maxRoles {
			errs = append(errs, fmt.Errorf("%s: at most %d, got %d", list.name, maxRoles, len(list.values)))
			continue
		}
		for i, v := range list.values {
			errs = append(errs, text(fmt.Sprintf("%s[%d]", list.name, i), v, maxName, true))
		}
	}
	if a.MaxDelegation != nil {
		errs = append(errs, depth("max_delegation_depth", *a.MaxDelegation))
	}
	if a.Limits != nil {
		errs = append(errs, a.Limits.check("limits")...)
	}
	return without(errs)
}

// Check returns every mistake in what is to be registered, each naming its field.
func (t Tool) Check() []error {
	errs := []error{text("tool_name", t.Name, maxToolName, true), text("version", t.Version, maxName, false), text("provider", t.Provider, maxName, false)}
	if t.ManifestHash != "" {
		if raw, err := hex.DecodeString(t.ManifestHash); err != nil || len(raw) != 32 || strings.ToLower(t.ManifestHash) != t.ManifestHash {
			errs = append(errs, fmt.Errorf("manifest_hash: want a SHA-256 in 64 lower-case hex digits"))
		}
	}
	if t.NeedsManifest && t.ManifestHash == "" {
		errs = append(errs, fmt.Errorf("needs_manifest: there is no manifest_hash to compare with"))
	}
	if t.Category != "" && !slices.Contains(engine.ToolCategories(), t.Category) {
		errs = append(errs, fmt.Errorf("tool_category: want one of %s", strings.Join(engine.ToolCategories(), ", ")))
	}
	if t.RiskDomain != "" && !slices.Contains(engine.RiskDomains(), t.RiskDomain) {
		errs = append(errs, fmt.Errorf("risk_domain: want one of %s", strings.Join(engine.RiskDomains(), ", ")))
	}
	if len(t.DataLabels) > maxLabels {
		errs = append(errs, fmt.Errorf("data_labels: there are %d; at most %d are kept", len(t.DataLabels), maxLabels))
	}
	for i, label := range t.DataLabels {
		errs = append(errs, text(fmt.Sprintf("data_labels[%d]", i), label, maxName, true))
	}
	if t.Category == "public_read" && (t.IdentityBound || t.SideEffects) {
		errs = append(errs, fmt.Errorf("tool_category: a public read has no side effects and is bound to no identity"))
	}
	if len(t.InputSchema) > 0 {
		if _, err := t.Form(); err != nil {
			errs = append(errs, fmt.Errorf("input_schema: %w", err))
		}
	}
	if t.Stakes != "" {
		if err := stakes.Check(t.Stakes); err != nil {
			errs = append(errs, fmt.Errorf("stakes: %w", err))
		}
	}
	return without(errs)
}

// Form is the form of the tool's arguments by its schema; nil where none is
// registered.
func (t Tool) Form() (*form.Form, error) {
	if len(t.InputSchema) == 0 {
		return nil, nil //nolint:nilnil // no schema is no error
	}
	if len(t.InputSchema) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes; at most %d are kept", len(t.InputSchema), maxSchema)
	}
	schema, err := canon.Parse(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return form.Compile(schema)
}

// Check returns every mistake in the settings, each naming its field.
func (s Settings) Check() []error {
	errs := append(s.Limits.check("limits"), depth("max_delegation_depth", s.MaxDelegation))
	for issuer := range s.Issuers {
		errs = append(errs, text("issuers", issuer, maxName, true))
		if _, ok := s.key(issuer); !ok {
			errs = append(errs, fmt.Errorf("issuers: the key of %q is not an Ed25519 public key", issuer))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return without(errs)
}

func (l Limits) check(where string) []error {
	return slices.Concat(
		l.Agent.check(where+".agent", maxRatePer, true), l.Tool.check(where+".tool", maxRatePer, true),
		l.Session.check(where+".session", maxSessionLength, false),
	)
}

func (r Rate) check(where string, longest time.Duration, window bool) []error {
	var errs []error
	if r.Calls < 0 || r.Calls > maxRateCalls {
		errs = append(errs, fmt.Errorf("%s.calls: want 0 (no limit) to %d, got %d", where, maxRateCalls, r.Calls))
	}
	per := time.Duration(r.Per)
	if per < 0 || per > longest || per > 0 && per < time.Second {
		errs = append(errs, fmt.Errorf("%s.per: want 1s to %s, got %s", where, longest, per))
	}
	if window && r.Calls > 0 && per == 0 {
		errs = append(errs, fmt.Errorf("%s.per: say within which time %d calls are allowed, such as 1m", where, r.Calls))
	}
	return errs
}

func depth(where string, n int) error {
	if n < 0 || n > maxChain {
		return fmt.Errorf("%s: want 0 to %d, got %d", where, maxChain, n)
	}
	return nil
}

// text refuses what the eye cannot tell apart or kept in the database.
func text(where, value string, longest int, needed bool) error {
	switch {
	case value == "" && needed:
		return fmt.Errorf("%s: is missing", where)
	case len(value) > longest:
		return fmt.Errorf("%s: has %d bytes; at most %d are kept", where, len(value), longest)
	case strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s: holds blanks at an end or invisible characters", where)
	}
	return nil
}

func without(errs []error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
