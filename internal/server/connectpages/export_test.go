package connectpages

import "github.com/stagedoor/stagedoor/internal/accounts/connect/link"

// Contrast is WCAG's ratio of two colours.
func Contrast(a, b string) float64 {
	x, _ := parseColour(a)
	y, _ := parseColour(b)
	return contrast(x, y)
}

// Style is an org's style sheet.
func Style(p link.Page) string { return string(style(p)) }
