package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// schemaLine has an editor check a file by the schema that “holdpoint export --schema”
// prints.
const schemaLine = "# yaml-language-server: $schema=./holdpoint.schema.json\n"

// perFile is how many entries one file of an export has: no file is larger than what
// the reader takes.
const perFile = 500

// Export writes what is set up. What could only be said by leaving it out, such as that
// an agent is not revoked, is left out. Without whole, it comes in files of one section
// each; a file that the reader would refuse for its size is an error.
func (c *Current) Export(whole bool) ([]Input, error) {
	d := c.Document
	d.People, d.Tools, d.Agents, d.Endpoints = slices.Clone(d.People), slices.Clone(d.Tools), slices.Clone(d.Agents), slices.Clone(d.Endpoints)
	for i := range d.People {
		d.People[i].Disabled = onlyTrue(d.People[i].Disabled)
	}
	for i := range d.Tools {
		d.Tools[i].Revoked = onlyTrue(d.Tools[i].Revoked)
	}
	for i := range d.Agents {
		d.Agents[i].Revoked = onlyTrue(d.Agents[i].Revoked)
	}
	for i := range d.Endpoints {
		d.Endpoints[i].Disabled = onlyTrue(d.Endpoints[i].Disabled)
	}
	parts := []Input{{Name: "holdpoint.yaml"}}
	var err error
	if whole {
		parts[0].Data, err = yamlOf(d)
	} else {
		parts, err = split(d)
	}
	for _, p := range parts {
		if err == nil && len(p.Data) > source.MaxBytes {
			err = fmt.Errorf("%s would have %d bytes, and a file has at most %d: export to a directory, with --dir", p.Name, len(p.Data), source.MaxBytes)
		}
	}
	return parts, err
}

func onlyTrue(b *bool) *bool {
	if b != nil && *b {
		return b
	}
	return nil
}

// split is the document in files.
func split(d Document) ([]Input, error) {
	var files []Input
	add := func(name string, part Document) error {
		data, err := yamlOf(part)
		files = append(files, Input{Name: name + ".yaml", Data: data})
		return err
	}
	err := add(settingsSection, Document{Settings: d.Settings})
	each := func(section string, n int, part func(from, to int) Document) {
		for from := 0; from < n && err == nil; from += perFile {
			name := section
			if n > perFile {
				name = fmt.Sprintf("%s-%03d", section, from/perFile+1)
			}
			err = add(name, part(from, min(from+perFile, n)))
		}
	}
	each(peopleSection, len(d.People), func(i, j int) Document { return Document{People: d.People[i:j]} })
	each(toolsSection, len(d.Tools), func(i, j int) Document { return Document{Tools: d.Tools[i:j]} })
	each(agentsSection, len(d.Agents), func(i, j int) Document { return Document{Agents: d.Agents[i:j]} })
	each(endpointsSection, len(d.Endpoints), func(i, j int) Document { return Document{Endpoints: d.Endpoints[i:j]} })
	each(onCallSection, len(d.OnCall), func(i, j int) Document { return Document{OnCall: d.OnCall[i:j]} })
	return files, err
}

// yamlOf writes a document as YAML.
func yamlOf(d Document) ([]byte, error) {
	encoded, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode what is set up: %w", err)
	}
	v, err := canon.Parse(encoded)
	if err != nil {
		return nil, fmt.Errorf("it is too much for one file: export to a directory, with --dir (%w)", err)
	}
	out := bytes.NewBufferString(schemaLine)
	writeYAML(out, v, 0)
	return out.Bytes(), nil
}

// writeYAML writes the members of an object, each on lines of its own.
func writeYAML(out *bytes.Buffer, object canon.Value, depth int) {
	for name, v := range object.All() {
		fmt.Fprintf(out, "%s%s:", strings.Repeat("  ", depth), scalar(canon.String(name)))
		writeValue(out, v, depth)
	}
}

func writeValue(out *bytes.Buffer, v canon.Value, depth int) {
	switch {
	case v.Kind() == canon.ObjectKind && v.Len() > 0:
		out.WriteByte('\n')
		writeYAML(out, v, depth+1)
	case v.Kind() == canon.ArrayKind && holdsMore(v):
		out.WriteByte('\n')
		for _, e := range v.Elements() {
			writeElement(out, e, depth+1)
		}
	default:
		out.WriteString(" " + flow(v) + "\n")
	}
}

// writeElement writes one element of a list after its dash.
func writeElement(out *bytes.Buffer, e canon.Value, depth int) {
	dash := strings.Repeat("  ", depth) + "- "
	if e.Kind() != canon.ObjectKind || e.Len() == 0 {
		out.WriteString(dash + flow(e) + "\n")
		return
	}
	var lines bytes.Buffer
	writeYAML(&lines, e, depth+1)
	out.WriteString(dash)
	out.Write(lines.Bytes()[len(dash):])
}

// holdsMore reports whether a list has entries that take lines of their own.
func holdsMore(v canon.Value) bool {
	for _, e := range v.Elements() {
		if e.Kind() == canon.ObjectKind && e.Len() > 0 {
			return true
		}
	}
	return false
}

// flow writes a value on one line.
func flow(v canon.Value) string {
	var parts []string
	if v.Kind() == canon.ArrayKind {
		for _, e := range v.Elements() {
			parts = append(parts, flow(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if v.Kind() != canon.ObjectKind {
		return scalar(v)
	}
	for name, e := range v.All() {
		parts = append(parts, scalar(canon.String(name))+": "+flow(e))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// plain are texts that YAML reads as texts without quotes, whichever its version.
var (
	plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./+@-]*( [A-Za-z0-9_./+@-]+)*$`)
	word  = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|null|y|n)$`)
)

func scalar(v canon.Value) string {
	text := v.Str()
	switch {
	case v.Kind() != canon.StringKind:
		return string(v.Canonical())
	case plain.MatchString(text) && !word.MatchString(text):
		return text
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			quoted.WriteString(`\` + string(r))
		case unicode.IsPrint(r):
			quoted.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&quoted, `\u%04x`, r)
		default:
			fmt.Fprintf(&quoted, `\U%08x`, r)
		}
	}
	return quoted.String() + `"`
}
