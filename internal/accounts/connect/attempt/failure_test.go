package attempt_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
)

// A refused key is called a key, and all other failures are the same for every kind of attempt.
func TestFailuresOfKeysNameTheKey(t *testing.T) {
	t.Parallel()
	for _, code := range []string{attempt.CodeInvalid, attempt.CodeMismatch} {
		f := attempt.Failure{Code: code}
		if !strings.Contains(f.Message(attempt.Token), " key") || strings.Contains(f.Message(attempt.Cookie), " key") {
			t.Errorf("%s: %q and %q", code, f.Message(attempt.Token), f.Message(attempt.Cookie))
		}
	}
	f := attempt.Failure{Code: attempt.CodeLimit}
	if f.Message(attempt.Token) == "" || f.Message(attempt.Token) != f.Message(attempt.Credentials) {
		t.Errorf("%q", f.Message(attempt.Token))
	}
}
