package out

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

// Markdown lays a page out for a terminal. It knows what our own pages use: headings, paragraphs, lists, code, links and emphasis.
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

// paragraph breaks a line at words, first and then under the given beginnings.
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
	// Styled after breaking, so that widths are those of the text; code does not break across a line end with its style.
	return code.ReplaceAllStringFunc(whole, func(found string) string { return p.Style(Accent, strings.Trim(found, "`")) })
}
