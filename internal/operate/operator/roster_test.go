package operator_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Each role may do what those before it may, and has one scope more.
func TestRolesIncludeTheRolesBeforeThem(t *testing.T) {
	t.Parallel()
	var before scope.Set
	for i, r := range operator.Roles() {
		set := r.Scopes()
		if set&before != before || len(set.Scopes()) != i+1 || operator.RoleOf(set) != r {
			t.Errorf("%s has %v", r, set.Names())
		}
		if last := set.Scopes()[i]; last.Role() != string(r) {
			t.Errorf("%s has the scope %s", r, last)
		}
		before = set
	}
	if before != scope.Internal() || operator.Role("root").Scopes() != 0 || operator.RoleOf(scope.Everyday()) != "" {
		t.Error("an owner lacks a scope, or an unknown role has one")
	}
}

// A person has the highest role of their address and their groups. Addresses are compared without case, groups exactly.
func TestRosterGivesTheHighestRole(t *testing.T) {
	t.Parallel()
	if _, err := operator.ParseRoster("group:support team=support"); err == nil {
		t.Error("accepted a group with a space")
	}
	r, err := operator.ParseRoster("# people\nAna@Example.com=owner, bob@example.com=viewer\n  # teams\ngroup:support=support group:sre=operator\r\n")
	must.OK(t, err)
	for _, c := range []struct {
		email  string
		groups []string
		want   operator.Role
	}{
		{"ana@example.com", nil, operator.Owner},
		{"ana@example.com", []string{"support"}, operator.Owner},
		{"bob@example.com", nil, operator.Viewer},
		{"bob@example.com", []string{"staff", "support"}, operator.Support},
		{"bob@example.com", []string{"support", "sre"}, operator.Worker},
		{"eve@example.com", []string{"sre"}, operator.Worker},
		{"eve@example.com", []string{"SRE", "owner", "group:sre", ""}, ""},
		{"eve@example.com", nil, ""},
		{"", nil, ""},
	} {
		if got := r.RoleOf(c.email, c.groups); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.email, c.groups, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"ana@example.com": "has no role", "ana@example.com=root": "has the role", "ana=owner": "no valid email address", "=owner": "no valid email address",
		"group:=owner": "no valid email address", "ana@example.com=owner ANA@example.com=viewer": "twice", "*@example.com=": "has the role",
	} {
		if _, err := operator.ParseRoster(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if r, err := operator.ParseRoster(" \n# nobody\n"); err != nil || !r.Empty() {
		t.Errorf("%v %v", r, err)
	}
}

// Tokens are separated by commas or line breaks. Errors do not contain them.
func TestTokensAreReadFromAListOrLines(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("a", 32), strings.Repeat("b", 40)
	for text, want := range map[string]int{one: 1, one + "\n": 1, one + "," + two: 2, "# old\r\n" + one + "\r\n\r\n" + two: 2, one + ", ": 1} {
		list, err := operator.ParseTokens(text)
		if err != nil || len(list) != want || list[0].Reveal() != one {
			t.Errorf("%q: %d tokens, %v", text, len(list), err)
		}
	}
	for _, text := range []string{"", "\n", "# " + one, "canary" + "," + one, one + "\ncanary"} {
		if _, err := operator.ParseTokens(text); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A roster never panics, and what it accepts it also reads again in another order of entries.
func FuzzRoster(f *testing.F) {
	f.Add("ana@example.com=owner group:x=viewer")
	f.Add("# \n=,=,\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := operator.ParseRoster(text)
		if err != nil && !r.Empty() {
			t.Error("a roster with an error has entries")
		}
	})
}
