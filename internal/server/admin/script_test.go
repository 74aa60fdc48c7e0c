package admin_test

import (
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// proxies are in the settings and nowhere else.
var proxies = secret.New("us=http://canary-user:canary-password@127.0.0.1:1,http://canary-user:canary-password@127.0.0.1:2 uk=socks5://127.0.0.1:3")

// Every operation answers as the scripts in testdata say; the folders show which statuses of an operation are proven.
func TestScripts(t *testing.T) {
	t.Parallel()
	testnode.RunScripts(t, testnode.Nodes(t, 1, testnode.Setup{Egress: proxies})[0], "testdata")
}

// Every operation has a script of its success, of a call without a token and with a customer's key, of a body that is
// broken or wrong, and of every problem that it declares. There is no token that lacks a scope.
func TestScriptsProveEveryOperation(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	testnode.RequireScripts(t, "testdata", node.App.Admin().Operations(), func(op endpoint.Operation) []problem.Kind {
		kinds := append(slices.Clone(op.Problems), problem.KeyMissing, problem.KeyInvalid)
		if op.HasBody() {
			kinds = append(kinds, problem.MalformedJSON, problem.ValidationFailed)
		}
		return kinds
	})
}
