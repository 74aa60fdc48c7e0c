package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fakeTimeFixture is an Egress with proxies and a platform in memory, for synctest.
type fakeTimeFixture struct {
	*egress.Egress
	origins egress.Origins
	dials   atomic.Int64 // connections to proxies
	tunnels atomic.Int64 // tunnels that good proxies opened
	pipes   connSet
}

// newFakeTimeFixture returns a fixture. A proxy named "hang…" accepts connections and does not respond, one named
// "deaf…" does not accept connections, and all others work.
func newFakeTimeFixture(t *testing.T, regions string, handler http.HandlerFunc, check ...string) *fakeTimeFixture {
	t.Helper()
	list, err := egress.ParseRegions(secret.New(regions))
	must.OK(t, err)
	s := &fakeTimeFixture{}
	s.origins, err = egress.ParseOrigins("http://plain.test")
	must.OK(t, err)
	named, err := egress.ParseOrigins(check...)
	must.OK(t, err)
	s.Egress = egress.New(egress.Deps{Config: egress.Config{Regions: list, Check: named}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	conns := make(chan net.Conn)
	server := &http.Server{Handler: handler}
	listener := &pipes{conns: conns, done: make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	s.Reach(func(ctx context.Context, address string) (net.Conn, error) {
		s.dials.Add(1)
		if strings.HasPrefix(address, "deaf") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		near, far := net.Pipe()
		s.pipes.add(near)
		s.pipes.add(far)
		go func() {
			if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil || strings.HasPrefix(address, "hang") {
				return
			}
			s.tunnels.Add(1)
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\n\r\n")
			select {
			case conns <- far:
			case <-listener.done:
			}
		}()
		return near, nil
	})
	t.Cleanup(func() {
		s.Close()
		s.pipes.close()
		_ = server.Close()
		// net/http does not cancel a dial whose call has ended, so wait until the dial times out. Time does not
		// advance after the test.
		time.Sleep(time.Minute)
	})
	return s
}

// pipes is a listener for connections in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (s *fakeTimeFixture) get(t *testing.T, path string, limits egress.Limits) error {
	t.Helper()
	_, err := fetch(t, s.Client(egress.Identity{Region: "us", Account: "acct_1"}, s.origins), "http://plain.test"+path, limits)
	return err
}

// after runs a function and returns its error and duration as text.
func after(do func() error) string {
	started := time.Now()
	err := do()
	return fmt.Sprintf("%v after %s", err, time.Since(started))
}

// Each time limit of a call ends it on time, with its own error.
func TestSlowPlatformsAreCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		limits egress.Limits
		want   string
	}{
		"no header":          {"/hang", egress.Limits{}, egress.ErrNoAnswer.Error() + " after 20s"},
		"a method's timeout": {"/hang", egress.Limits{Header: 3 * time.Second}, egress.ErrNoAnswer.Error() + " after 3s"},
		"no more body":       {"/stall", egress.Limits{}, "read the response: " + egress.ErrStalled.Error() + " after 30s"},
		"a slow trickle":     {"/drip", egress.Limits{}, "read the response: " + egress.ErrTooLong.Error() + " after 1m0s"},
		"a long download":    {"/drip", egress.Limits{Total: egress.None}, "<nil> after 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTimeFixture(t, "us=http://good:1", func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/hang":
						<-r.Context().Done()
					case "/stall":
						fmt.Fprint(w, "some")
						_ = http.NewResponseController(w).Flush()
						<-r.Context().Done()
					case "/drip":
						for range 15 {
							select {
							case <-time.After(20 * time.Second):
							case <-r.Context().Done():
								return
							}
							fmt.Fprint(w, "x")
							_ = http.NewResponseController(w).Flush()
						}
					}
				})
				limits := c.limits
				if c.path == "/drip" {
					limits.Header = 25 * time.Second
				}
				if got := after(func() error { return s.get(t, c.path, limits) }); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

