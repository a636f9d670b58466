package rules

import (
	"fmt"
	"regexp"
	"strings"
)

// place is what a line of a mistake begins with: "file:line:column: ", and which rule it is
// in. What is behind it is the mistake itself.
var place = regexp.MustCompile(`^(?:.*?:(\d+):\d+: )?(?:rule "(?:[^"\\]|\\.)*": )?`)

// named is how many other lines of a file a mistake names.
const named = 5

// onceEach is a text with a mistake in each line that says each mistake once: where it is
// first, and then in which other lines of the file.
func onceEach(text string) string {
	var order []string
	first, more := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := place.FindStringSubmatch(line)
		mistake := line[len(at[0]):]
		if _, known := first[mistake]; !known {
			order, first[mistake] = append(order, mistake), line
		} else if at[1] != "" {
			more[mistake] = append(more[mistake], at[1])
		}
	}
	for i, mistake := range order {
		order[i] = first[mistake]
		if others := more[mistake]; len(others) > 0 {
			shown := strings.Join(others[:min(len(others), named)], ", ")
			if len(others) > named {
				shown += ", …"
			}
			order[i] += fmt.Sprintf(" – and %d times more, in line %s", len(others), shown)
		}
	}
	return strings.Join(order, "\n")
}
