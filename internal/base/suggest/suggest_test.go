package suggest_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/suggest"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"login", "login", 0}, {"", "abc", 3}, {"lgoin", "login", 1}, {"acounts", "accounts", 1},
		{"kitten", "sitting", 3},
		{strings.Repeat("a", 500), strings.Repeat("a", 90), 0},
	} {
		if got := suggest.Distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := suggest.Distance(c.b, c.a); got != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