// The limits do not count the time that the caller takes to supply the request or to read the response, whether the
// response starts after the request or before its end.
func TestOnlyThePlatformsTimeCounts(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint(early), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTimeFixture(t, "us=http://good:1", func(w http.ResponseWriter, r *http.Request) {
					if early {
						control := http.NewResponseController(w)
						_ = control.EnableFullDuplex()
						_ = control.Flush()
					}
					text, _ := io.ReadAll(r.Body)
					_, _ = w.Write(text)
				})
				reader, writer := io.Pipe()
				go func() {
					for range 3 {
						time.Sleep(time.Minute)
						_, _ = writer.Write([]byte("x"))
					}
					_ = writer.Close()
				}()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://plain.test", reader)
				must.OK(t, err)
				resp, err := s.Client(egress.Identity{Region: "us", Account: "acct_1"}, s.origins).Do(req, egress.Limits{Total: egress.None})
				must.OK(t, err)
				defer resp.Body.Close()
				time.Sleep(time.Hour)
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "xxx" {
					t.Errorf("%s, %v", text, err)
				}
			})
		})
	}
}

// A call gives up on a proxy that does not accept connections after 5 s, on one that hangs after 8 s, and on all
// proxies together after 13 s.
func TestHangingProxiesDoNotAddUp(t *testing.T) {
	t.Parallel()
	for regions, want := range map[string]string{
		"us=http://deaf:1":                                "5s",
		"us=http://hang:1":                                "8s",
		"us=socks5://hang:1":                              "8s",
		"us=http://hang:1,http://hang:2,http://hang:3":    "13s",
		"us=http://deaf:1,http://deaf:2,socks5://hang5:1": "13s",
	} {
		t.Run(regions, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTimeFixture(t, regions, nil)
				started := time.Now()
				err := s.get(t, "/", egress.Limits{})
				if took := time.Since(started); took.String() != want || !errors.Is(err, problem.EgressUnavailable.New("")) || !errors.Is(err, egress.ErrNotSent) {
					t.Errorf("%v after %s, want %s", err, took, want)
				}
			})
		})
	}
}

// A call that moves from a hanging proxy to a working one still has the platform's full time.
func TestAHangingProxyCostsOnlyItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://hang:1,http://good:1", func(http.ResponseWriter, *http.Request) { time.Sleep(19 * time.Second) })
		for n := range 20 {
			client := s.Client(egress.Identity{Region: "us", Account: fmt.Sprintf("acct_%d", n)}, s.origins)
			got := after(func() error { _, err := fetch(t, client, "http://plain.test", egress.Limits{}); return err })
			if got != "<nil> after 19s" && got != "<nil> after 27s" {
				t.Error(got)
			}
		}
		// At most two calls lost 8 s each; then the proxy was down.
		if st := s.Status(); st[0].Healthy || st[0].Reason != "slow" || !st[1].Healthy {
			t.Errorf("%+v", st)
		}
	})
}

// A slow tunnel may be the platform's fault. With configured check addresses, only the checks decide about the proxy.
func TestSlowTunnelLeavesTheDecisionToChecks(t *testing.T) {
	t.Parallel()
	for name, check := range map[string][]string{"named": {"http://checked.test"}, "not named": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTimeFixture(t, "us=http://hang:1", nil, check...)
				for range 3 {
					if err := s.get(t, "/", egress.Limits{}); !errors.Is(err, problem.EgressUnavailable.New("")) {
						t.Error(err)
					}
				}
				if s.Available("us") != (check != nil) {
					t.Errorf("after three calls: %+v", s.Status())
				}
				s.Check(t.Context())
				s.Check(t.Context())
				if s.Available("us") {
					t.Errorf("after two checks: %+v", s.Status())
				}
			})
		})
	}
}

// Connections that were idle for a minute are closed.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://good:1", func(http.ResponseWriter, *http.Request) {})
		for _, wait := range []time.Duration{0, 59 * time.Second, 59 * time.Second, 61 * time.Second} {
			time.Sleep(wait)
			must.OK(t, s.get(t, "/", egress.Limits{}))
		}
		if n, want := s.dials.Load(), connections(4, 2); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
	})
}

