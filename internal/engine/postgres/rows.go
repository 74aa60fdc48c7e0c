package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Page chooses rows of a table by one column, in the order of others, for readers that take all tables in the same way.
type Page struct {
	Table string
	// Column has Value in all rows.
	Column, Value string
	// Columns are the columns to be read.
	Columns []string
	// Order are columns that together differ in all rows that Value chooses.
	Order []string
	// After is the position of the last row of the previous page; nil for the first page.
	After []string
	Limit int
}

// PageRow is a row of a page.
type PageRow struct {
	// Values are those of Page.Columns. A value of JSON is its text, as a string.
	Values []any
	// Position is where a page after this row starts.
	Position []string
}

// Columns returns the columns of a table and their types.
func (db *DB) Columns(ctx context.Context, table string) (types map[string]string, err error) {
	rows, err := db.pool.Query(ctx, `
		SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, table)
	if err != nil {
		return nil, fmt.Errorf("list the columns of %s: %w", table, err)
	}
	types = map[string]string{}
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the columns of %s: %w", table, err)
	}
	return types, nil
}

// ReadPage reads a page. types are those of Columns.
func (db *DB) ReadPage(ctx context.Context, p Page, types map[string]string) ([]PageRow, error) {
	sql, args, err := p.query(types)
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Table, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (PageRow, error) {
		values, err := row.Values()
		if err != nil {
			return PageRow{}, err
		}
		one := PageRow{Values: values[:len(p.Columns)]}
		for _, at := range values[len(p.Columns):] {
			text, ok := at.(string)
			if !ok {
				return PageRow{}, errors.New("a column of the order is null")
			}
			one.Position = append(one.Position, text)
		}
		return one, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Table, err)
	}
	return list, nil
}

// query returns the statement of a page. Names come from the program, and are quoted; values are parameters.
func (p Page) query(types map[string]string) (sql string, args []any, err error) {
	quote := func(name string) string { return "t." + pgx.Identifier{name}.Sanitize() }
	var read, order, after []string
	for _, name := range p.Columns {
		column := quote(name)
		switch types[name] {
		case "":
			return "", nil, fmt.Errorf("%s has no column %s", p.Table, name)
		case "json", "jsonb":
			column += "::text"
		}
		read = append(read, column)
	}
	args = []any{p.Value, p.Limit}
	for i, name := range p.Order {
		if types[name] == "" {
			return "", nil, fmt.Errorf("%s has no column %s", p.Table, name)
		}
		read, order = append(read, quote(name)+"::text"), append(order, quote(name))
		if p.After != nil {
			args = append(args, p.After[i])
			after = append(after, fmt.Sprintf("$%d::text::%s", len(args), types[name]))
		}
	}
	condition := quote(p.Column) + " = $1"
	if p.After != nil {
		condition += fmt.Sprintf(" AND (%s) > (%s)", strings.Join(order, ", "), strings.Join(after, ", "))
	}
	return fmt.Sprintf("SELECT %s FROM %s AS t WHERE %s ORDER BY %s LIMIT $2", strings.Join(read, ", "),
		pgx.Identifier{p.Table}.Sanitize(), condition, strings.Join(order, ", ")), args, nil
}
