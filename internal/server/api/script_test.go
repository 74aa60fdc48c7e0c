package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Every operation responds as the scripts in testdata say. The folders show which statuses of an operation are tested.
func TestScripts(t *testing.T) {
	t.Parallel()
	testnode.RunScripts(t, testnode.Nodes(t, 1, withSandbox(t))[0], "testdata")
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
