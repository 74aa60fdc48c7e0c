package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Page chooses rows of a table by some columns, in the order of others, for readers that take all tables in the same way.
type Page struct {
	Table string
	// Where are conditions that all rows meet.
	Where []Equal
	// Columns are the columns to be read.
	Columns []string
	// Order are columns that together differ in all rows that Where chooses.
	Order []string
	// After is the position of the last row of the previous page; nil for the first page.
	After []string
	Limit int
}

// Equal is the condition that a column has a value.
type Equal struct{ Column, Value string }

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
	sql, args, err := p.Statement(types)
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

// ReadNext reads the least value of a text column that is greater than another, among the rows that meet conditions. It is
// empty if there is none.
func (db *DB) ReadNext(ctx context.Context, table, column, after string, where []Equal) (next string, err error) {
	condition, args := conditions(where)
	args = append(args, after)
	name := quoted(column)
	sql := fmt.Sprintf("SELECT coalesce(min(%s), '') FROM %s AS t WHERE %s AND %s > $%d", name, pgx.Identifier{table}.Sanitize(), condition, name, len(args))
	if err := db.QueryRow(ctx, sql, args...).Scan(&next); err != nil {
		return "", fmt.Errorf("read %s: %w", table, err)
	}
	return next, nil
}

func quoted(column string) string { return "t." + pgx.Identifier{column}.Sanitize() }

// conditions returns a condition of SQL, with its parameters.
func conditions(where []Equal) (sql string, args []any) {
	list := make([]string, len(where))
	for i, w := range where {
		list[i] = fmt.Sprintf("%s = $%d", quoted(w.Column), i+1)
		args = append(args, w.Value)
	}
	return strings.Join(list, " AND "), args
}

// Statement returns the statement that reads a page. Names come from the program, and are quoted; values are parameters.
func (p Page) Statement(types map[string]string) (sql string, args []any, err error) {
	var read, order, after []string
	for _, name := range p.Columns {
		column := quoted(name)
		switch types[name] {
		case "":
			return "", nil, fmt.Errorf("%s has no column %s", p.Table, name)
		case "json", "jsonb":
			column += "::text"
		}
		read = append(read, column)
	}
	condition, args := conditions(p.Where)
	args = append(args, p.Limit)
	limit := len(args)
	for i, name := range p.Order {
		if types[name] == "" {
			return "", nil, fmt.Errorf("%s has no column %s", p.Table, name)
		}
		read, order = append(read, quoted(name)+"::text"), append(order, quoted(name))
		if p.After != nil {
			args = append(args, p.After[i])
			after = append(after, fmt.Sprintf("$%d::text::%s", len(args), types[name]))
		}
	}
	if p.After != nil {
		condition += fmt.Sprintf(" AND (%s) > (%s)", strings.Join(order, ", "), strings.Join(after, ", "))
	}
	return fmt.Sprintf("SELECT %s FROM %s AS t WHERE %s ORDER BY %s LIMIT $%d", strings.Join(read, ", "),
		pgx.Identifier{p.Table}.Sanitize(), condition, strings.Join(order, ", "), limit), args, nil
}
