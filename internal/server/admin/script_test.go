package admin_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// proxies exist only in the settings.
var proxies = secret.New("us=http://canary-user:canary-password@127.0.0.1:1,http://canary-user:canary-password@127.0.0.1:2 uk=socks5://127.0.0.1:3")

// Every operation responds as the scripts in testdata say. The folders show which statuses of an operation are tested.
func TestScripts(t *testing.T) {
	t.Parallel()
	database := testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, testnode.Setup{Database: database, Egress: proxies})[0]
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	// Dead letters, which nothing can make over HTTP.
	_, err = conn.Exec(t.Context(), `INSERT INTO event_dead_letter (bucket, org_id, source, kind, reason, record) VALUES
		(0, NULL, NULL, NULL, 'unreadable', 'abc'), (0, 'org_00000000000000000000000000', 'acct_2', 'message', 'refused', 'abc'),
		(0, NULL, NULL, NULL, 'unreadable', 'abc')`)
	must.OK(t, err)
	testnode.RunScripts(t, node, "testdata")
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
