package archtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type table struct {
	// owner is the path below internal/ of the package whose queries may name the table. Packages below it may, too.
	owner string
	// tenant means that the table has a column org_id.
	tenant bool
}

var (
	createTable = regexp.MustCompile(`(?is)CREATE TABLE (?:IF NOT EXISTS )?(?:\w+\.)?(\w+) \((.*?)\n\);`)
	queryMark   = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+$`)
	tenantMark  = regexp.MustCompile(`(?m)^-- tenant: \S.*$`)
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	sqlAlias    = regexp.MustCompile(`\bAS \w+`) // a new name hides no table: the old one is still in the query
	word        = regexp.MustCompile(`\w+`)
)

// ownersFile lists the owner of each table. The owners are not in the migrations, because released migrations never
// change but packages move.
const ownersFile = "migrations/owners.txt"

// checkSQL checks that every table has an owner, that queries name only tables of their package, and that queries on
// tenant tables filter by organisation.
func checkSQL(root string) ([]string, error) {
	tables, faults, err := readTables(root)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case d.Name() != "queries.sql":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		faults = append(faults, checkQueries(filepath.ToSlash(name), string(text), tables)...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	return faults, nil
}

// readTables reads the tables of all migrations and their owners. It finds only CREATE TABLE statements that end with a
// line ");".
func readTables(root string) (map[string]table, []string, error) {
	owners, faults, err := readOwners(root)
	if err != nil {
		return nil, nil, err
	}
	tables := map[string]table{}
	err = filepath.WalkDir(filepath.Join(root, "migrations"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".sql") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			owner := owners[m[1]]
			if owner == "" {
				faults = append(faults, fmt.Sprintf("%s does not list the table %s", ownersFile, m[1]))
				continue
			}
			tables[m[1]] = table{owner: owner, tenant: strings.Contains(m[2], "org_id ")}
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	if len(tables) == 0 {
		return nil, nil, errors.New("no tables found in migrations/")
	}
	for name := range owners {
		if _, ok := tables[name]; !ok {
			faults = append(faults, fmt.Sprintf("%s lists %s, which is not a table", ownersFile, name))
		}
	}
	return tables, faults, nil
}

// readOwners reads ownersFile, which has a table and a package on each line.
func readOwners(root string) (owners map[string]string, faults []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(ownersFile)))
	if err != nil {
		return nil, nil, err
	}
	owners = map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
			continue
		case len(fields) != 2:
			return nil, nil, fmt.Errorf("%s: %q is not a table and a package", ownersFile, line)
		}
		owners[fields[0]] = fields[1]
		dir := filepath.Join(root, "internal", filepath.FromSlash(fields[1]))
		if _, err := os.Stat(dir); err != nil {
			faults = append(faults, fmt.Sprintf("%s names the package %s, which does not exist", ownersFile, fields[1]))
		}
	}
	return owners, faults, nil
}

// checkQueries checks the queries of one package. It treats every word of a query except an alias as a possible table
// name, so a column must not have the name of another package's table.
func checkQueries(file, text string, tables map[string]table) []string {
	var faults []string
	path := strings.TrimSuffix(strings.TrimPrefix(file, "internal/"), "/queries.sql")
	marks := queryMark.FindAllStringSubmatchIndex(text, -1)
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name, body := text[m[2]:m[3]], text[m[1]:end]
		exempt := tenantMark.MatchString(body)
		sql := sqlAlias.ReplaceAllString(sqlComment.ReplaceAllString(body, ""), "")
		takesOrg := strings.Contains(sql, "@org_id")
		for _, w := range slices.Compact(slices.Sorted(slices.Values(word.FindAllString(sql, -1)))) {
			t, ok := tables[w]
			switch {
			case !ok:
			case path != t.owner && !strings.HasPrefix(path, t.owner+"/"):
				faults = append(faults, fmt.Sprintf("%s names the table %s, which %s owns", file, w, t.owner))
			case t.tenant && !takesOrg && !exempt:
				faults = append(faults, fmt.Sprintf("%s: query %s uses %s and does not filter by organisation", file, name, w))
			}
		}
	}
	return faults
}
