package facts_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/facts"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var update = flag.Bool("update", false, "write the current figures into the documents")

func TestFiguresInDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	values, err := facts.Values()
	must.OK(t, err)
	root, used := testenv.Path(t), map[string]bool{}
	must.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // a document of the repository
		if err != nil {
			return err
		}
		filled, names, err := facts.Fill(string(text), values)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, name := range names {
			used[name] = true
		}
		if filled == string(text) {
			return nil
		}
		if !*update {
			t.Errorf("a figure in %s is out of date: run make generate", path)
			return nil
		}
		return os.WriteFile(path, []byte(filled), 0o600)
	}))
	for name := range values {
		if !used[name] {
			t.Errorf("no document has the fact %s", name)
		}
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	values := map[string]string{"a.Count": "64", "b.Table": "\n| x |\n"}
	for name, c := range map[string]struct{ document, want string }{
		"stale":   {"in <!-- fact: a.Count -->8<!-- /fact --> shards", "in <!-- fact: a.Count -->64<!-- /fact --> shards"},
		"current": {"<!-- fact: b.Table -->\n| x |\n<!-- /fact -->", "<!-- fact: b.Table -->\n| x |\n<!-- /fact -->"},
		"two": {
			"<!-- fact: a.Count --><!-- /fact -->, <!-- fact: a.Count -->1<!-- /fact -->",
			"<!-- fact: a.Count -->64<!-- /fact -->, <!-- fact: a.Count -->64<!-- /fact -->",
		},
	} {
		if got, _, err := facts.Fill(c.document, values); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, broken := range []string{"<!-- fact: a.Count -->64", "<!-- fact: unknown -->1<!-- /fact -->"} {
		if _, _, err := facts.Fill(broken, values); err == nil {
			t.Errorf("no error for %q", broken)
		}
	}
}
