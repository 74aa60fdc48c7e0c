package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// group is a folder directly below internal/. Its packages may import their own group and the groups in imports. An
// entry with a slash allows only that package.
type group struct {
	name, holds string
	imports     []string
}

// groups lists the layers, lowest first.
var groups = []group{
	{"base", "vocabulary and in-memory helpers; no I/O", nil},
	{"engine", "one external system or storage mechanism each; no product nouns", []string{"base"}},
	{"vault", "encryption of customer secrets", []string{"base", "engine"}},
	{"platform", "talking to a creator platform", []string{"base"}},
	{"tenant", "the customer: who they are, what they may do, what they did", []string{"base", "engine", "vault"}},
	{"operate", "decisions of operators, and the nodes that run", []string{"base", "engine", "tenant"}},
	{
		"accounts", "connected accounts: sign-in, state, probing",
		[]string{"base", "engine", "vault", "platform", "tenant", "operate"},
	},
	{"calls", "one call or file transfer on an account", []string{"base", "platform", "tenant", "operate", "accounts"}},
	{
		"events", "from the platform's socket to the event store",
		[]string{"base", "engine", "vault", "platform", "tenant", "accounts"},
	},
	{
		"delivery", "from the event store to customers",
		[]string{"base", "engine", "vault", "platform", "tenant", "operate", "accounts", "events"},
	},
	{
		"jobs", "work that is longer than a call, and its results",
		[]string{"base", "engine", "vault", "platform", "tenant", "operate", "accounts", "calls", "events", "delivery"},
	},
	{
		"server", "HTTP in, HTTP out",
		[]string{
			"base", "engine", "vault", "platform", "tenant", "operate", "accounts", "calls", "events", "delivery", "jobs",
		},
	},
	{
		"app", "reads the settings, builds a node and runs it",
		[]string{
			"base", "engine", "vault", "platform", "tenant", "operate", "accounts", "calls", "events", "delivery",
			"jobs", "server",
		},
	},
	{
		"command", "programs that reach the server over HTTP only",
		[]string{"base", "platform/catalog", "delivery/webhook/sign"},
	},
	{
		"test", "fixtures, and checks of the tree; in no binary",
		[]string{
			"base", "engine", "vault", "platform", "tenant", "operate", "accounts", "calls", "events", "delivery",
			"jobs", "server", "app", "command",
		},
	},
}

// apart lists packages of one group that must not import each other. Each includes the packages below it.
var apart = []string{"server/api", "server/admin", "server/connectpages", "server/dashboard", "server/docs"}

// mains maps each command to the one package that it may import.
var mains = map[string]string{"cmd/stagedoord": "app", "cmd/stagedoor": "command/cli", "cmd/sdkgen": "command/sdkgen"}

func groupOf(path string) *group {
	name, _, _ := strings.Cut(path, "/")
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return &groups[i]
}

// checkImport reports whether a package below internal/ may import another one, and if not, why.
func checkImport(from, to string) (fault string) {
	at, other := groupOf(from), groupOf(to)
	if at == nil || other == nil {
		return "" // reported by checkPackage
	}
	if at == other {
		a, b := apartFrom(from), apartFrom(to)
		if a != "" && b != "" && a != b {
			return fmt.Sprintf("internal/%s imports internal/%s: these packages must not import each other", from, to)
		}
		return ""
	}
	allowed := slices.ContainsFunc(at.imports, func(i string) bool { return i == other.name || i == to })
	if !allowed {
		return fmt.Sprintf("internal/%s imports internal/%s: %s may not import %s", from, to, at.name, other.name)
	}
	return ""
}

// apartFrom returns the entry of apart that a package belongs to; empty if none.
func apartFrom(path string) string {
	i := slices.IndexFunc(apart, func(a string) bool { return path == a || strings.HasPrefix(path, a+"/") })
	if i < 0 {
		return ""
	}
	return apart[i]
}

// Table returns the table of groups as Markdown, for ARCHITECTURE.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| group | holds | may import |\n|---|---|---|\n")
	below := ""
	for i, g := range groups {
		imports := make([]string, len(g.imports))
		for n, name := range g.imports {
			imports[n] = "`" + name + "`"
		}
		text := strings.Join(imports, " ")
		switch {
		case len(imports) == 0:
			text = "–"
		case i > 1 && strings.Join(g.imports, " ") == below:
			text = "all of the above"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", g.name, g.holds, text)
		below = strings.TrimSpace(below + " " + g.name)
	}
	return b.String()
}
