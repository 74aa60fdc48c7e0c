package out

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Cell is one value: Text for a person, Raw for a pipe. An empty Raw is the same as Text.
type Cell struct {
	Text, Raw string
	Tone      Tone
}

// Text is a cell that reads the same for all.
func Text(s string) Cell { return Cell{Text: s} }

// Toned is a cell in a tone.
func Toned(t Tone, s string) Cell { return Cell{Text: s, Tone: t} }

// State is a cell that holds a state.
func State(s string) Cell { return Cell{Text: s, Tone: StateTone(s)} }

// Status is a cell that holds an HTTP status; none if 0.
func Status(n int) Cell {
	if n == 0 {
		return Cell{Text: "–", Raw: "0", Tone: Faint}
	}
	return Cell{Text: strconv.Itoa(n), Tone: StatusTone(n)}
}

// Number is a cell that holds a number: grouped for a person.
func Number(n int64) Cell { return Cell{Text: Group(n), Raw: strconv.FormatInt(n, 10)} }

// When is a cell that holds a time: "2 min ago" for a person, RFC 3339 for a pipe, nothing for no time.
func (p *Printer) When(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "–", Raw: "", Tone: Faint}
	}
	return Cell{Text: p.Ago(t), Raw: t.UTC().Format(time.RFC3339)}
}

// Column is a column of a table. A Flex column may be cut to make the table fit a terminal.
type Column struct {
	Name        string
	Flex, Right bool
}

// Table is rows of data. Empty is said when there are none.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Empty   string
}

// Columns names columns; a name that ends in ~ is Flex, one that begins with > is Right.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Right = strings.HasPrefix(name, ">")
		columns[i].Flex = strings.HasSuffix(name, "~")
		columns[i].Name = strings.Trim(name, ">~")
	}
	return columns
}

// Table writes a table: aligned under a head for a person, tab-separated without one for a pipe.
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
	widths := p.fit(t)
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

const gap = 2

// fit finds the width of each column, and takes from the widest Flex columns what does not fit.
func (p *Printer) fit(t Table) []int {
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

// Cut shortens a text to a number of columns, and shows that it did.
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

// Field is a named value of one thing.
type Field struct {
	Name string
	Cell Cell
}

// Fields writes one thing: names and values in two columns for a person, tab-separated for a pipe.
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

// SortedKeys are the keys of a map in their order, for output that is the same each time.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
