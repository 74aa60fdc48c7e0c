package catalog_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// small returns the catalog of testdata/small, a manifest that uses every feature.
func small(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load(smallFiles(t))
	must.OK(t, err)
	return c
}

// sites returns the catalog of testdata/sites, a manifest that uses what the small one does not.
func sites(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load(filesOf(t, "sites"))
	must.OK(t, err)
	return c
}

func smallFiles(t testing.TB) fstest.MapFS {
	t.Helper()
	return filesOf(t, "small")
}

// filesOf returns the files of a manifest in testdata.
func filesOf(t testing.TB, manifest string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, pattern := range []string{"*.yaml", "resources/*.yaml"} {
		names, err := filepath.Glob(filepath.Join("testdata", manifest, pattern))
		must.OK(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			must.OK(t, err)
			files[strings.TrimPrefix(filepath.ToSlash(name), "testdata/"+manifest+"/")] = &fstest.MapFile{Data: text}
		}
	}
	return files
}

// withEdit returns the small manifest with one text of one file replaced.
func withEdit(t testing.TB, file, from, to string) fstest.MapFS {
	t.Helper()
	return edited(t, smallFiles(t), file, from, to)
}

// edited returns a manifest with one text of one file replaced.
func edited(t testing.TB, files fstest.MapFS, file, from, to string) fstest.MapFS {
	t.Helper()
	files = maps.Clone(files)
	text := string(files[file].Data)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q", file, from)
	}
	files[file] = &fstest.MapFile{Data: []byte(strings.Replace(text, from, to, 1))}
	return files
}

// everyMethod returns the methods of the small and the sandbox manifest.
func everyMethod(t testing.TB) []*catalog.Method {
	t.Helper()
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	return append(small(t).Methods(), sandbox.Methods()...)
}

func method(t testing.TB, c *catalog.Catalog, resource, name string) *catalog.Method {
	t.Helper()
	m, ok := c.Method(resource, name)
	if !ok {
		t.Fatalf("there is no %s.%s", resource, name)
	}
	return m
}

// fieldsOf returns the fields of a problem as "pointer code".
func fieldsOf(t testing.TB, err error) []string {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatalf("%v is not a problem", err)
	}
	list := []string{}
	for _, f := range p.Fields {
		list = append(list, f.Pointer+" "+f.Code)
	}
	return list
}

// value decodes JSON with numbers as text.
func value(t testing.TB, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// sameRefusal compares what callers see of two refusals.
func sameRefusal(a, b catalog.Refusal) bool {
	return a.Kind == b.Kind && a.Code == b.Code && a.Message == b.Message && a.RetryAfter == b.RetryAfter
}
