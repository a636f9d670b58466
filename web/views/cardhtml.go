package views

import (
	"context"
	"fmt"
	"strings"

	"github.com/a-h/templ"
)

// RenderCard is the part of an approval's page that the decision is about, between
// the tags that open and close it. The page has exactly these bytes.
func RenderCard(ctx context.Context, open string, v Approval, end string) (string, error) {
	return between(ctx, open, seen(v), end)
}

// RenderRow is the same of a row of a session's page.
func RenderRow(ctx context.Context, open string, row SessionRow, end string) (string, error) {
	return between(ctx, open, seenRow(row), end)
}

func between(ctx context.Context, open string, what templ.Component, end string) (string, error) {
	var b strings.Builder
	b.WriteString(open)
	left := maxNamed
	if err := what.Render(context.WithValue(ctx, sharedMarks{}, &left), &b); err != nil {
		return "", fmt.Errorf("render a card: %w", err)
	}
	b.WriteString(end)
	return b.String(), nil
}
