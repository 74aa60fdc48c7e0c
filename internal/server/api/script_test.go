package api_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Every operation responds as the scripts in testdata say. The folders show which statuses of an operation are tested.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, withSites(t))
}

// runScripts runs the scripts of some operations, by default of all, against a node.
func runScripts(t *testing.T, setup testnode.Setup, operations ...string) {
	t.Helper()
	setup.Database = testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, setup)[0]
	conn, err := pgx.Connect(t.Context(), setup.Database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	// The tombstone of an organisation, which would take a week over HTTP. Package erasure makes real ones.
	_, err = conn.Exec(t.Context(), `INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at, receipt)
		VALUES ('org_01k9x5ahzre4bb3069xb2way0d', '', 'sandbox', 'sandbox', '', now(), now(), $1)`, orgReceipt)
	must.OK(t, err)
	testnode.RunScripts(t, node, "testdata", operations...)
}

// PgBouncer in transaction mode, with fewer sessions than the node has connections, changes nothing: what signs in,
// changes, lists, streams and delivers works through it. make proof runs all scripts.
func TestScriptsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	setup := withSites(t)
	setup.PgBouncer = true
	runScripts(t, setup, proof.Scale([]string{"connectLogin", "listAccounts", "putWebhook", "replayWebhook", "startJob", "streamEvents"}, nil)...)
}

const orgReceipt = `{
	"covers": ["session", "credentials", "events", "deliveries", "jobResults", "accounts", "keys", "members", "usage", "audit"],
	"keyId": "00112233445566ff", "keyring": "shared", "orgId": "org_01k9x5ahzre4bb3069xb2way0d", "purgedAt": "2026-11-18T15:00:00.000Z",
	"signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
}`

// withSites is withSandbox with a second platform, whose creators have sites, and a site of it.
func withSites(t *testing.T) testnode.Setup {
	t.Helper()
	setup := withSandbox(t)
	setup.Platforms, setup.Site = "sandbox=builtin sites="+sitesManifest(t), newSite(t)
	return setup
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

// newSite starts a site of that platform, whose only key is good-00ff, and which asks every person for a code. It returns
// the address.
func newSite(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	mux.Handle("GET /admin/api/site/", answer(`{"site": {"uuid": "5a0d6a44", "title": "Maya's letters"}}`))
	for path, text := range map[string]string{
		"people/all": `{"everyone": [{"id": "1", "name": "Maya"}]}`, "people/count": `{"total": 1}`, "events": `{"events": []}`, "posts": `{"posts": []}`,
	} {
		mux.HandleFunc("GET /admin/api/"+path+"/", func(w http.ResponseWriter, r *http.Request) {
			head, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("X-Token"), "Sites "), ".")
			if kid, err := base64.RawURLEncoding.DecodeString(head); err != nil || !bytes.Contains(kid, []byte(`"kid":"good"`)) {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"errors": [{"message": "No session"}]}`)
				return
			}
			fmt.Fprint(w, text)
		})
	}
	mux.HandleFunc("POST /admin/api/session/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "sid=1")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors": [{"code": "CODE_NEEDED"}]}`)
	})
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	return site.URL
}

// Every operation has scripts for its success, for a call without a key and without its scope, for a malformed and an
// invalid body, and for every problem that it declares. Problems of the platform are tested in connect and health,
// where faults can be injected.
func TestScriptsProveEveryOperation(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	// Package job tests these, because a script cannot keep a job from running, nor wait for a week.
	ofJobs := []problem.Kind{problem.LimitReached, problem.JobNotStarted, problem.ResultExpired}
	testnode.RequireScripts(t, "testdata", node.App.API().Operations(), func(op endpoint.Operation) []problem.Kind {
		kinds := slices.DeleteFunc(slices.Clone(op.Problems), func(k problem.Kind) bool {
			// Package org tests that an organisation cannot be restored too late, because that takes a week.
			return k.Upstream() || k.Status >= http.StatusInternalServerError || op.ID == "restoreOrg" && k == problem.OrgNotFound ||
				slices.Contains(ofJobs, k)
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
