package transfer_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// seenRequest is a request that reached the platform.
type seenRequest struct {
	method, path, from string
	header             http.Header
	length             int64
}

// platformFront sits in front of the sandbox. It records requests and can replace the handlers of paths.
type platformFront struct {
	http.Handler
	mu       sync.Mutex
	seen     []seenRequest
	handlers map[string]http.HandlerFunc // by prefix of the path
}

func (f *platformFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	f.mu.Lock()
	f.seen = append(f.seen, seenRequest{r.Method, r.URL.Path, host, r.Header.Clone(), r.ContentLength})
	play := f.Handler.ServeHTTP
	for path, own := range f.handlers {
		if strings.HasPrefix(r.URL.Path, path) {
			play = own
		}
	}
	f.mu.Unlock()
	play(w, r)
}

// handle replaces the handler of paths with a prefix.
func (f *platformFront) handle(path string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[path] = h
}

func (f *platformFront) unhandle(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.handlers, path)
}

func (f *platformFront) requests(path string) (list []seenRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if strings.HasPrefix(s.path, path) {
			list = append(list, s)
		}
	}
	return list
}

// fixture is Transfers between an HTTP server for callers and a sandbox behind proxies.
type fixture struct {
	*transfer.Transfers
	t       *testing.T
	front   *platformFront
	origin  string
	server  *httptest.Server
	account account.Account
	session driver.Session
	driver  *driver.HTTP
	catalog *catalog.Catalog
	metrics *prometheus.Registry
	// ready is the error of Ready, may the key's allow-list, and maxBytes the org's limit.
	ready    error
	may      func(*catalog.Method) bool
	maxBytes int

	sent, received atomic.Int64
	mu             sync.Mutex
	called         []string
}

// setup changes the defaults of a fixture.
type setup struct {
	config transfer.Config
	// timeout is the server's read and write timeout. Transfers must outlive it.
	timeout time.Duration
	region  string
	cookies bool
}

// inProgress returns the gauge of transfers in progress.
func (r *fixture) inProgress() float64 {
	r.t.Helper()
	return metric.Value(r.t, r.metrics, "stagedoor_transfers")
}

func newFixture(t *testing.T, s setup) *fixture {
	t.Helper()
	platform := httptest.NewUnstartedServer(nil)
	world := sandboxtest.New(t, func(cfg *sandbox.Config) { cfg.Origin = "http://" + platform.Listener.Addr().String() })
	f := &platformFront{Handler: world, handlers: map[string]http.HandlerFunc{}}
	platform.Config.Handler = f
	platform.Config.ErrorLog = log.New(io.Discard, "", 0)
	platform.Start()
	t.Cleanup(platform.Close)
	known, err := catalog.Sandbox()
	must.OK(t, err)
	c := *known
	own := *known.Files
	c.Files, own.Cookies = &own, s.cookies
	drv := testplatform.New(t, testplatform.Setup{Running: world, Catalog: &c, Origin: platform.URL}).Driver
	files, err := drv.Files()
	must.OK(t, err)
	r := &fixture{t: t, front: f, origin: platform.URL, driver: drv, catalog: &c, maxBytes: 1 << 30, metrics: prometheus.NewRegistry()}
	r.may = func(*catalog.Method) bool { return true }
	r.account = account.Account{ID: id.New[id.Account](), Place: driver.Place{Platform: c.ID}, Region: "us"}
	if s.region != "" {
		r.account.Region = s.region
	}
	r.Transfers = transfer.New(transfer.Deps{
		Config: s.config, Platforms: registry.Of(registry.Platform{Catalog: &c, Files: files}).Get,
		Accounts: r, Call: r.call, Meter: r, Registry: r.metrics,
	})
	r.signIn()
	r.serve(s.timeout)
	return r
}

func (r *fixture) signIn() {
	r.t.Helper()
	step, err := r.driver.SignIn(r.t.Context(), r.account.Via(), secret.New("ok+1@sandbox.test"), secret.New("good"), driver.Session{})
	if err != nil || step.Session == nil {
		r.t.Fatalf("sign in: %+v, %v", step.Failure, err)
	}
	r.session = *step.Session
}

func (r *fixture) Ready(context.Context, id.Org, id.Account, admission.Decision) (account.Account, driver.Session, error) {
	return r.account, r.session, r.ready
}

func (r *fixture) PlatformOf(context.Context, id.Org, id.Account) (string, error) {
	return r.account.Place.Platform, nil
}

// Carried counts bytes.
func (r *fixture) Carried(_ id.Org, region string, sent, received int64) {
	if region != r.account.Region {
		r.t.Errorf("%d bytes counted for %s", sent+received, region)
	}
	r.sent.Add(sent)
	r.received.Add(received)
}

// call calls a method through the driver.
func (r *fixture) call(ctx context.Context, _ id.Org, _ id.Account, _ admission.Decision, m *catalog.Method, args catalog.Args) ([]byte, error) {
	r.mu.Lock()
	r.called = append(r.called, m.ID())
	r.mu.Unlock()
	a, err := r.driver.Call(ctx, r.account.Via(), r.session, m, args)
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		err = refused.Problem(m)
	}
	return a.Result, err
}

