// Command census counts what the tree is made of: hand-written Go lines, packages, groups, comments, functions and
// repeated blocks. It also prints comments taken at random, for a reader to judge. scripts/census runs it.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"hash/maphash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	comments := flag.Int("comments", 0, "print `N` consecutive comments from a random place instead of the counts")
	seed := flag.Uint64("seed", 1, "`seed` of the random place")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	t, err := readTree(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "census:", err)
		os.Exit(1)
	}
	if *comments > 0 {
		t.printComments(os.Stdout, *comments, *seed)
		return
	}
	t.print(os.Stdout)
}

// tree is everything that is counted.
type tree struct {
	packages, documented, groups    map[string]bool
	files                           int
	lines, testLines, generated     int
	bytes, testBytes                int
	codeLines, commentLines         int
	sizes                           []int
	longest                         string
	functions, manyParameters       int
	sleeps                          map[string]int
	bubbles                         map[string]bool
	blocks                          map[uint64]int
	comments                        []string
	seed                            maphash.Seed
	repeatedBlocks, repeatedInTests int
}

// skipped are folders that hold no Go code of ours, or code that is not built.
var skipped = []string{"testdata", "node_modules"}

func readTree(root string) (*tree, error) {
	t := &tree{
		packages: map[string]bool{}, documented: map[string]bool{}, groups: map[string]bool{},
		sleeps: map[string]int{}, bubbles: map[string]bool{}, blocks: map[uint64]int{}, seed: maphash.MakeSeed(),
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return t.addFile(path, filepath.ToSlash(name))
	})
	return t, err
}

func (t *tree) addFile(path, name string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := bytes.Count(text, []byte("\n"))
	dir := name[:max(strings.LastIndex(name, "/"), 0)]
	if ast.IsGenerated(file) {
		t.generated += lines
		return nil
	}
	isTest := strings.HasSuffix(name, "_test.go")
	t.files++
	t.packages[dir] = true
	if group, inside := strings.CutPrefix(dir, "internal/"); inside {
		group, _, _ = strings.Cut(group, "/")
		t.groups[group] = true
	}
	if file.Doc != nil && !isTest {
		t.documented[dir] = true
	}
	if isTest {
		t.testLines += lines
	} else {
		t.lines += lines
	}
	for _, i := range file.Imports {
		if i.Path.Value == `"testing/synctest"` {
			t.bubbles[dir] = true
		}
	}
	t.countLines(set, file, text)
	if isTest {
		t.testBytes += codeBytes(text)
	} else {
		t.bytes += codeBytes(text)
	}
	t.countBlocks(text, isTest)
	for _, group := range file.Comments {
		place := set.Position(group.Pos())
		t.comments = append(t.comments, fmt.Sprintf("%s:%d: %s", name, place.Line, strings.TrimSpace(group.Text())))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok {
			t.addFunction(set, name, f)
		}
		if isTest && isSelector(n, "time", "Sleep") {
			t.sleeps[dir]++
		}
		return true
	})
	return nil
}

func isSelector(node ast.Node, pkg, name string) bool {
	s, ok := node.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// codeBytes counts the bytes of all tokens but comments, so that neither comments nor line breaks matter.
func codeBytes(text []byte) (n int) {
	set := token.NewFileSet()
	var s scanner.Scanner
	s.Init(set.AddFile("", set.Base(), len(text)), text, nil, 0)
	for {
		_, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return n
		case tok == token.SEMICOLON && literal == "\n": // inserted at the end of a line
		case literal != "":
			n += len(literal)
		default:
			n += len(tok.String())
		}
	}
}

// countLines counts lines with code, and lines with a comment and no code.
func (t *tree) countLines(set *token.FileSet, file *ast.File, text []byte) {
	commented := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			for n := set.Position(c.Pos()).Line; n <= set.Position(c.End()).Line; n++ {
				commented[n] = true
			}
		}
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) == 0:
		case commented[i+1] && (bytes.HasPrefix(trimmed, []byte("//")) || bytes.HasPrefix(trimmed, []byte("/*"))):
			t.commentLines++
		default:
			t.codeLines++
		}
	}
}

