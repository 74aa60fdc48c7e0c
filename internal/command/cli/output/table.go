package output

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Cell is a value: Text for a terminal, Raw for a pipe. An empty Raw means Text, except that the text "–" (no value) is
// empty in a pipe.
type Cell struct {
	Text, Raw string
	Tone      Tone
}

// Text returns a cell that is the same on a terminal and in a pipe.
func Text(s string) Cell { return Cell{Text: s} }

// Toned returns a cell in a tone.
func Toned(t Tone, s string) Cell { return Cell{Text: s, Tone: t} }

// State returns a cell for a state, in the state's tone.
func State(s string) Cell { return Cell{Text: s, Tone: StateTone(s)} }

// Status returns a cell for an HTTP status; 0 means none.
func Status(n int64) Cell {
	if n == 0 {
		return Cell{Text: "–", Raw: "0", Tone: Faint}
	}
	return Cell{Text: strconv.FormatInt(n, 10), Tone: StatusTone(n)}
}

// Number returns a cell for a number, grouped on a terminal.
func Number(n int64) Cell { return Cell{Text: Group(n), Raw: strconv.FormatInt(n, 10)} }

// When returns a cell for a time: relative on a terminal, RFC 3339 in a pipe. The zero time is no value.
func (p *Printer) When(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "–", Raw: "", Tone: Faint}
	}
	return Cell{Text: p.Ago(t), Raw: t.UTC().Format(time.RFC3339)}
}

// Column is a column of a table. A Flex column may be shortened to fit the terminal; a Right column is right-aligned.
type Column struct {
	Name        string
	Flex, Right bool
}

// Table is rows of data. Empty is the message on standard error if there are none.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Empty   string
}

// Columns returns columns with these names. A trailing ~ means Flex, a leading > means Right.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Right = strings.HasPrefix(name, ">")
		columns[i].Flex = strings.HasSuffix(name, "~")
		columns[i].Name = strings.Trim(name, ">~")
	}
	return columns
}

// Table writes a table to standard output: aligned with a header on a terminal, tab-separated without one in a pipe.
func (p *Printer) Table(t Table) {
	if len(t.Rows) == 0 {
		if t.Empty != "" {
			p.Say("%s", t.Empty)
		}
		return
	}
	if !p.TTY {
		for _, row := range t.Rows {
			p.write(p.Stdout, tabbed(row))
		}
		return
	}
	widths := p.columnWidths(t)
	head := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = Toned(Faint, strings.ToUpper(c.Name))
	}
	lines := p.aligned(t.Columns, widths, head)
	for _, row := range t.Rows {
		lines += p.aligned(t.Columns, widths, row)
	}
	p.write(p.Stdout, lines)
}

func tabbed(row []Cell) string {
	values := make([]string, len(row))
	for i, c := range row {
		values[i] = c.raw()
	}
	return strings.Join(values, "\t") + "\n"
}

func (c Cell) raw() string {
	if c.Raw != "" || c.Text == "–" {
		return OneLine(c.Raw)
	}
	return OneLine(c.Text)
}

// gap is the number of spaces between columns.
const gap = 2

// columnWidths makes each column as wide as its widest cell, then narrows the widest Flex column, but not below 8,
// until the table fits the terminal.
func (p *Printer) columnWidths(t Table) []int {
	widths := make([]int, len(t.Columns))
	total := gap * (len(widths) - 1)
	for i, c := range t.Columns {
		widths[i] = lipgloss.Width(c.Name)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], lipgloss.Width(OneLine(row[i].Text)))
		}
		total += widths[i]
	}
	for p.Width > 0 && total > p.Width {
		widest := -1
		for i, c := range t.Columns {
			if c.Flex && widths[i] > 8 && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

func (p *Printer) aligned(columns []Column, widths []int, row []Cell) string {
	var line strings.Builder
	for i, c := range row {
		text := Cut(OneLine(c.Text), widths[i])
		pad := strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(text)))
		text = p.Style(c.Tone, text)
		if columns[i].Right {
			text = pad + text
		} else {
			text += pad
		}
		line.WriteString(text)
		line.WriteString(strings.Repeat(" ", gap))
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// Cut shortens a text to a number of terminal columns and ends it with an ellipsis if it was longer.
func Cut(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	for lipgloss.Width(text) > width-1 && text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text + "…"
}

// Field is a named value.
type Field struct {
	Name string
	Cell Cell
}

// Fields writes named values, one per line: in two columns on a terminal, tab-separated in a pipe.
func (p *Printer) Fields(fields []Field) {
	if !p.TTY {
		for _, f := range fields {
			p.write(p.Stdout, tabbed([]Cell{Text(f.Name), f.Cell}))
		}
		return
	}
	wide := 0
	for _, f := range fields {
		wide = max(wide, lipgloss.Width(f.Name))
	}
	var lines strings.Builder
	for _, f := range fields {
		value := f.Cell.Text
		if value == "" {
			value, f.Cell.Tone = "–", Faint
		}
		name := f.Name + strings.Repeat(" ", wide-lipgloss.Width(f.Name)+gap)
		lines.WriteString(p.Style(Faint, name) + p.Style(f.Cell.Tone, OneLine(value)) + "\n")
	}
	p.write(p.Stdout, lines.String())
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
