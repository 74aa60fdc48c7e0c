package scope_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/scope"
)

// The default set of a key is part of the API.
func TestEverydayHasEveryCustomerScope(t *testing.T) {
	t.Parallel()
	want := []string{
		"accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write",
		"me:read", "me:write", "usage:read",
	}
	if got := scope.Everyday().Names(); !slices.Equal(got, want) {
		t.Fatalf("Everyday() = %v, want %v", got, want)
	}
}

// No spelling of an admin scope gets into a customer's set.
func TestParseNeverYieldsAnInternalScope(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"admin:orgs", "admin:owner", "admin:*", "admin:", "admin:anything"} {
		if _, err := scope.Parse(name); !errors.Is(err, scope.ErrInternal) {
			t.Errorf("Parse(%q) = %v, want ErrInternal", name, err)
		}
	}
	for _, name := range []string{"", "*", "me", "me:*", "ME:READ", " me:read"} {
		if _, err := scope.Parse(name); !errors.Is(err, scope.ErrUnknown) {
			t.Errorf("Parse(%q) = %v, want ErrUnknown", name, err)
		}
	}
	if got := scope.FromNames([]string{"admin:orgs", "admin:owner", "admin:*", "new:scope", "me:read"}); got != scope.Of(scope.MeRead) {
		t.Errorf("FromNames kept %v", got.Names())
	}
	if scope.Everyday().Without(scope.Internal()) != scope.Everyday() {
		t.Error("the everyday set contains an internal scope")
	}
}

func TestSetArithmetic(t *testing.T) {
	t.Parallel()
	narrow, all := scope.Of(scope.MeRead, scope.MeWrite), scope.Everyday()
	if !narrow.Has(scope.Any) || !narrow.Has(scope.MeRead) || narrow.Has(scope.UsageRead) {
		t.Error("Has is wrong")
	}
	if got := narrow.Without(scope.Of(scope.MeRead)).Names(); !slices.Equal(got, []string{"me:write"}) {
		t.Errorf("Without left %v", got)
	}
	for _, s := range all.Scopes() {
		if back, err := scope.Parse(s.String()); err != nil || back != s {
			t.Errorf("%v does not parse from its own name", s)
		}
	}
}
