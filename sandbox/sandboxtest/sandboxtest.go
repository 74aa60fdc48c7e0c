// Package sandboxtest runs a separate sandbox platform for a test.
package sandboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Platform is a running sandbox with an HTTP server.
type Platform struct {
	*sandbox.Platform
	URL string
	t   testing.TB
}

// New starts a platform that closes when the test ends. change may be nil.
func New(t testing.TB, change func(*sandbox.Config)) *Platform {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	cfg := sandbox.Config{
		Data: filepath.Join(t.TempDir(), "sandbox.db"), Origin: "http://" + server.Listener.Addr().String(),
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := sandbox.New(t.Context(), cfg)
	OK(t, err)
	server.Config.Handler = p
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Platform{Platform: p, URL: server.URL, t: t}
}

// Control sends a request to the control API and decodes the response, with numbers as json.Number. It fails the test
// unless the status is 200.
func (p *Platform) Control(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	a := p.send(t, method, p.URL+"/control/"+path, body, nil)
	if a.Status != http.StatusOK {
		t.Fatalf("%s /control/%s: %d %v", method, path, a.Status, a.Body)
	}
	return a.Body
}

// send sends a request and decodes the response.
func (p *Platform) send(t testing.TB, method, url string, body any, header http.Header) Answer {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		OK(t, err)
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	OK(t, err)
	r.Header = header
	res, err := http.DefaultClient.Do(r)
	OK(t, err)
	defer res.Body.Close()
	a := Answer{Status: res.StatusCode}
	decoder := json.NewDecoder(res.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&a.Body); err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return a
}

// Client is a signed-in creator.
type Client struct {
	Login    string
	Session  world.Session
	platform *Platform
	mu       sync.Mutex
	frames   *world.Listener
	came     [][]byte
}

// SignIn opens a session for a login directly, without the sign-in requests.
func (p *Platform) SignIn(login string) *Client {
	p.t.Helper()
	c := &Client{Login: login, platform: p}
	err := p.World.Do(login, func(creator *world.Creator) error {
		c.Session.Owner = creator.Profile.ID
		return nil
	})
	if err == nil {
		c.Session, err = p.World.NewSession(world.Session{
			Login: login, Owner: c.Session.Owner, Device: "test", Agent: "test", ExpiresAt: p.World.Now().AddDate(10, 0, 0), // a test may advance the clock
		})
	}
	if err == nil {
		c.frames, err = p.World.Listen(login, "test")
	}
	OK(p.t, err)
	p.t.Cleanup(c.frames.Close)
	return c
}

// Visit calls visit with the creator of a login. It fails the test if the creator cannot be loaded or stored.
func (p *Platform) Visit(login string, visit func(c *world.Creator)) {
	p.t.Helper()
	err := p.World.Do(login, func(c *world.Creator) error {
		visit(c)
		return nil
	})
	OK(p.t, err)
}

// Order runs a happening on the creator of a login.
func (p *Platform) Order(login, what string, in fanaction.Input) {
	p.t.Helper()
	if err := p.TryOrder(login, what, in); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// TryOrder is Order for a happening that may be refused.
func (p *Platform) TryOrder(login, what string, in fanaction.Input) error {
	return p.World.Do(login, func(c *world.Creator) error { return sandbox.Happenings()[what](c, in) })
}

// Advance moves the platform's clock. It rotates the tokens of sessions.
func (p *Platform) Advance(by time.Duration) {
	p.t.Helper()
	OK(p.t, p.World.Advance(by))
}

// Person returns the id of the n-th seeded person, counted from 1. Fans come first.
func (c *Client) Person(n int) int64 { return row.SeedID(c.Session.Owner, row.KindPerson, n) }

// Answer is a decoded response.
type Answer struct {
	Status int
	Body   map[string]any // numbers are json.Number
}

// Do sends a request to a path below sandbox.Base and decodes the response.
func (c *Client) Do(method, path string, body any) Answer {
	c.platform.t.Helper()
	cookies := fmt.Sprintf("sess=%s; auth_id=%d", c.Session.Token, c.Session.Owner)
	header := http.Header{"Cookie": {cookies}, "X-Device": {c.Session.Device}}
	return c.platform.send(c.platform.t, method, c.platform.URL+sandbox.Base+path, body, header)
}

// Must is like Do, but fails the test unless the status is 200.
func (c *Client) Must(method, path string, body any) Answer {
	c.platform.t.Helper()
	a := c.Do(method, path, body)
	if a.Status != http.StatusOK {
		c.platform.t.Fatalf("%s %s: %d %v", method, path, a.Status, a.Body)
	}
	return a
}

// Refuse is like Do, but fails the test unless the platform refuses the request with a status.
func (c *Client) Refuse(status int, method, path string, body any) {
	c.platform.t.Helper()
	if a := c.Do(method, path, body); a.Status != status {
		c.platform.t.Errorf("%s %s %v: %d %v, want %d", method, path, body, a.Status, a.Body, status)
	}
}

// All reads every page of a list, and fails the test if an id appears twice. The path must have a query.
func (c *Client) All(path string) (list []map[string]any) {
	c.platform.t.Helper()
	seen, marker := map[any]bool{}, ""
	for {
		page := c.Must("GET", path+marker, nil)
		for _, one := range page.Get("list").([]any) {
			item := one.(map[string]any)
			if id := item["id"]; id != nil && seen[id] {
				c.platform.t.Fatalf("%s: %v appears twice", path, id)
			}
			seen[item["id"]] = true
			list = append(list, item)
		}
		if page.Get("has_more") != true {
			return list
		}
		marker = "&marker=" + page.Text("next_marker")
	}
}

// Get returns a value of the body by field names and indexes, as in Get("list", 0, "id"). Negative indexes count from
// the end. It returns nil if there is no such value.
func (a Answer) Get(path ...any) any {
	var at any = a.Body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := at.(map[string]any)
			at = m[step]
		case int:
			l, _ := at.([]any)
			if step < 0 {
				step += len(l)
			}
			if step < 0 || step >= len(l) {
				return nil
			}
			at = l[step]
		}
	}
	return at
}

