package main

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// markdown is a table of all figures, ratios first.
func markdown(now run, before map[string]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks of %s\n\n%s\n%s\n\n", now.Commit, now.At.Format("2006-01-02 15:04 UTC"), now.Machine)
	for _, part := range []struct {
		title  string
		ratios bool
	}{{"Ratios, measured within one run", true}, {"Figures of this machine", false}} {
		fmt.Fprintf(&b, "| %s | now | before | now / before |\n|---|---:|---:|---:|\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(now.Figures)) {
			if ratio(name) != part.ratios {
				continue
			}
			had, change := "", ""
			if was, ok := before[name]; ok {
				had = number(was)
				if was != 0 {
					change = number(now.Figures[name]/was) + "×"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, number(now.Figures[name]), had, change)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// number has three digits that count.
func number(f float64) string {
	if f >= 1000 || f <= -1000 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// Sizes of the picture, in its own units.
const (
	rowHeight = 34
	barsFrom  = 300
	barsWide  = 420
)

// picture is an SVG with a bar for each ratio, and a thin one for what it was before.
func picture(now run, before map[string]float64) string {
	var names []string
	most := 1.0
	for _, name := range slices.Sorted(maps.Keys(now.Figures)) {
		if ratio(name) {
			names = append(names, name)
			most = max(most, now.Figures[name], before[name])
		}
	}
	var b strings.Builder
	height := 60 + rowHeight*len(names)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 %d" role="img" aria-label="Ratios of %s" font-family="sans-serif" font-size="13">`+"\n", height, escaped(now.Commit))
	fmt.Fprintf(&b, `<rect width="800" height="%d" fill="#fff"/><text x="16" y="24" font-weight="bold">Ratios of %s</text><text x="16" y="42" fill="#555">%s; the thin bar is the run before</text>`+"\n", height, escaped(now.Commit), escaped(now.Machine))
	for i, name := range names {
		y := 58 + rowHeight*i
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, barsFrom-10, y+15, escaped(name))
		bar := func(value float64, top, thick int, fill string) {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, barsFrom, top, max(0, value)/most*barsWide, thick, fill)
		}
		bar(now.Figures[name], y, 16, "#3949c6")
		if was, ok := before[name]; ok {
			bar(was, y+18, 4, "#9aa0a6")
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", barsFrom+8+max(0, now.Figures[name])/most*barsWide, y+13, number(now.Figures[name]))
	}
	fmt.Fprintf(&b, `<line x1="%[1]d" y1="50" x2="%[1]d" y2="%[2]d" stroke="#333"/>`+"\n</svg>\n", barsFrom, height-8)
	return b.String()
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder has no errors
	return b.String()
}
