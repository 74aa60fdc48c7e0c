package driver_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// PostgreSQL rejects NUL characters in text, so a creator whose name has one could not be connected.
func TestIdentityHasNoNULCharacter(t *testing.T) {
	t.Parallel()
	who, ok := driver.ReadIdentity([]byte(`{"id":"7","username":"lu\u0000na","name":"Luna\u0000 Vale","isCreator":true}`))
	if !ok || who.Username != "luna" || who.Name != "Luna Vale" {
		t.Fatalf("%+v %v", who, ok)
	}
	if who, ok := driver.ReadIdentity([]byte(`{"id":"7\u0000","username":"luna"}`)); ok {
		t.Fatalf("an id with a NUL character was read as %q", who.ID)
	}
}

// On a platform that does not say who is a creator, everyone is one.
func TestEveryoneIsACreatorUnlessThePlatformSaysOtherwise(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]bool{
		`{"id":"7"}`: true, `{"id":"7","isCreator":null}`: true, `{"id":"7","isCreator":true}`: true, `{"id":"7","isCreator":false}`: false,
	} {
		if who, ok := driver.ReadIdentity([]byte(result)); !ok || who.IsCreator != want {
			t.Errorf("%s: %+v %v", result, who, ok)
		}
	}
}