// Text returns the value of Get as a string.
func (a Answer) Text(path ...any) string { return fmt.Sprint(a.Get(path...)) }

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Number converts a JSON number to an integer.
func Number(t testing.TB, v any) int64 {
	t.Helper()
	number, _ := v.(json.Number)
	n, err := number.Int64()
	if err != nil {
		t.Fatalf("%v is not an integer", v)
	}
	return n
}

// Cents converts a decimal number of dollars without rounding.
func Cents(t testing.TB, v any) int64 {
	t.Helper()
	number, _ := v.(json.Number)
	sum, ok := new(big.Rat).SetString(number.String())
	if !ok || !sum.Mul(sum, big.NewRat(100, 1)).IsInt() {
		t.Fatalf("%v is not an amount in whole cents", v)
	}
	return sum.Num().Int64()
}

// Frame waits for the next frame of a type and returns its body. It skips other frames.
func (c *Client) Frame(kind string) map[string]any {
	t := c.platform.t
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	timeout := time.After(20 * time.Second)
	for {
		for len(c.came) > 0 {
			text := c.came[0]
			c.came = c.came[1:]
			if f := decode(t, text); f.Type == kind {
				return f.Body
			}
		}
		select {
		case <-c.frames.Ready:
			c.came = c.frames.Take()
		case <-timeout:
			t.Fatalf("no frame %s arrived", kind)
		}
	}
}

type frame struct {
	Type string         `json:"type"`
	Body map[string]any `json:"body"`
}

func decode(t testing.TB, text []byte) frame {
	t.Helper()
	var f frame
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	OK(t, decoder.Decode(&f))
	return f
}
