// Package gate handles what comes before the platform answers a request: the request log, injected faults, the session
// check and the platform's own rate limit.
package gate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// keptEntries limits the request log. Newer requests replace the oldest.
const keptEntries = 50_000

// Entry is one request in the request log.
type Entry struct {
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Egress string    `json:"egress"`
	Status int       `json:"status"`
	Login  string    `json:"login,omitempty"`
}

// Deps holds the dependencies of a Gate.
type Deps struct {
	World *world.World
	Log   *slog.Logger
	// Regions maps source addresses to region names. Any other address is "direct".
	Regions map[string]string
	// PerMinute limits the calls per minute of a session. Zero means no limit.
	PerMinute int
	Now       func() time.Time
}

// Gate checks and logs every request to the platform.
type Gate struct {
	deps   Deps
	Faults *Faults
	// Bearer returns the session of an access token. It is set before the first request.
	Bearer func(token string) (world.Session, error)

	mu      sync.Mutex
	entries []Entry
	next    int
	calls   map[int64]minute // by session
}

type minute struct {
	at time.Time
	n  int
}

// Now returns the machine's time.
func (g *Gate) Now() time.Time { return g.deps.Now() }

// PlatformNow returns the time of the platform's clock.
func (g *Gate) PlatformNow() time.Time { return g.deps.World.Now() }

// New returns a Gate without faults.
func New(d Deps) *Gate {
	return &Gate{deps: d, Faults: &Faults{Now: d.Now}, calls: map[int64]minute{}}
}

// Egress returns the region that a request came from.
func (g *Gate) Egress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	if region, ok := g.deps.Regions[host]; ok {
		return region
	}
	return "direct"
}

// Record adds a request to the request log. The login is empty if the request had no session.
func (g *Gate) Record(r *http.Request, login string, status int) {
	e := Entry{At: g.deps.World.Now(), Method: r.Method, Path: r.URL.Path, Egress: g.Egress(r), Status: status, Login: login}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.entries) < keptEntries {
		g.entries = append(g.entries, e)
		return
	}
	g.entries[g.next] = e
	g.next = (g.next + 1) % keptEntries
}

// Entries returns the logged requests, oldest first. If login is not empty, it returns only those of that login.
func (g *Gate) Entries(login string) []Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []Entry{}
	for i := range g.entries {
		e := g.entries[(g.next+i)%len(g.entries)]
		if login == "" || e.Login == login {
			list = append(list, e)
		}
	}
	return list
}

// Forget empties the request log and resets the rate limits.
func (g *Gate) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries, g.next = nil, 0
	clear(g.calls)
}

// Refusals of the gate.
var (
	// ErrExpired refuses a session that has ended or does not exist.
	ErrExpired  = &wire.Refusal{Status: http.StatusUnauthorized, Code: 1002, Name: "session_expired", Message: "Your session has ended. Please sign in again."}
	errDevice   = &wire.Refusal{Status: http.StatusUnauthorized, Code: 1003, Name: "device_unknown", Message: "This session belongs to another device."}
	errBanned   = &wire.Refusal{Status: http.StatusForbidden, Code: 1024, Name: "account_restricted", Message: "Your account is restricted. Please contact support."}
	errNoRoute  = &wire.Refusal{Status: http.StatusNotFound, Code: 2002, Name: "not_found", Message: "There is nothing here."}
	errInternal = &wire.Refusal{Status: http.StatusInternalServerError, Code: 5000, Name: "server_error", Message: "Something went wrong on our side."}
)

// Session returns the session of a request, by its access token or by its cookies. It sets a new cookie if the session's
// token changed.
func (g *Gate) Session(w http.ResponseWriter, r *http.Request) (world.Session, error) {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") && g.Bearer != nil {
		s, err := g.Bearer(token)
		if err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		return s, err
	}
	cookie, err := r.Cookie("sess")
	if err != nil {
		return world.Session{}, ErrExpired
	}
	s, rotated, ok := g.deps.World.FindSession(cookie.Value)
	if !ok {
		return world.Session{}, ErrExpired
	}
	if owner, err := r.Cookie("auth_id"); err != nil || owner.Value != strconv.FormatInt(s.Owner, 10) {
		return s, ErrExpired
	}
	if r.Header.Get("X-Device") != s.Device {
		return s, errDevice
	}
	// A caller with the old token has not seen the new one yet. Another rotation would end the only token it has.
	if !rotated {
		if f, ordered := g.Faults.Take(s.Login, Rotate); ordered && f.Hits%max(f.Value, 1) == 0 {
			if s, rotated = g.deps.World.RotateSession(s); !rotated {
				return s, ErrExpired
			}
		}
	}
	if rotated {
		http.SetCookie(w, SessionCookie(s))
	}
	return s, nil
}

