package views

import "time"

// Statistics is the page of plots.
type Statistics struct {
	Frame
	Form         ReportForm
	Ready        bool
	Since, Until time.Time
	Plots        []Plot
}
