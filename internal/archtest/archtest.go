// Package archtest judges the shape of the tree: who imports whom, that every package is placed and says what it is,
// that a table is touched only by its owner and only with its org, and that ARCHITECTURE.md draws what is there.
package archtest

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/stagedoor/stagedoor/"

// layer is a row of packages that import only what is below them.
type layer struct {
	name     string
	packages []string
}

// layers are listed from the bottom. A layer is a decision: a new package must be placed here.
var layers = []layer{
	{"words", []string{"id", "problem", "scope", "secret", "stamp"}},
	{"platform", []string{"clock", "postgres", "valkey", "bus", "eventlog", "kms", "egress", "telemetry", "sandboxctl", "qrcode", "cache", "pace"}},
	{"domain", []string{"org", "apikey", "limit", "usage", "audit", "fleet", "catalog", "upstream", "seal", "outbox", "account", "idempotency", "journal", "event", "lease", "member", "control"}},
	{"flows", []string{"connect", "health", "invoke", "transfer", "listen", "ingest", "stream", "webhook"}},
	{"faces", []string{"route", "api", "admin", "hosted", "dashboard", "docs", "sdkgen", "spa", "front"}},
	{"wiring", []string{"config", "app"}},
	{"checks", []string{"testenv", "archtest"}},
	{"commands", []string{"mcp", "cli"}},
}

// peers are the imports allowed within a layer.
var peers = map[string][]string{
	"org":         {"audit"},
	"apikey":      {"org", "audit", "outbox"},
	"limit":       {"org"},
	"member":      {"org", "audit", "apikey"},
	"upstream":    {"catalog"},
	"account":     {"org", "audit", "limit", "catalog", "upstream", "seal", "outbox"},
	"idempotency": {"seal"},
	"event":       {"catalog", "org"},
	"control":     {"audit"},
	"eventlog":    {"postgres"},
	"pace":        {"cache"},
	"api":         {"route"},
	"admin":       {"route", "spa"},
	"hosted":      {"front"},
	"dashboard":   {"route", "spa", "front"},
	"docs":        {"front"},
	"app":         {"config"},
	"cli":         {"mcp"},
}

// mains are the packages that hold what a command does.
var mains = map[string]string{"cmd/stagedoord": "app", "cmd/stagedoor": "cli", "cmd/sdkgen": "sdkgen"}

// pkg is what the check needs to know of one folder of Go files.
type pkg struct {
	dir      string
	imports  []string
	comments int
}

// Check lists everything that is wrong below a root, in words.
func Check(root string) ([]string, error) {
	packages, err := read(root)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, p := range packages {
		faults = append(faults, judge(p)...)
	}
	sql, err := checkSQL(root)
	if err != nil {
		return nil, err
	}
	drawing, err := checkDrawing(root)
	if err != nil {
		return nil, err
	}
	faults = slices.Concat(faults, sql, drawing, unused(packages))
	slices.Sort(faults)
	return faults, nil
}

// read parses imports and package comments of every package that is not a test, a test's data, or generated queries.
func read(root string) ([]*pkg, error) {
	found := map[string]*pkg{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "tools", "node_modules", "client", "examples"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if found[dir] == nil {
			found[dir] = &pkg{dir: dir}
		}
		return found[dir].add(file)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	var list []*pkg
	for _, p := range found {
		list = append(list, p)
	}
	return list, nil
}

func (p *pkg) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.ImportsOnly)
	if err != nil {
		return err
	}
	if parsed.Doc != nil {
		p.comments++
	}
	for _, i := range parsed.Imports {
		if name, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours && !slices.Contains(p.imports, name) {
			p.imports = append(p.imports, name)
		}
	}
	return nil
}

// judge checks one package.
func judge(p *pkg) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if strings.Contains(p.dir, "/internal/") {
		return nil // a package's own inner room, such as generated queries; the compiler keeps others out
	}
	switch {
	case p.comments == 0:
		fault("%s has no package comment", p.dir)
	case p.comments > 1:
		fault("%s has more than one package comment", p.dir)
	}
	name, internal := strings.CutPrefix(p.dir, "internal/")
	for _, imported := range p.imports {
		other, toInternal := strings.CutPrefix(imported, "internal/")
		switch {
		case !toInternal:
		case strings.HasPrefix(p.dir, "cmd/") && other != mains[p.dir]:
			fault("%s imports %s: a command imports the one package that does its work", p.dir, imported)
		case p.dir == "sandbox" || strings.HasPrefix(p.dir, "sandbox/"):
			fault("%s imports %s: the sandbox stands alone", p.dir, imported)
		case internal:
			faults = append(faults, judgeImport(name, other)...)
		}
	}
	if internal && place(name) < 0 {
		fault("%s is in no layer", p.dir)
	}
	return faults
}

