package auditlog

import (
	"bytes"
	"encoding/csv"

	"holdpoint/engine"
	"holdpoint/engine/ocsf"
	"holdpoint/engine/spreadsheet"
)

// Encodings are the formats of exports beside the one that proves itself.
func Encodings() (map[string]Encoding, error) {
	row := func(cells []string) ([]byte, error) {
		var line bytes.Buffer
		w := csv.NewWriter(&line)
		if err := spreadsheet.Write(w, cells); err != nil {
			return nil, err
		}
		w.Flush()
		return line.Bytes(), w.Error()
	}
	header, err := row(spreadsheet.Header())
	if err != nil {
		return nil, err
	}
	return map[string]Encoding{
		"csv": {Header: header, Event: func(e engine.Event) ([]byte, error) { return row(spreadsheet.Row(e)) }},
		"ocsf": {Event: func(e engine.Event) ([]byte, error) {
			line, err := ocsf.Encode(e, ocsf.Holdpoint)
			return append(line, '\n'), err
		}},
	}, nil
}
