package connectpages

import "github.com/stagedoor/stagedoor/internal/accounts/connect/link"

// Contrast is contrast, for tests.
func Contrast(a, b string) float64 {
	x, _ := parseColour(a)
	y, _ := parseColour(b)
	return contrast(x, y)
}

// Style is style, for tests.
func Style(p link.Page) string { return string(style(p)) }

// CleanSite is cleanSite, for tests.
func CleanSite(text, check string) (string, bool) { return cleanSite(text, check) }

// BrowserKind is browserKind, for tests.
func BrowserKind(agent string) link.Browser { return browserKind(agent) }
