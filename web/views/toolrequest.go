package views

import "time"

// ToolRequest is a tool execution request, as it was written.
type ToolRequest struct {
	// Invalid says that the document cannot be read field by field any more.
	Invalid                bool
	RequestID              string
	CreatedAt              time.Time
	Drafted                string // by whom, in words
	Purpose                string
	Command, Program       string
	Language               string
	Network                bool
	Hosts                  []string
	NetworkRationale       string
	CPU, Memory, Time      string
	Inputs                 []ToolFile
	Outputs                []ToolFile
	Constraints            []string
	Risk, Sensitivity, Why string
	// Document is the whole of it, line by line.
	Document Code
}

// ToolFile is a file that the run reads, with its hash, or writes, with what it is.
type ToolFile struct{ Name, Note string }
