package orgexport

// Exported describes a table for tests.
type Exported struct {
	Name, Kind, Org string
	Columns         []string
	Withheld        map[string]string
}

// Tables returns the tables that are exported.
func Tables() (list []Exported) {
	for _, t := range tables {
		column := t.org
		if column == "" {
			column = "org_id"
		}
		list = append(list, Exported{t.name, t.kind, column, t.columns, t.withheld})
	}
	return list
}
