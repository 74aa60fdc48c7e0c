package sandbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/api/sandbox"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The API lists exactly the personas that docs/sandbox.md documents.
func TestPersonasAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/sandbox.md")
	must.OK(t, err)
	_, table, _ := strings.Cut(string(text), "| persona | behaves |")
	table, codes, _ := strings.Cut(table, "| code | is |")
	documented := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented[m[1]] = true
		}
	}
	listed := map[string]bool{}
	for _, name := range sandbox.Personas() {
		listed[name] = true
		if !documented[name] {
			t.Errorf("%s is listed but not documented", name)
		}
	}
	for name := range documented {
		if !listed[name] && !strings.Contains(name, "-") { // Chains are examples.
			t.Errorf("%s is documented but not listed", name)
		}
	}
	codes, _, _ = strings.Cut(codes, "A challenge waits")
	for _, code := range sandbox.Codes() {
		if !strings.Contains(codes, "`"+code+"`") {
			t.Errorf("the code %s is listed but not documented", code)
		}
	}
}
