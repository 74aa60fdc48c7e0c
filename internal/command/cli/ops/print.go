package ops

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// Columns and fields are written as "title=path.to.member"; without a path, the title is the path. A > before the title
// means a number, a ~ after it a text that may be shortened (see output.Columns).

type column struct {
	output.Column

	path string
}

func columnsOf(specs []string) []column {
	columns := make([]column, len(specs))
	for i, spec := range specs {
		title, path, found := strings.Cut(spec, "=")
		columns[i].Column = output.Columns(title)[0]
		if columns[i].path = path; !found {
			columns[i].path = columns[i].Name
		}
	}
	return columns
}

// scope has the objects in which a path is looked up. The last one that has the first member of the path is used.
type scope []map[string]any

func decode(body []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return nil, &core.Fault{Code: core.ExitOther, Text: "the response is no JSON object", Hint: "Is this the address of the operators' listener?", Err: err}
	}
	return doc, nil
}

// rowsOf returns a scope for each item of the list at a path. If the path leads through a list, items are in the scope of
// theirs: regions.proxies are the proxies of all regions.
func rowsOf(doc map[string]any, path string) []scope {
	rows := []scope{{doc}}
	for step := range strings.SplitSeq(path, ".") {
		var inner []scope
		for _, row := range rows {
			items, _ := row[len(row)-1][step].([]any)
			for _, item := range items {
				if object, ok := item.(map[string]any); ok {
					inner = append(inner, append(row[:len(row):len(row)], object))
				}
			}
		}
		rows = inner
	}
	return rows
}

// at returns the value at a path; nil if there is none.
func (s scope) at(path string) any {
	first, rest, nested := strings.Cut(path, ".")
	for i := len(s) - 1; i >= 0; i-- {
		value, found := s[i][first]
		if !found {
			continue
		}
		for nested {
			object, _ := value.(map[string]any)
			first, rest, nested = strings.Cut(rest, ".")
			value = object[first]
		}
		return value
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{[\w.-]+\}`)

// expand replaces {path} by the value at the path.
func (s scope) expand(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string { return s.plain(strings.Trim(name, "{}")) })
}

// plain returns the value at a path as a text.
func (s scope) plain(path string) string {
	switch value := s.at(path).(type) {
	case string:
		return value
	default:
		return cell(nil, value, false).Text
	}
}

func (c command) print(app *core.App, at scope) {
	doc := at[len(at)-1]
	if c.done != "" {
		app.Out.Done("%s", at.expand(c.done))
	}
	if c.data != "" {
		app.Out.Data("%s", at.plain(c.data))
	}
	fields := columnsOf(c.fields)
	if len(fields) > 0 {
		if first, _, _ := strings.Cut(fields[0].path, "."); doc[first] == nil {
			app.Out.Say("%s", c.empty)
			return
		}
		printFields(app, at, fields)
	}
	if c.list == "" {
		return
	}
	columns := columnsOf(c.columns)
	table := output.Table{Empty: c.empty}
	for _, col := range columns {
		table.Columns = append(table.Columns, col.Column)
	}
	for _, row := range rowsOf(doc, c.list) {
		cells := make([]output.Cell, len(columns))
		for i, col := range columns {
			cells[i] = col.cell(app, row)
		}
		table.Rows = append(table.Rows, cells)
	}
	if len(fields) > 0 && len(table.Rows) > 0 && app.Out.TTY {
		app.Out.Data("")
	}
	app.Out.Table(table)
	if c.note != "" {
		app.Out.Say("%s", at.expand(c.note))
	}
	if next, ok := doc["nextCursor"].(string); ok {
		app.Out.Say("There are more: add --cursor=%s", core.Quote(next))
	}
}

func printFields(app *core.App, at scope, columns []column) {
	fields := make([]output.Field, len(columns))
	for i, col := range columns {
		fields[i] = output.Field{Name: col.Name, Cell: col.cell(app, at)}
	}
	app.Out.Fields(fields)
}

func (c column) cell(app *core.App, row scope) output.Cell {
	shown := cell(app.Out, row.at(c.path), c.Right)
	if c.path == "state" || strings.HasSuffix(c.path, ".state") {
		shown.Tone = output.StateTone(shown.Text)
	}
	return shown
}

// cell returns a cell for a value of any type. Times are relative on a terminal, unless o is nil. Amounts have their digits
// grouped; -1 is a limit that does not exist.
func cell(o *output.Printer, value any, amount bool) output.Cell {
	switch v := value.(type) {
	case nil:
		return output.Cell{Text: "–", Tone: output.Faint}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil && o != nil {
			return o.When(at)
		}
		return output.Text(v)
	case bool:
		if v {
			return output.Cell{Text: "yes", Raw: "true"}
		}
		return output.Cell{Text: "no", Raw: "false", Tone: output.Faint}
	case json.Number:
		n, err := v.Int64()
		switch {
		case err != nil || !amount:
			return output.Text(v.String())
		case n < 0:
			return output.Cell{Text: "no limit", Raw: strconv.FormatInt(n, 10)}
		}
		return output.Number(n)
	case []any:
		words := make([]string, len(v))
		for i, one := range v {
			words[i] = cell(o, one, false).Text
		}
		return output.Text(strings.Join(words, " "))
	case map[string]any:
		return mapCell(v)
	}
	return output.Cell{}
}

// mapCell shows numbers with their names, and of other members only the names; a pipe gets the JSON.
func mapCell(members map[string]any) output.Cell {
	var words []string
	for _, name := range output.SortedKeys(members) {
		if n, ok := members[name].(json.Number); ok {
			name += " " + n.String()
		}
		words = append(words, name)
	}
	var raw strings.Builder
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil || len(words) == 0 {
		return output.Cell{Text: "–", Tone: output.Faint}
	}
	return output.Cell{Text: strings.Join(words, ", "), Raw: strings.TrimSpace(raw.String())}
}
