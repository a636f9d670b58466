package auditlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
)

// PartialExport is a file with the beginning of an export.
type PartialExport interface {
	io.ReadSeeker
	Truncate(size int64) error
}

// Resume finds where an export was cut off, drops a line that was cut, and has the
// request go on from there. It returns how many events the file has already.
func Resume(f PartialExport, r *ExportRequest) (former int64, err error) {
	if r.Format != JSONL {
		return 0, errors.New("only jsonl can be gone on with: the other formats do not say of which checkpoint they are")
	}
	lines := bufio.NewReaderSize(f, 1<<16)
	var whole int64 // bytes
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what is left has no end: it is written again
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			if err := resumeHeader(line, r); err != nil {
				return 0, err
			}
		} else {
			var e struct {
				Seq       int64  `json:"seq"`
				Holdpoint string `json:"holdpoint"`
			}
			err := json.Unmarshal(line, &e)
			if err == nil && e.Holdpoint == "end" {
				break // all was there but the record of it: the end is written again
			}
			if err != nil || e.Seq <= r.Filter.After {
				return 0, fmt.Errorf("line %d is no event: it cannot be gone on with", n+1)
			}
			r.Filter.After = e.Seq
			former++
		}
		whole += int64(len(line))
	}
	if r.Size == 0 {
		return 0, errors.New("it has no header yet: remove it and begin again")
	}
	if former == 0 {
		whole = 0 // only the header is there: it is written again
	}
	if err := f.Truncate(whole); err != nil {
		return 0, err
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return 0, err
	}
	r.Before = former
	return former, nil
}

// resumeHeader takes over the checkpoint of an export that was cut off, which has
// to be of the same filter.
func resumeHeader(line []byte, r *ExportRequest) error {
	v, err := canon.Parse(bytes.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("its first line cannot be read: %w", err)
	}
	h, err := audit.ParseHeader(v)
	if err != nil {
		return err
	}
	if h.Filter != headerFilter(r.Filter) {
		return fmt.Errorf("it was begun with another filter: %s", h.Filter.JSON())
	}
	text, _, _ := strings.Cut(h.Checkpoint, "\n\n")
	c, err := audit.ParseCheckpoint(text + "\n")
	if err != nil {
		return err
	}
	r.Size = c.Size
	return nil
}