func (r *fixture) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.called...)
}

func (r *fixture) callMethod(name, args string) map[string]any {
	r.t.Helper()
	resource, method, _ := strings.Cut(name, ".")
	m, ok := r.catalog.Method(resource, method)
	if !ok {
		r.t.Fatalf("no method %s", name)
	}
	parsed, err := m.FromObject([]byte(args), false)
	must.OK(r.t, err)
	result, err := r.call(r.t.Context(), "", "", admission.Decision{}, m, parsed)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	var out map[string]any
	must.OK(r.t, json.Unmarshal(result, &out))
	return out
}

// serve starts a server with timeouts like a node's and a minimal API.
func (r *fixture) serve(timeout time.Duration) {
	mux := http.NewServeMux()
	handle := func(pattern string, h func(w http.ResponseWriter, req *http.Request, c transfer.Caller) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			rec := &recorder{ResponseWriter: w}
			err := h(rec, req, transfer.Caller{
				Org: "org_1", Account: r.account.ID, May: r.may, MaxBytes: r.maxBytes,
			})
			if err == nil {
				return
			}
			if rec.begun {
				panic(http.ErrAbortHandler)
			}
			p := problem.Of(err)
			text, _ := p.Document(problem.Place{ProblemsURL: "http://x", Instance: "urn:request:1"})
			if p.Kind.Code == problem.Internal.Code && req.Context().Err() == nil {
				r.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
			}
			w.Header().Set("Content-Type", problem.ContentType)
			w.WriteHeader(p.Kind.Status)
			_, _ = w.Write(text)
		})
	}
	handle("GET /media/{id}", func(w http.ResponseWriter, req *http.Request, c transfer.Caller) error {
		return r.Download(w, req, c, req.PathValue("id"), req.URL.Query().Get("quality"))
	})
	handle("GET /media", func(w http.ResponseWriter, req *http.Request, c transfer.Caller) error {
		return r.Fetch(w, req, c, req.URL.Query().Get("url"))
	})
	handle("POST /media", func(w http.ResponseWriter, req *http.Request, c transfer.Caller) error {
		query := req.URL.Query()
		result, err := r.Upload(w, req, c, transfer.Given{FileName: query.Get("fileName"), SHA256: query.Get("sha256")})
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(result)
		}
		return err
	})
	handle("PUT /media/uploads/{upload}/parts/{n}", func(w http.ResponseWriter, req *http.Request, c transfer.Caller) error {
		n, _ := strconv.Atoi(req.PathValue("n"))
		etag, err := r.Part(w, req, c, req.PathValue("upload"), n)
		if err == nil {
			fmt.Fprintf(w, `{"etag":%q}`, etag)
		}
		return err
	})
	r.server = httptest.NewUnstartedServer(mux)
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	timeout = cmp.Or(timeout, time.Minute)
	r.server.Config.ReadTimeout, r.server.Config.WriteTimeout = timeout, timeout
	r.server.Start()
	r.t.Cleanup(r.server.Close)
}

type recorder struct {
	http.ResponseWriter
	begun bool
}

func (r *recorder) WriteHeader(status int) {
	r.begun = true
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.begun = true
	return r.ResponseWriter.Write(b)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// reply is a response with its whole body.
type reply struct {
	status int
	header http.Header
	body   []byte
	// cut is the error that ended the body, if one did.
	cut error
}

func (a reply) json(name string) any {
	var members map[string]any
	_ = json.Unmarshal(a.body, &members)
	return members[name]
}

func (a reply) code() string {
	code, _ := a.json("code").(string)
	return code
}

// do makes a request. headers are pairs of names and values.
func (r *fixture) do(method, target string, body io.Reader, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+target, body)
	must.OK(r.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Content-Length" {
			req.ContentLength, _ = strconv.ParseInt(headers[i+1], 10, 64)
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.server.Client().Do(req)
	if err != nil {
		r.t.Errorf("%s %s: %v", method, target, err)
		return reply{}
	}
	defer resp.Body.Close()
	text, cut := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, text, cut}
}

// mediumID returns the id of a photo in the creator's vault.
func (r *fixture) mediumID() string {
	r.t.Helper()
	items, _ := r.callMethod("vault.list", `{"type":"photo","limit":1}`)["items"].([]any)
	one, _ := items[0].(map[string]any)
	return fmt.Sprint(one["id"])
}

// fetchDirectly returns a file directly from the platform.
func (r *fixture) fetchDirectly(medium, quality string) []byte {
	r.t.Helper()
	address := r.callMethod("vault.getDownloadUrl", fmt.Sprintf(`{"mediaId":%q,"quality":%q}`, medium, quality))["url"]
	resp, err := http.Get(fmt.Sprint(address))
	must.OK(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return text
}

// awaitIdle waits until no transfer is in progress.
func (r *fixture) awaitIdle() {
	r.t.Helper()
	testenv.Await(r.t, "no transfer is in progress", func() bool { return r.inProgress() == 0 })
}

// content returns pseudo-random bytes.
func content(size int) []byte {
	out := make([]byte, size)
	x := uint32(size)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func reader(b []byte) io.Reader { return bytes.NewReader(b) }
