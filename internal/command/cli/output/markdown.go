package output

import (
	"regexp"
	"strings"

	"charm.land/lipgloss/v2"
)

var (
	link   = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)
	code   = regexp.MustCompile("`([^`]+)`")
	strong = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// Markdown lays out a page for a terminal. It supports what the problem pages use: headings, paragraphs, lists, code,
// links and strong emphasis.
func Markdown(p *Printer, page string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			b.WriteString("    " + p.Style(Accent, line) + "\n")
		case strings.HasPrefix(line, "#"):
			b.WriteString(p.Style(Strong, strings.TrimLeft(line, "# ")) + "\n")
		case strings.HasPrefix(line, "- "):
			b.WriteString(p.paragraph("  • ", "    ", line[2:]))
		case line == "":
			b.WriteString("\n")
		default:
			b.WriteString(p.paragraph("  ", "  ", line))
		}
	}
	return b.String()
}

// paragraph wraps a text at words, to at most 100 columns. The first line starts with first, the others with then.
func (p *Printer) paragraph(first, then, text string) string {
	width := 100
	if p.Width > 20 {
		width = min(width, p.Width)
	}
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if _, slug, ok := strings.Cut(parts[2], "/problems/"); ok {
			return parts[1] + ": stagedoor explain " + slug
		}
		return parts[1] + " (" + parts[2] + ")"
	})
	text = strong.ReplaceAllString(text, "$1")
	var lines []string
	line := first
	for _, word := range strings.Fields(text) {
		if lipgloss.Width(line)+lipgloss.Width(word) >= width && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, " "))
			line = then
		}
		line += word + " "
	}
	lines = append(lines, strings.TrimRight(line, " "))
	whole := strings.Join(lines, "\n") + "\n"
	// Style after wrapping, so that escape sequences do not count as width. Code that was split across lines stays plain.
	return code.ReplaceAllStringFunc(whole, func(found string) string { return p.Style(Accent, strings.Trim(found, "`")) })
}
