package toolcontract

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// Load reads a contract file, in YAML or JSON:
//
//	tool_contracts:
//	  send_email:
//	    allowed_request_tags: [personal.pii.email]
//	    allowed_response_fields: [status]
//	    mask_response: true        # may be left out
//
// file is only for the problems. The Set is nil exactly if there are problems;
// these are all that the file has, in the order of the file.
func Load(data []byte, file string) (*Set, []Problem) {
	c := compiler{problems: problems{file: file}, strict: true}
	root, ok := c.read(data)
	if !ok {
		return nil, c.sorted()
	}
	set := c.document(root)
	return set, c.sorted()
}

// read turns a file into a tree. What begins with a brace is JSON, read by the
// one strict reader; YAML's only gives its positions.
func (c *compiler) read(data []byte) (node, bool) {
	start := position{1, 1}
	switch {
	case len(data) > canon.MaxBytes:
		c.add(start, "", Syntax, "the file has more than 1 MiB", "")
		return node{}, false
	case !utf8.Valid(data):
		c.add(start, "", Syntax, "the file is not valid UTF-8", "save it as UTF-8")
		return node{}, false
	case bytes.HasPrefix(data, []byte("\uFEFF")):
		c.add(start, "", Syntax, "the file begins with a byte order mark", "save it without one")
		return node{}, false
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return c.readYAML(string(data))
	}
	v, err := canon.Parse(data)
	if err != nil {
		at := start
		var syntax *canon.SyntaxError
		if errors.As(err, &syntax) {
			at = locate(data, syntax.Offset)
			c.add(at, syntax.Path, Syntax, "the file is not JSON as it has to be: "+syntax.Message, "")
		} else {
			c.add(at, "", Syntax, "the file is not JSON", "")
		}
		return node{}, false
	}
	root := fromValue(v)
	shadow := compiler{}
	if positions, ok := shadow.readYAML(string(data)); ok {
		root.place(positions)
	} else {
		c.unplaced = start // JSON that YAML's reader does not take
	}
	return root, true
}

// locate is the position of the byte at offset.
func locate(data []byte, offset int) position {
	before := data[:min(offset, len(data))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[line:]) + 1}
}