func (t *tree) addFunction(set *token.FileSet, name string, f *ast.FuncDecl) {
	t.functions++
	parameters := 0
	for _, field := range f.Type.Params.List {
		parameters += max(len(field.Names), 1)
	}
	if parameters > 5 {
		t.manyParameters++
	}
	if f.Body == nil {
		return
	}
	size := set.Position(f.Body.End()).Line - set.Position(f.Pos()).Line + 1
	if len(t.sizes) == 0 || size > slices.Max(t.sizes) {
		t.longest = name + " " + f.Name.Name
	}
	t.sizes = append(t.sizes, size)
}

// blockLines is how many lines in a row count as a block.
const blockLines = 8

// countBlocks counts blocks that occurred before, in any file. Blank lines, comments and lone brackets do not count.
func (t *tree) countBlocks(text []byte, isTest bool) {
	var kept []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if len(line) < 4 || strings.HasPrefix(line, "//") || strings.HasPrefix(line, `"`) {
			continue
		}
		kept = append(kept, line)
	}
	for i := 0; i+blockLines <= len(kept); {
		sum := maphash.String(t.seed, strings.Join(kept[i:i+blockLines], "\n"))
		t.blocks[sum]++
		if t.blocks[sum] > 1 {
			if isTest {
				t.repeatedInTests++
			} else {
				t.repeatedBlocks++
			}
			i += blockLines
			continue
		}
		i++
	}
}

func (t *tree) print(w io.Writer) {
	slices.Sort(t.sizes)
	at := func(share float64) int {
		if len(t.sizes) == 0 {
			return 0
		}
		return t.sizes[int(float64(len(t.sizes)-1)*share)]
	}
	for _, row := range []struct {
		name  string
		value any
	}{
		{"hand-written Go lines", t.lines + t.testLines},
		{"  without tests", t.lines},
		{"  tests", t.testLines},
		{"bytes of code, without comments", t.bytes + t.testBytes},
		{"  without tests", t.bytes},
		{"  tests", t.testBytes},
		{"generated Go lines", t.generated},
		{"Go files", t.files},
		{"packages", len(t.packages)},
		{"  with a package comment", len(t.documented)},
		{"groups below internal/", len(t.groups)},
		{"functions", t.functions},
		{"  lines, median", at(0.5)},
		{"  lines, 90 %", at(0.9)},
		{"  lines, longest", fmt.Sprintf("%d (%s)", at(1), t.longest)},
		{"  with more than 5 parameters", t.manyParameters},
		{"comment lines per line of code", fmt.Sprintf("%.3f", float64(t.commentLines)/float64(max(t.codeLines, 1)))},
		{"time.Sleep in tests, in real time", t.realSleeps()},
		{fmt.Sprintf("repeated blocks of %d lines", blockLines), t.repeatedBlocks},
		{"  in tests", t.repeatedInTests},
	} {
		fmt.Fprintf(w, "%-34s %v\n", row.name, row.value)
	}
}

// realSleeps counts the uses of time.Sleep in tests of packages without synctest, whose time is real.
func (t *tree) realSleeps() (n int) {
	for dir, count := range t.sleeps {
		if !t.bubbles[dir] {
			n += count
		}
	}
	return n
}

// printComments prints consecutive comments. The files are in the order of their paths, so a seed always selects the
// same place of the same tree.
func (t *tree) printComments(w io.Writer, count int, seed uint64) {
	count = min(count, len(t.comments))
	first := 0
	if room := len(t.comments) - count; room > 0 {
		first = rand.New(rand.NewPCG(seed, 0)).IntN(room)
	}
	for _, text := range t.comments[first : first+count] {
		fmt.Fprintln(w, text)
	}
}
