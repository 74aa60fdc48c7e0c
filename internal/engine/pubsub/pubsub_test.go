package pubsub_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
)

// Whatever a token contains, the subject has exactly its tokens and no wildcard.
func FuzzSubject(f *testing.F) {
	for _, seed := range []string{"org_1", "*", ">", "a.b", "", " ", "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		subject, err := pubsub.Subject("inv", token, "x")
		if err != nil {
			return
		}
		if parts := strings.Split(subject, "."); len(parts) != 3 || parts[1] == "" || strings.ContainsAny(subject, "*> \t\r\n") {
			t.Fatalf("Subject(%q) = %q", token, subject)
		}
	})
}
