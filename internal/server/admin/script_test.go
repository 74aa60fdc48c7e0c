package admin_test

import (
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// proxies exist only in the settings.
var proxies = secret.New("us=http://canary-user:canary-password@127.0.0.1:1,http://canary-user:canary-password@127.0.0.1:2 uk=socks5://127.0.0.1:3")

// Every operation responds as the scripts in testdata say. The folders show which statuses of an operation are tested.
func TestScripts(t *testing.T) {
	t.Parallel()
	testnode.RunScripts(t, testnode.Nodes(t, 1, testnode.Setup{Egress: proxies})[0], "testdata")
}

// Every operation has scripts for its success, for a call without a token and with a customer's key, for a malformed
// and an invalid body, and for every problem that it declares. The operator token has all scopes.
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
