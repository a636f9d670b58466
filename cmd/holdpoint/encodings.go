package main

import (
	"bytes"
	"encoding/csv"

	"holdpoint/engine"
	"holdpoint/engine/ocsf"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/auditlog"
)

// product is who OCSF events say they come from.
var product = ocsf.Product{Name: "Holdpoint", VendorName: "Holdpoint"}

// encodings are the formats of exports beside the one that proves itself.
func encodings() (map[string]auditlog.Encoding, error) {
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
	return map[string]auditlog.Encoding{
		"csv": {Header: header, Event: func(e engine.Event) ([]byte, error) { return row(spreadsheet.Row(e)) }},
		"ocsf": {Event: func(e engine.Event) ([]byte, error) {
			line, err := ocsf.Encode(e, product)
			return append(line, '\n'), err
		}},
	}, nil
}