// Run checks proxies every five seconds. A proxy goes down after two failed checks and comes back after three
// successful ones.
func TestRunChecksTheProxies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://good:1", func(http.ResponseWriter, *http.Request) {})
		var down atomic.Bool
		s.Reach(func(context.Context, string) (net.Conn, error) {
			s.dials.Add(1)
			if down.Load() {
				return nil, errors.New("down")
			}
			near, far := net.Pipe()
			_ = far.Close()
			return near, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Millisecond) // all times below are just after a check
		step := func(seconds int, dials int64, available bool) {
			t.Helper()
			time.Sleep(time.Duration(seconds) * time.Second)
			if s.dials.Load() != dials || s.Available("us") != available {
				t.Errorf("%d dials, available: %v; want %d, %v", s.dials.Load(), s.Available("us"), dials, available)
			}
		}
		step(0, 1, true)
		step(50, 11, true)
		down.Store(true)
		step(5, 12, true)
		step(5, 13, false)
		down.Store(false)
		step(10, 15, false)
		step(5, 16, true)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Checks of a working proxy do not involve the platform. A proxy that has failed must open a tunnel.
func TestChecksLeaveThePlatformAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://good:1", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
		must.OK(t, s.get(t, "/", egress.Limits{}))
		s.Check(t.Context()) // not needed: a call has just succeeded
		if s.dials.Load() != 1 {
			t.Errorf("%d dials", s.dials.Load())
		}
		time.Sleep(time.Minute)
		s.Check(t.Context())
		if s.dials.Load() != 2 || s.tunnels.Load() != 1 {
			t.Errorf("%d dials, %d tunnels", s.dials.Load(), s.tunnels.Load())
		}
		var down atomic.Bool
		s.Between(func(ctx context.Context, address string, connect func(context.Context, string) (net.Conn, error)) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("down")
			}
			return connect(ctx, address)
		})
		down.Store(true)
		if err := s.get(t, "/", egress.Limits{}); !errors.Is(err, problem.EgressUnavailable.New("")) {
			t.Error(err)
		}
		down.Store(false)
		s.Check(t.Context())
		if s.tunnels.Load() != 2 {
			t.Errorf("%d tunnels", s.tunnels.Load())
		}
	})
}

// A proxy goes down after two consecutive failures and comes back after three consecutive successes. Mixed results
// change nothing.
func TestHealthHasHysteresis(t *testing.T) {
	t.Parallel()
	for results, want := range map[string]string{
		"+":          "u",
		"-":          "u",
		"--":         "ud",
		"-+-+-+":     "uuuuuu",
		"--+":        "udd",
		"--++-++-":   "uddddddd",
		"--+++":      "udddu",
		"--+++-+--":  "uddduuuud",
		"--------++": "uddddddddd",
	} {
		var list []bool
		for _, r := range results {
			list = append(list, r == '+')
		}
		got := ""
		for _, down := range egress.Health(list...) {
			got += map[bool]string{true: "d", false: "u"}[down]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", results, got, want)
		}
	}
}

// A time-out while this node is starved says nothing about the proxy, in a call or in a check. Any other time-out takes
// the proxy down, and so does a definite failure of the proxy.
func TestAStarvedNodeDoesNotBlameAProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proxy     string
		starved   bool
		available bool
	}{
		"no connection":               {"deaf", false, false},
		"no connection while starved": {"deaf", true, true},
		"no tunnel":                   {"hang", false, false},
		"no tunnel while starved":     {"hang", true, true},
		"refused while starved":       {"none", true, false},
		"no file descriptor":          {"exhausted", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTimeFixture(t, "us=http://"+c.proxy+".test:1", func(http.ResponseWriter, *http.Request) {})
				s.Starve(c.starved)
				if c.proxy == "none" {
					s.Reach(func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
				}
				if c.proxy == "exhausted" {
					s.Reach(func(context.Context, string) (net.Conn, error) {
						return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
					})
				}
				for range 3 {
					err := s.get(t, "/", egress.Limits{})
					if err == nil {
						t.Error("the call succeeded")
					}
					if ours := errors.Is(err, problem.ServiceUnavailable.New("")); ours != (c.proxy == "exhausted") {
						t.Error(err)
					}
					s.Check(t.Context())
				}
				if s.Available("us") != c.available {
					t.Errorf("the region is available: %v, want %v", !c.available, c.available)
				}
			})
		})
	}
}

// When the starvation has ended, time-outs count again.
func TestAProxyIsBlamedAfterTheStarvation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://deaf.test:1", func(http.ResponseWriter, *http.Request) {})
		for _, starved := range []bool{true, false} {
			s.Starve(starved)
			for range 2 {
				_ = s.get(t, "/", egress.Limits{})
			}
			if s.Available("us") != starved {
				t.Errorf("starved: %v, the region is available: %v", starved, s.Available("us"))
			}
		}
	})
}