// SessionCookie returns the cookie with a session's token.
func SessionCookie(s world.Session) *http.Cookie {
	return &http.Cookie{Name: "sess", Value: s.Token, Path: "/", Expires: s.ExpiresAt, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// Handle returns a handler that serves a route to the creator who is signed in.
func (g *Gate) Handle(route wire.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := g.Session(w, r)
		status := 0
		defer func() { g.Record(r, s.Login, status) }()
		// Read the body before anything that may take long: the server notices a disconnect only after that.
		c, unreadable := wire.NewCall(g.deps.World, r, s)
		trouble := g.Trouble
		if route.Live {
			trouble = g.LiveTrouble
		}
		if trouble(w, r, s.Login, &status) {
			return
		}
		if err == nil {
			err = g.limit(s)
		}
		if err == nil {
			err = unreadable
		}
		var answer any
		if err == nil {
			answer, err = g.answer(route, c, s)
		}
		status = g.Write(w, answer, err)
	}
}

func (g *Gate) answer(route wire.Route, c *wire.Call, s world.Session) (any, error) {
	var answer any
	err := g.deps.World.Do(s.Login, func(creator *world.Creator) error {
		if err := Allowed(creator); err != nil {
			return err
		}
		c.Creator = creator
		result, err := route.Handle(c)
		if err != nil {
			return err
		}
		// Encode while the creator is locked, because views share its rows.
		answer, err = json.Marshal(result)
		if creator.Profile.Persona == "logout" && c.Request.Method != http.MethodGet {
			creator.EndSession(s.ID)
		}
		return err
	})
	return answer, err
}

// Allowed returns a refusal if the creator is banned.
func Allowed(c *world.Creator) error {
	if at := c.Profile.BannedAt; !at.IsZero() && !c.Now().Before(at) {
		return errBanned
	}
	return nil
}

// limit enforces the platform's own rate limit.
func (g *Gate) limit(s world.Session) error {
	if g.deps.PerMinute <= 0 {
		return nil
	}
	now := g.deps.World.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.calls[s.ID]
	if now.Before(m.at) || now.Sub(m.at) >= time.Minute {
		m = minute{at: now}
	}
	m.n++
	g.calls[s.ID] = m
	if m.n > g.deps.PerMinute {
		return tooMany(int((time.Minute-now.Sub(m.at))/time.Second) + 1)
	}
	return nil
}

func tooMany(seconds int) error {
	return &wire.Refusal{
		Status: http.StatusTooManyRequests, Code: 3001, Name: "too_many_requests", Message: "You are sending requests too fast.", RetryAfter: seconds,
	}
}

// Write sends an answer or an error as JSON and returns the status it sent.
func (g *Gate) Write(w http.ResponseWriter, answer any, err error) int {
	status := http.StatusOK
	body, encoded := answer.([]byte)
	if err != nil {
		refusal, ok := errors.AsType[*wire.Refusal](err)
		if !ok {
			g.deps.Log.Error("request failed", slog.String("error", err.Error()))
			refusal = errInternal
		}
		if refusal.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(refusal.RetryAfter))
		}
		status, encoded = refusal.Status, false
		answer = map[string]any{"error": refusal}
	}
	if !encoded {
		if body, err = json.Marshal(answer); err != nil {
			g.deps.Log.Error("encoding an answer failed", slog.String("error", err.Error()))
			status, body = http.StatusInternalServerError, []byte(`{}`)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return status
}

// NoRoute answers requests to unknown paths.
func (g *Gate) NoRoute(w http.ResponseWriter, r *http.Request) {
	g.Record(r, "", g.Write(w, nil, errNoRoute))
}

// Trouble applies the faults of a login to a request. It reports whether it has written the response.
func (g *Gate) Trouble(w http.ResponseWriter, r *http.Request, login string, status *int) bool {
	return g.trouble(w, r, login, status, g.Faults.Take)
}

// LiveTrouble is Trouble for the live connection. It ignores faults with a count, which are meant for calls.
func (g *Gate) LiveTrouble(w http.ResponseWriter, r *http.Request, login string, status *int) bool {
	return g.trouble(w, r, login, status, g.Faults.TakeLasting)
}

func (g *Gate) trouble(w http.ResponseWriter, r *http.Request, login string, status *int, take func(login, kind string) (Fault, bool)) bool {
	if f, ok := take(login, Latency); ok {
		wait(r, time.Duration(f.Value)*time.Millisecond)
	}
	if f, ok := take(login, RateLimit); ok {
		*status = g.Write(w, nil, tooMany(f.Value))
		return true
	}
	if f, ok := take(login, Error); ok {
		*status = g.Write(w, nil, &wire.Refusal{Status: f.Value, Code: 5000 + f.Value%100, Name: "server_error", Message: "Something went wrong on our side."})
		return true
	}
	if _, ok := take(login, Hang); ok {
		wait(r, time.Hour)
		*status = 499
		return true
	}
	if f, ok := take(login, Garbage); ok {
		*status = http.StatusOK
		garbage(w, f.Value)
		return true
	}
	return false
}

func wait(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.Context().Done():
	case <-t.C:
	}
}

func garbage(w http.ResponseWriter, kind int) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch kind {
	case 1:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!doctype html><title>Checking your browser</title><p>One moment…</p>"))
	case 2:
		chunk := bytes.Repeat([]byte(`{"list":[],"padding":"xxxxxxxxxxxxxxxx"},`), 1000)
		for range 2000 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	case 3:
		_, _ = w.Write([]byte(strings.Repeat("[", 1_000_000)))
	case 4:
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 256 {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		_ = z.Close()
	default:
		_, _ = w.Write([]byte(`{"list":[{"id":12,"text":"cut o`))
	}
}
