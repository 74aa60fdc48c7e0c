// Command pointers reports where a Go sample prints a pointer, which shows an address instead of a value:
//
//	pointers DIR…
//
// Each folder is one package. Its imports are loaded from source, as the go command resolves them there.
package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	fset := token.NewFileSet()
	sources := importer.ForCompiler(fset, "source", nil)
	found := false
	for _, dir := range os.Args[1:] {
		lines, err := printed(fset, sources, dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "pointers: %v\n", err)
			os.Exit(2)
		}
		for _, line := range lines {
			fmt.Fprintln(os.Stdout, line)
			found = true
		}
	}
	if found {
		os.Exit(1)
	}
}

// printed lists the pointers that the package of a folder passes to printing functions.
func printed(fset *token.FileSet, imports types.Importer, dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check(dir, fset, files, info); err != nil {
		return nil, err
	}
	var lines []string
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !prints(info, call) {
				return true
			}
			for _, argument := range call.Args {
				if printsAddress(info.TypeOf(argument)) {
					lines = append(lines, fmt.Sprintf("%s: prints %s, which is a pointer (%s)", fset.Position(argument.Pos()), types.ExprString(argument), info.TypeOf(argument)))
				}
			}
			return true
		})
	}
	return lines, nil
}

// prints reports whether a call is a printing function of fmt or log.
func prints(info *types.Info, call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	function, ok := info.Uses[selector.Sel].(*types.Func)
	if !ok || function.Pkg() == nil {
		return false
	}
	path, name := function.Pkg().Path(), function.Name()
	return (path == "fmt" || path == "log") && (strings.Contains(name, "rint") || strings.HasPrefix(name, "Fatal"))
}

// printsAddress reports whether fmt prints a value of this type as an address: a pointer that has no Error or String
// method and does not point to a struct, which fmt prints with its fields.
func printsAddress(t types.Type) bool {
	pointer, ok := t.Underlying().(*types.Pointer)
	if !ok {
		return false
	}
	methods := types.NewMethodSet(t)
	for _, name := range []string{"Error", "String"} {
		if methods.Lookup(nil, name) != nil {
			return false
		}
	}
	_, fields := pointer.Elem().Underlying().(*types.Struct)
	return !fields
}
