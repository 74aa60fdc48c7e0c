// Package archtest checks the structure of the source tree: which package imports which, that every package is in a
// group and has exactly one package comment, that queries name only tables that their package owns, that queries on
// tenant tables filter by organisation, and that every event of the contract has a sender. groups.go has the rules for
// imports, code.go those for what a package may contain, sql.go those for tables. Start with Check.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/stagedoor/stagedoor/"

// pkg is a folder of Go files, without tests.
type pkg struct {
	dir     string   // relative to the root, with slashes
	imports []string // packages of this module only
	// comments is the number of files with a package comment.
	comments int
	// sandboxes are the lines that name the sandbox, clients those that connect to an engine, deps the exported structs
	// that embed their dependencies.
	sandboxes, clients, deps []string
	// defines are the payloads of events that the package declares, sends those that it builds.
	defines, sends []string
}

// Check returns a message for each broken rule in the tree below root, sorted.
func Check(root string) ([]string, error) {
	packages, err := readPackages(root)
	if err != nil {
		return nil, err
	}
	faults, err := checkSQL(root)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		faults = append(faults, checkPackage(p)...)
	}
	faults = append(faults, checkEvents(packages)...)
	slices.Sort(faults)
	return faults, nil
}

// skipped are the names of folders without code of this module.
var skipped = []string{"testdata", "tools", "node_modules", "client", "examples"}

// readPackages parses all packages, without tests and test data. The keys are the folders.
func readPackages(root string) (map[string]*pkg, error) {
	found := map[string]*pkg{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
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
		return found[dir].addFile(file)
	})
	if err != nil {
		return nil, fmt.Errorf("read packages: %w", err)
	}
	return found, nil
}

func (p *pkg) addFile(file string) error {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if parsed.Doc != nil {
		p.comments++
	}
	for _, i := range parsed.Imports {
		name, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
		if ours && !slices.Contains(p.imports, name) {
			p.imports = append(p.imports, name)
		}
	}
	name := p.dir + "/" + filepath.Base(file)
	p.sandboxes = append(p.sandboxes, findSandbox(name, fset, parsed)...)
	p.clients = append(p.clients, findClients(name, fset, parsed)...)
	p.deps = append(p.deps, findEmbeddedDeps(name, parsed)...)
	ast.Inspect(parsed, p.addEvent)
	return nil
}

// checkPackage returns the broken rules of one package.
func checkPackage(p *pkg) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if strings.Contains(p.dir, "/internal/") {
		return nil // for example generated queries; the compiler prevents imports from elsewhere
	}
	switch {
	case p.comments == 0:
		fault("%s has no package comment", p.dir)
	case p.comments > 1:
		fault("%s has more than one package comment", p.dir)
	}
	path, internal := strings.CutPrefix(p.dir, "internal/")
	for _, imported := range p.imports {
		other, toInternal := strings.CutPrefix(imported, "internal/")
		switch {
		case !toInternal:
		case strings.HasPrefix(p.dir, "cmd/") && other != mains[p.dir]:
			fault("%s imports %s: a command imports only the package that does its work", p.dir, imported)
		case p.dir == "sandbox" || strings.HasPrefix(p.dir, "sandbox/"):
			fault("%s imports %s: the sandbox imports nothing from internal", p.dir, imported)
		case internal:
			if text := checkImport(path, other); text != "" {
				faults = append(faults, text)
			}
		}
	}
	faults = append(faults, p.sandboxes...)
	faults = append(faults, p.clients...)
	for _, name := range p.deps {
		fault("%s embeds its Deps: keep them in unexported fields", name)
	}
	switch {
	case internal && groupOf(path) == nil:
		fault("%s is in no group", p.dir)
	case internal && !strings.Contains(path, "/") && path != "app":
		fault("%s has Go files: a group contains only packages", p.dir)
	}
	return faults
}
