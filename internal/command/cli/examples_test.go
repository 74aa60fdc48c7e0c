package cli_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// readsItems matches an example that reads a member of each item with jq.
var readsItems = regexp.MustCompile(`stagedoor call (\w+)\.(\w+) .*--all .*\| jq (?:-r )?\.([\w.]+)$`)

// TestExamplesReadMembersThatExist checks the jq expressions of the examples with the types of the catalog, because jq
// prints null for a member that does not exist.
func TestExamplesReadMembersThatExist(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Sandbox()
	must.OK(t, err)
	read := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			found := readsItems.FindStringSubmatch(strings.TrimSpace(line))
			if found == nil {
				continue
			}
			read++
			method, ok := cat.Method(found[1], found[2])
			if !ok {
				t.Errorf("%s: no such method", line)
				continue
			}
			path := append([]string{"items"}, strings.Split(found[3], ".")...)
			if !hasMember(t, cat, method.ResultSchema(), path) {
				t.Errorf("%s: an item of %s has no member %s", line, method.ID(), found[3])
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(cli.Root(blank()))
	if read == 0 {
		t.Error("no example matches readsItems; is it out of date?")
	}
}

// hasMember reports whether a schema has a member at a path, following references and arrays.
func hasMember(t *testing.T, cat *catalog.Catalog, schema json.RawMessage, path []string) bool {
	t.Helper()
	var s struct {
		Ref        string                     `json:"$ref"`
		Items      json.RawMessage            `json:"items"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatalf("read %s: %v", schema, err)
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/types/"); ok {
		for _, named := range cat.Types() {
			if named.Name == name {
				return hasMember(t, cat, named.Schema, path)
			}
		}
		t.Fatalf("no type %s in the catalog", name)
	}
	switch {
	case len(path) == 0:
		return true
	case s.Items != nil:
		return hasMember(t, cat, s.Items, path)
	case s.Properties[path[0]] == nil:
		return false
	default:
		return hasMember(t, cat, s.Properties[path[0]], path[1:])
	}
}
