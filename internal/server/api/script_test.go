package api_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Every operation responds as the scripts in testdata say. The folders show which statuses of an operation are tested.
func TestScripts(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	setup.Platforms = "sandbox=builtin sites=" + sitesManifest(t)
	testnode.RunScripts(t, testnode.Nodes(t, 1, setup)[0], "testdata")
}

// sitesManifest returns a folder with the manifest of a second platform for the sandbox, whose creators have sites.
func sitesManifest(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	must.OK(t, os.CopyFS(folder, os.DirFS("../../platform/catalog/testdata/sites")))
	file := filepath.Join(folder, "upstream.yaml")
	text, err := os.ReadFile(file)
	must.OK(t, err)
	text = bytes.Replace(text, []byte("  id: sites\n"), []byte("  id: sites\n  environment: sandbox\n"), 1)
	must.OK(t, os.WriteFile(file, text, 0o600))
	return folder
}

// Every operation has scripts for its success, for a call without a key and without its scope, for a malformed and an
// invalid body, and for every problem that it declares. Problems of the platform are tested in connect and health,
// where faults can be injected.
func TestScriptsProveEveryOperation(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	testnode.RequireScripts(t, "testdata", node.App.API().Operations(), func(op endpoint.Operation) []problem.Kind {
		kinds := slices.DeleteFunc(slices.Clone(op.Problems), func(k problem.Kind) bool {
			return k.Upstream() || k.Status >= http.StatusInternalServerError
		})
		if !op.Public {
			kinds = append(kinds, problem.KeyMissing)
		}
		if op.Scope != scope.Any {
			kinds = append(kinds, problem.ScopeMissing)
		}
		if op.HasBody() {
			kinds = append(kinds, problem.MalformedJSON, problem.ValidationFailed)
		}
		return kinds
	})
}
