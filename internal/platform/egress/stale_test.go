package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// breakableConn is a connection whose writes fail once dead is set, while reads do not notice.
type breakableConn struct {
	net.Conn
	dead *atomic.Bool
}

func (m breakableConn) Write(p []byte) (int, error) {
	if m.dead.Load() {
		return 0, syscall.EPIPE
	}
	return m.Conn.Write(p)
}

// If a reused connection turns out to be dead before anything was sent, the write is sent once on a new connection:
// of the same proxy, or of another one if that proxy is gone too.
func TestAWriteSurvivesADeadConnection(t *testing.T) {
	t.Parallel()
	if !usesCall() {
		return // Do keeps no connections
	}
	for name, c := range map[string]struct {
		regions string
		gone    bool // the proxy goes with the connection
		want    string
	}{
		"the connection alone":  {"us=http://good:1", false, "1 hello"},
		"its proxy is gone too": {"us=http://good:1,http://good:2", true, "1 hello"},
		"no other proxy":        {"us=http://good:1", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var posts atomic.Int64
				s := newFakeTimeFixture(t, c.regions, func(w http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					if r.Method == http.MethodPost {
						fmt.Fprintf(w, "%d %s", posts.Add(1), text)
					}
				})
				var dead atomic.Bool
				var first atomic.Pointer[string]
				s.Between(func(ctx context.Context, address string, connect func(context.Context, string) (net.Conn, error)) (net.Conn, error) {
					if first.CompareAndSwap(nil, &address) {
						conn, err := connect(ctx, address)
						return breakableConn{conn, &dead}, err
					}
					if c.gone && *first.Load() == address {
						return nil, syscall.ECONNREFUSED
					}
					return connect(ctx, address)
				})
				must.OK(t, s.get(t, "/", egress.Limits{}))
				dead.Store(true)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://plain.test", strings.NewReader("hello"))
				must.OK(t, err)
				got, err := send(s.Client(egress.Identity{Region: "us", Account: "acct_1"}, s.origins), req, egress.Limits{})
				if got != c.want || (err == nil) != (c.want != "") {
					t.Errorf("%q, %v", got, err)
				}
				if notSent := errors.Is(err, egress.ErrNotSent); err != nil && notSent != c.gone {
					t.Errorf("ErrNotSent: %v; %v", notSent, err)
				}
			})
		})
	}
}
