package views

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Plot is a picture of figures, with the table that it is made from.
type Plot struct {
	// ID is what its elements are named by.
	ID, Title string
	// Summary says in a sentence what is to be seen, and Note what to know of it; Note may be "".
	Summary, Note string
	// Bars or Columns are drawn: at most one of them has any.
	Bars    []Bar
	Columns *Columns
	// Legend names what the parts or lines are, in their order.
	Legend []string
	Table  PlotTable
}

// PlotTable has the figures.
type PlotTable struct {
	Head []string
	Rows [][]string
}

// Bar is a row of a plot. Parts are shares of the whole width, in their order.
type Bar struct {
	Label, Value string
	Parts        []float64
	// Few says that it is made of too few to say anything.
	Few bool
}

// Columns are figures in order of time.
type Columns struct {
	Days []time.Time
	// Stacks has the height of each column, Lines those of the points of each line; a
	// negative one is none. Few says which are of too few to say anything.
	Stack []float64
	Lines [][]float64
	Few   []bool
	// Words writes a height.
	Words func(float64) string
	// Steps are the heights of which the axis has one; nil takes 1, 2 and 5.
	Steps []float64
}

// Measures of plots, in units of their pictures; a unit is about a pixel on a phone.
const (
	plotWidth  = 360.0
	barPitch   = 36.0
	plotLeft   = 52.0
	plotTop    = 10.0
	plotHeight = 150.0
)

func num(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// barsHeight is how high the picture of bars is.
func barsHeight(bars []Bar) float64 { return barPitch * float64(len(bars)) }

// barPart is a rectangle.
type barPart struct {
	class string
	x, w  float64
}

// parts are the parts of a bar side by side.
func (b Bar) parts() []barPart {
	var parts []barPart
	x := 0.0
	for i, share := range b.Parts {
		w := plotWidth * min(max(share, 0), 1)
		class := "part" + strconv.Itoa(i)
		if b.Few {
			class += " few"
		}
		if share > 0 {
			parts = append(parts, barPart{class, x, max(w, 2)})
		}
		x += w
	}
	return parts
}

// short cuts a label so that it fits beside a value.
func short(label string) string {
	const most = 34
	if r := []rune(label); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return label
}

// top is the height at which the axis ends: the first step that is not below any figure.
func (c Columns) top() float64 {
	most := 0.0
	for _, line := range append([][]float64{c.Stack}, c.Lines...) {
		for _, f := range line {
			most = max(most, f)
		}
	}
	for _, step := range c.Steps {
		if step >= most {
			return step
		}
	}
	base := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*base >= most {
			return factor * base
		}
	}
	return most
}

// tick is a line across the plot with what it stands for.
type tick struct {
	y     float64
	words string
}

func (c Columns) ticks() []tick {
	var ticks []tick
	for _, part := range []float64{0, 0.5, 1} {
		height := part * c.top()
		words := c.Words(height)
		if part == 0.5 && c.Steps == nil && height != math.Trunc(height) {
			words = ""
		}
		ticks = append(ticks, tick{c.y(height), words})
	}
	return ticks
}

func (c Columns) y(height float64) float64 {
	return plotTop + plotHeight - plotHeight*height/c.top()
}

// columnWidth is how wide a column is with the space beside it.
func (c Columns) columnWidth() float64 { return (plotWidth - plotLeft) / float64(max(len(c.Days), 1)) }

func (c Columns) x(i int) float64 { return plotLeft + c.columnWidth()*(float64(i)+0.5) }

// path is a line from point to point. Where a day has no figure, the line has a gap.
func (c Columns) path(line []float64) string {
	var b strings.Builder
	pen := "M"
	for i, f := range line {
		if f < 0 {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", pen, num(c.x(i)), num(c.y(f)))
		pen = "L"
	}
	return b.String()
}

// labels are the days that are named below a plot: the first, the last, and one between
// them where there is room.
func (c Columns) labels() []int {
	switch n := len(c.Days); {
	case n == 0:
		return nil
	case n == 1:
		return []int{0}
	case n < 5:
		return []int{0, n - 1}
	default:
		return []int{0, n / 2, n - 1}
	}
}

// anchor keeps the first and the last label inside of the picture.
func (c Columns) anchor(i int) string {
	switch {
	case len(c.Days) == 1:
		return "middle"
	case i == 0:
		return "start"
	case i == len(c.Days)-1:
		return "end"
	}
	return "middle"
}

func dayWords(t time.Time) string { return t.UTC().Format("2 Jan") }

// DurationSteps are heights for an axis of times, in seconds.
var DurationSteps = []float64{60, 300, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 86400, 2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400, 30 * 86400}
