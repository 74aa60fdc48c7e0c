// Package wording finds words that make our texts hard to read: in comments and `doc` tags of Go files, in documents,
// and in the sources of the dashboard, the client libraries and the manifests. CONTRIBUTING.md says what to write
// instead.
package wording

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoided are words and phrases with a plainer equivalent. "behind" is checked apart: it is right for places and lag.
var avoided = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|anybody|everybody|anew|left out|at once|besides|in earnest|of its own accord)\b`)

var (
	behind = regexp.MustCompile(`(?i)\bbehind\b`)
	// rightBehind are uses of "behind" for a place or for lag.
	rightBehind = regexp.MustCompile(`(?i)\b(is|are|was|be|been|falls?|fell|fallen|falling|lags?|lagging|far|further|stays?|runs?|seconds|events|left|who|that) behind\b` +
		`|\bbehind (a|an|the|our|your|its|one|another|each)? ?(reverse |trusted |load )?(prox(y|ies)|balancer|NAT|firewall|gateway|CDN|counter|scenes)`)
)

// Finding is a word in a place.
type Finding struct {
	// File is relative to the root, with slashes.
	File string
	Line int
	Word string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %q", f.File, f.Line, f.Word) }

// skipped are folders with generated or foreign text, and test/accept, whose texts are fixed.
var skipped = []string{"node_modules", "testdata", "dist", "gen", "accept", "db"}

// published are folders whose files are checked whole, because customers read their texts.
var published = []string{"web/src/", "client/typescript/src/", "client/python/stagedoor/", "internal/platform/catalog/manifests/"}

// Check returns all findings below root, by file and line.
func Check(root string) ([]Finding, error) {
	var found []Finding
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		list, err := checkFile(path, name)
		found = append(found, list...)
		return err
	})
	return found, err
}

func checkFile(path, name string) ([]Finding, error) {
	var lines map[int]string
	switch {
	case name == "CHANGELOG.md" || strings.HasSuffix(name, "schema.d.ts"):
		return nil, nil
	case strings.HasSuffix(name, ".go"):
		var err error
		if lines, err = goText(path); err != nil {
			return nil, err
		}
	case strings.HasSuffix(name, ".md"), slices.ContainsFunc(published, func(dir string) bool { return strings.HasPrefix(name, dir) }):
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lines = plainText(string(text), strings.HasSuffix(name, ".md"))
	}
	var found []Finding
	for line, text := range lines {
		for _, word := range wordsIn(text) {
			found = append(found, Finding{name, line, word})
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return a.Line - b.Line })
	return found, nil
}

// hints are parts of all avoided words: a text without any of them needs no look with the slower expressions.
var hints = []string{"body", "whoever", "anew", "left out", "at once", "besides", "in earnest", "of its own", "behind"}

func wordsIn(text string) []string {
	low := strings.ToLower(text)
	if !slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(low, hint) }) {
		return nil
	}
	words := avoided.FindAllString(text, -1)
	if n := len(behind.FindAllString(text, -1)) - len(rightBehind.FindAllString(text, -1)); n > 0 {
		words = append(words, slices.Repeat([]string{"behind"}, n)...)
	}
	return words
}

// goText returns the comments and the doc tags of a file by line. Generated files have none.
func goText(path string) (map[int]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	lines := map[int]string{}
	add := func(at token.Pos, text string) {
		first := set.Position(at).Line
		for i, line := range strings.Split(text, "\n") {
			lines[first+i] += line + "\n"
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			add(comment.Pos(), comment.Text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil {
				add(field.Tag.Pos(), reflect.StructTag(tag).Get("doc"))
			}
		}
		return true
	})
	return lines, nil
}

// plainText returns the lines of a text, of Markdown without blocks of code.
func plainText(text string, markdown bool) map[int]string {
	lines, inCode := map[int]string{}, false
	for i, line := range strings.Split(text, "\n") {
		if markdown && strings.HasPrefix(strings.TrimSpace(line), "```") {
			inCode = !inCode
			continue
		}
		if !inCode {
			lines[i+1] = line
		}
	}
	return lines
}
