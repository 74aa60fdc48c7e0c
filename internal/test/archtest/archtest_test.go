package archtest_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/archtest"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var update = flag.Bool("update", false, "write the table of groups into ARCHITECTURE.md")

func TestTreeBreaksNoRule(t *testing.T) {
	t.Parallel()
	faults, err := archtest.Check(testenv.Path(t))
	must.OK(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
}

// Each rule can fail: the tree in testdata/broken breaks every one of them.
func TestCheckFindsEveryKindOfFault(t *testing.T) {
	t.Parallel()
	faults, err := archtest.Check("testdata/broken")
	must.OK(t, err)
	want := []string{
		`internal/base/contract defines Unsent, but no package sends it`,
		`internal/base/id imports internal/tenant/org: base may not import tenant`,
		`internal/server/api/keys imports internal/server/admin: these packages must not import each other`,
		`internal/server/admin has more than one package comment`,
		`internal/events/listen.Sockets embeds its Deps: keep them in unexported fields`,
		`internal/events/listen/listen.go:17 names the sandbox: ask platform/registry or the environment`,
		`internal/events/listen/listen.go:20 names the sandbox: ask platform/registry or the environment`,
		`internal/events/listen/listen.go:23 names the sandbox: ask platform/registry or the environment`,
		`internal/events/listen/listen.go:29 connects to an engine: use a package of the group engine, whose calls have deadlines`,
		`internal/stray is in no group`,
		`internal/tenant/apikey has no package comment`,
		`internal/tenant/apikey/queries.sql names the table org, which tenant/org owns`,
		`internal/tenant/apikey/queries.sql: query Sweep uses api_key and does not filter by organisation`,
		`internal/vault has Go files: a group contains only packages`,
		`cmd/tool imports internal/tenant/org: a command imports only the package that does its work`,
		`sandbox imports internal/base/id: the sandbox imports nothing from internal`,
		`migrations/owners.txt does not list the table unowned`,
		`migrations/owners.txt lists former, which is not a table`,
		`migrations/owners.txt names the package tenant/former, which does not exist`,
	}
	slices.Sort(want)
	if !slices.Equal(faults, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
}

func TestArchitectureShowsTheGroups(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- groups: written by make generate -->\n", "<!-- end of groups -->"
	path := testenv.Path(t, "ARCHITECTURE.md")
	text, err := os.ReadFile(path)
	must.OK(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no markers for the table of groups")
	}
	if shown == archtest.Table() {
		return
	}
	if !*update {
		t.Fatal("the table of groups in ARCHITECTURE.md is out of date: run make generate")
	}
	must.OK(t, os.WriteFile(path, []byte(before+begin+archtest.Table()+end+after), 0o600))
}
