package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// otherSandboxes lists files in which the text "sandbox" is not the name of the platform or of its environment.
var otherSandboxes = map[string]string{
	"internal/tenant/org/plan.go":               "the name of a plan",
	"internal/server/docs/reference/api.go":     "the path of a page",
	"internal/server/docs/reference/example.go": "a field of accounts and events",
}

// mayNameSandbox reports whether a package may name the sandbox. All others ask platform/registry or the environment,
// so that they work with every platform.
func mayNameSandbox(dir string) bool {
	in, internal := strings.CutPrefix(dir, "internal/")
	if !internal || strings.HasSuffix(dir, "test") { // for example accounttest
		return true
	}
	if in == "base/environment" || strings.HasPrefix(in, "server/api/sandbox") {
		return true
	}
	g := groupOf(in)
	return g == nil || slices.Contains([]string{"platform", "command", "test"}, g.name)
}

// findSandbox returns the lines of a file that name the sandbox.
func findSandbox(file string, fset *token.FileSet, parsed *ast.File) []string {
	dir := path.Dir(file)
	if mayNameSandbox(dir) || otherSandboxes[file] != "" {
		return nil
	}
	var faults []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		var named bool
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			named = n.Kind == token.STRING && err == nil && text == "sandbox"
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			named = n.Sel.Name == "Sandbox" && of != nil && (of.Name == "catalog" || of.Name == "environment")
		}
		if named {
			faults = append(faults, fmt.Sprintf("%s:%d names the sandbox: ask platform/registry or the environment", file,
				fset.Position(n.Pos()).Line))
		}
		return true
	})
	return faults
}

// connectors are the functions that connect to an engine, by package.
var connectors = map[string][]string{
	"pgx": {"Connect", "ConnectConfig"}, "pgxpool": {"New", "NewWithConfig"}, "nats": {"Connect"}, "rueidis": {"NewClient"},
	"s3": {"New", "NewFromConfig"},
}

// findClients returns the lines of a file that connect to an engine outside of the packages that give every call to the
// engine a deadline.
func findClients(file string, fset *token.FileSet, parsed *ast.File) []string {
	if !strings.HasPrefix(file, "internal/") || strings.HasPrefix(file, "internal/engine/") || strings.HasPrefix(file, "internal/test/") {
		return nil
	}
	var faults []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		called, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := called.X.(*ast.Ident); ok && slices.Contains(connectors[of.Name], called.Sel.Name) {
			faults = append(faults, fmt.Sprintf("%s:%d connects to an engine: use a package of the group engine, whose calls have deadlines", file,
				fset.Position(n.Pos()).Line))
		}
		return true
	})
	return faults
}

// findEmbeddedDeps returns the exported structs of a file that embed a type named Deps, which makes all dependencies
// public.
func findEmbeddedDeps(file string, parsed *ast.File) []string {
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		declared, ok := n.(*ast.TypeSpec)
		if !ok || !declared.Name.IsExported() {
			return true
		}
		if s, ok := declared.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, isEmbeddedDeps) {
			found = append(found, path.Dir(file)+"."+declared.Name.Name)
		}
		return true
	})
	return found
}

func isEmbeddedDeps(f *ast.Field) bool {
	if len(f.Names) > 0 {
		return false
	}
	t := f.Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if selected, ok := t.(*ast.SelectorExpr); ok {
		t = selected.Sel
	}
	name, ok := t.(*ast.Ident)
	return ok && name.Name == "Deps"
}
