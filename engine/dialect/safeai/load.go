package safeai

import (
	"holdpoint/engine/canon"
	"holdpoint/engine/source"
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
// these are all that the file has, in the order of the file. Of a file that
// package source does not take they are those that it finds.
func Load(data []byte, file string) (*Set, []Problem) {
	c := compiler{problems: problems{file: file}, strict: true}
	root, wrong := source.Read(data, source.Options{})
	for _, p := range wrong {
		code := Syntax
		if p.Code == canon.DuplicateKey || p.Code == canon.CaseVariantKey {
			code = DuplicateKey
		}
		c.add(source.Position{Line: p.Line, Column: p.Column}, p.Path, code, p.Message, p.Hint)
	}
	if len(wrong) > 0 {
		return nil, c.sorted()
	}
	return c.document(root), c.sorted()
}
