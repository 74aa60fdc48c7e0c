package sdkgen_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// read loads the committed document.
func read() (*model.Model, error) { return sdkgen.Load("../../..") }

// shared returns a model for all tests that do not change it.
var shared = sync.OnceValues(read)

func load(t *testing.T) *model.Model {
	t.Helper()
	m, err := shared()
	must.OK(t, err)
	return m
}

// TestClientsAreCurrentExceptForTheVersion compares the committed libraries with the generator's output for another
// version. Every file that contains the version is out of date, and no other file is. It also finds a generator whose
// output is not deterministic.
func TestClientsAreCurrentExceptForTheVersion(t *testing.T) {
	t.Parallel()
	m, err := read() // not the shared model, because the test changes it
	must.OK(t, err)
	m.Version = "9.8.7"
	stale, err := sdkgen.Stale("../../..", m, sdkgen.Languages())
	must.OK(t, err)
	want := []string{
		"client/go/stagedoor.go", "client/typescript/package-lock.json", "client/typescript/package.json",
		"client/typescript/src/transport.ts", "client/python/pyproject.toml", "client/python/stagedoor/_version.py",
	}
	if !slices.Equal(stale, want) {
		t.Errorf("got %q, want %q", stale, want)
	}
}

func TestWriteRemovesObsoleteFilesAndKeepsHandWrittenOnes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := map[string][]byte{"a/x.go": []byte("// " + model.Header + "\n\npackage a\n")}
	languages := []sdkgen.Language{{Dir: "lib", Files: func(*model.Model) (map[string][]byte, error) { return files, nil }}}
	put := func(name, text string) {
		path := filepath.Join(root, "lib", name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	put("old.go", "// "+model.Header+"\n\npackage a\n")
	put("hand.go", "package a\n")
	put("node_modules/x.js", "// "+model.Header+"\n")
	stale, err := sdkgen.Stale(root, nil, languages)
	if err != nil || !slices.Equal(stale, []string{"lib/a/x.go", "lib/old.go"}) {
		t.Fatalf("%v, %v", stale, err)
	}
	must.OK(t, sdkgen.Write(root, nil, languages))
	if stale, err = sdkgen.Stale(root, nil, languages); err != nil || len(stale) != 0 {
		t.Errorf("%v, %v", stale, err)
	}
	if _, err := os.Stat(filepath.Join(root, "lib/hand.go")); err != nil {
		t.Error(err)
	}
}
