package orgexport

import "github.com/stagedoor/stagedoor/internal/engine/postgres"

// Exported describes a table for tests.
type Exported struct {
	Name, Kind, Org string
	Columns         []string
	Withheld        map[string]string
}

// Tables returns the tables that are exported.
func Tables() (list []Exported) {
	for _, t := range tables {
		list = append(list, Exported{t.name, t.kind, t.rowsOf("")[0].Column, t.columns, t.withheld})
	}
	return list
}

// Pages returns the first page of every table that is exported.
func Pages() (list []postgres.Page) {
	for _, t := range tables {
		list = append(list, t.page("org_1", checkpoint{Group: "acct_1"}))
	}
	return append(list, sourcesPage("org_1", nil))
}
