package archtest_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/archtest"
	"github.com/stagedoor/stagedoor/internal/testenv"
)

// The tree keeps the shape that ARCHITECTURE.md draws.
func TestTheTreeKeepsItsShape(t *testing.T) {
	t.Parallel()
	faults, err := archtest.Check(testenv.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// Each rule is able to fail: a small tree that breaks them all is found out.
func TestCheckFindsEveryKindOfFault(t *testing.T) {
	t.Parallel()
	faults, err := archtest.Check("testdata/broken")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`internal/id imports internal/org: words may not import domain`,
		`internal/org imports internal/apikey: a peer that is not listed`,
		`internal/stray is in no layer`,
		`internal/apikey has no package comment`,
		`cmd/tool imports internal/org: a command imports the one package that does its work`,
		`sandbox imports internal/id: the sandbox stands alone`,
		`internal/apikey/queries.sql names the table org, which org owns`,
		`internal/apikey/queries.sql: query Sweep touches api_key and does not take the org`,
		`migrations/0001.sql: table nobody has no owner`,
		`ARCHITECTURE.md draws layer words as ["problem" "id" "scope"]; it is ["id" "problem" "scope" "secret" "stamp"]`,
		"ARCHITECTURE.md does not say `limit → org`",
		`internal/limit may import internal/org and does not`,
	} {
		if !contains(faults, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("found: %q", faults)
	}
}

func contains(faults []string, want string) bool {
	for _, f := range faults {
		if f == want {
			return true
		}
	}
	return false
}
