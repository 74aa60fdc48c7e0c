package connect_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// signIns counts how often the platform got the password of a login.
func (r *fixture) signIns(email string) (n int) {
	r.t.Helper()
	list, _ := r.platform.Control(r.t, http.MethodGet, "requests?login="+url.QueryEscape(email), nil)["requests"].([]any)
	for _, one := range list {
		request, _ := one.(map[string]any)
		if path, _ := request["path"].(string); strings.HasSuffix(path, "/auth/login") {
			n++
		}
	}
	return n
}

// The clocks of two nodes differ, and each node runs steps of attempts that the other one started. A sign-in takes
// longer than the nodes wait between two looks for lost steps. The platform still gets every password exactly once.
func TestPasswordIsSentOnceWhenClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{20 * time.Second, time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, options{slow: 2 * time.Second})
			other := newFixture(t, options{beside: r, ahead: ahead})
			attempts := map[string]id.Attempt{}
			for range 3 {
				for _, node := range []*fixture{r, other} {
					email := login("slow")
					attempts[email] = node.start(email, "good", nil).ID
				}
			}
			for email, at := range attempts {
				r.waitFor(at, attempt.Success)
				if n := r.signIns(email); n != 1 {
					t.Errorf("the platform got the password of %s %d times", email, n)
				}
			}
		})
	}
}
