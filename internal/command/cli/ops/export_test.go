package ops

import (
	"net/http"
	"reflect"

	"github.com/stagedoor/stagedoor/internal/base/billing"
)

// Row is a command as the test of the tables needs it.
type Row struct {
	Use, Operation, Method, Path, List, Intact, Data string
	Params                                           []Param
	Fields, Columns, Texts                           []string
	Body                                             map[string]any
}

// Param is a parameter of a command.
type Param struct {
	Name, To string
	Values   []string
}

// Rows returns all commands but login and logout, which change only this machine.
func Rows() []Row {
	var rows []Row
	for _, c := range commands {
		r := Row{Use: c.use, Operation: c.operation, Method: c.method, Path: c.path, List: c.list, Intact: c.intact, Data: c.data, Body: c.body}
		for _, p := range c.params {
			r.Params = append(r.Params, Param{p.name, p.to, p.values})
		}
		for _, f := range columnsOf(c.fields) {
			r.Fields = append(r.Fields, f.path)
		}
		for _, col := range columnsOf(c.columns) {
			r.Columns = append(r.Columns, col.path)
		}
		for _, text := range []string{c.done, c.note} {
			for _, name := range placeholder.FindAllString(text, -1) {
				r.Texts = append(r.Texts, name[1:len(name)-1])
			}
		}
		rows = append(rows, r)
	}
	export := Row{Use: "usage", Operation: "listUsageDays", Method: http.MethodGet, Path: usagePath, List: "days"}
	for _, to := range usageSends {
		export.Params = append(export.Params, Param{Name: to, To: to})
	}
	for _, member := range reflect.VisibleFields(reflect.TypeFor[billing.UsageDay]()) {
		export.Columns = append(export.Columns, member.Tag.Get("json"))
	}
	return append(rows, export)
}