// judgeImport checks one import between two internal packages.
func judgeImport(from, to string) []string {
	// A package and those below it, such as its test suite, are one room.
	from, _, _ = strings.Cut(from, "/")
	to, _, _ = strings.Cut(to, "/")
	if from == to {
		return nil
	}
	at, other := place(from), place(to)
	switch {
	case at < 0 || other < 0 || at > other:
		return nil // an unplaced package is a fault of its own
	case at < other:
		return []string{fmt.Sprintf("internal/%s imports internal/%s: %s may not import %s", from, to, layers[at].name, layers[other].name)}
	case !slices.Contains(peers[from], to):
		return []string{fmt.Sprintf("internal/%s imports internal/%s: a peer that is not listed", from, to)}
	}
	return nil
}

func place(name string) int {
	name, _, _ = strings.Cut(name, "/")
	return slices.IndexFunc(layers, func(l layer) bool { return slices.Contains(l.packages, name) })
}

// table is one of the database's.
type table struct {
	owner string
	// tenant means that its rows belong to an org.
	tenant bool
}

var (
	createTable = regexp.MustCompile(`(?is)((?:--[^\n]*\n)*)CREATE TABLE (?:IF NOT EXISTS )?(?:\w+\.)?(\w+) \((.*?)\n\);`)
	ownerMark   = regexp.MustCompile(`-- owner: (\w+)`)
	queryMark   = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+$`)
	tenantMark  = regexp.MustCompile(`(?m)^-- tenant: \S.*$`)
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	word        = regexp.MustCompile(`\w+`)
)

// checkSQL checks that tables have owners, and that queries keep to their package's tables and take the org.
func checkSQL(root string) ([]string, error) {
	tables, faults, err := readTables(root)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, pattern := range []string{"internal/*/queries.sql", "internal/*/*/queries.sql"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("find queries: %w", err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read queries: %w", err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, fmt.Errorf("read queries: %w", err)
		}
		name = filepath.ToSlash(name)
		// A room owns its tables as a whole, whichever of its packages asks.
		owner := strings.Split(name, "/")[1]
		faults = append(faults, checkQueries(name, owner, string(text), tables)...)
	}
	return faults, nil
}

func readTables(root string) (map[string]table, []string, error) {
	files, err := filepath.Glob(filepath.Join(root, "migrations", "*.sql"))
	if err != nil {
		return nil, nil, fmt.Errorf("find migrations: %w", err)
	}
	apart, err := filepath.Glob(filepath.Join(root, "migrations", "*", "*.sql"))
	if err != nil {
		return nil, nil, fmt.Errorf("find migrations: %w", err)
	}
	files = append(files, apart...)
	if len(files) == 0 {
		return nil, nil, errors.New("there are no migrations below " + root)
	}
	tables := map[string]table{}
	var faults []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read migration: %w", err)
		}
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			mark := ownerMark.FindStringSubmatch(m[1])
			if mark == nil {
				faults = append(faults, fmt.Sprintf("migrations/%s: table %s has no owner", filepath.Base(file), m[2]))
				continue
			}
			tables[m[2]] = table{owner: mark[1], tenant: strings.Contains(m[3], "org_id ")}
		}
	}
	return tables, faults, nil
}

// checkQueries judges the queries of one package.
func checkQueries(file, owner, text string, tables map[string]table) []string {
	var faults []string
	marks := queryMark.FindAllStringSubmatchIndex(text, -1)
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name, body := text[m[2]:m[3]], text[m[1]:end]
		exempt := tenantMark.MatchString(body)
		sql := sqlComment.ReplaceAllString(body, "")
		takesOrg := strings.Contains(sql, "@org_id")
		for _, w := range slices.Compact(slices.Sorted(slices.Values(word.FindAllString(sql, -1)))) {
			t, ok := tables[w]
			switch {
			case !ok:
			case t.owner != owner:
				faults = append(faults, fmt.Sprintf("%s names the table %s, which %s owns", file, w, t.owner))
			case t.tenant && !takesOrg && !exempt:
				faults = append(faults, fmt.Sprintf("%s: query %s touches %s and does not take the org", file, name, w))
			}
		}
	}
	return faults
}
