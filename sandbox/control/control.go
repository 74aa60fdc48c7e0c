// Package control serves the API that tests, demos and the sandbox's own page use to control the platform: inject
// faults, move the clock, reset the state, trigger actions of fans, generate events. It needs no key and answers on
// loopback only.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/mailbox"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Deps holds the dependencies of a Control.
type Deps struct {
	World      *world.World
	Gate       *gate.Gate
	Auth       *auth.Auth
	Mails      *mailbox.Mailbox
	Happenings map[string]fanaction.Func
	Log        *slog.Logger
	// Life is cancelled when the platform closes.
	Life context.Context //nolint:containedctx // the generator outlives the request that started it
}

// Control serves /control.
type Control struct {
	deps      Deps
	generator generator
}

// New returns a Control. Call Close to stop its generators.
func New(d Deps) *Control { return &Control{deps: d} }

// Mount adds the routes of the control API.
func (c *Control) Mount(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"POST /control/faults":           c.addFault,
		"GET /control/faults":            c.listFaults,
		"DELETE /control/faults":         c.clearFaults,
		"DELETE /control/faults/{id}":    c.clearFaults,
		"POST /control/clock":            c.advance,
		"GET /control/clock":             c.clock,
		"POST /control/seed":             c.seed,
		"GET /control/requests":          c.requests,
		"DELETE /control/requests":       c.forgetRequests,
		"GET /control/mails":             c.mails,
		"POST /control/generate":         c.generate,
		"DELETE /control/generate":       c.stopGenerate,
		"GET /control/frames":            c.frames,
		"GET /control/creators":          c.creators,
		"POST /control/sessions":         c.openSession,
		"POST /control/sessions/end":     c.endSessions,
		"GET /control/happenings":        c.happenings,
		"POST /control/happen":           c.happen,
		"GET /control/challenges":        c.challenges,
		"POST /control/selfies/{token}":  c.selfie,
		"GET /control/oauth":             c.oauth,
		"POST /control/oauth":            c.setOAuth,
		"POST /control/oauth/expire":     c.expireOAuth,
		"GET /control/qr":                c.qrs,
		"POST /control/qr/{id}/{action}": c.answerQR,
	} {
		mux.HandleFunc(pattern, c.serve(handle))
	}
}

// serve refuses requests from other machines and sites, and writes errors as refusals.
func (c *Control) serve(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !gate.Local(r) {
			c.deps.Gate.Write(w, nil, wire.Forbidden("The control API is available on this machine only."))
			return
		}
		answer, err := handle(r)
		if err != nil {
			if _, ok := errors.AsType[*wire.Refusal](err); !ok {
				err = wire.Invalid("", err.Error())
			}
		}
		c.deps.Gate.Write(w, answer, err)
	}
}

func read(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return wire.Invalid("", "The body is not valid JSON for this request: "+err.Error())
	}
	return nil
}

func (c *Control) addFault(r *http.Request) (any, error) {
	var in struct {
		Scope string  `json:"scope"`
		User  string  `json:"user_id"`
		Kind  string  `json:"kind"`
		Value int     `json:"value"`
		Count int     `json:"count"`
		For   float64 `json:"for_sec"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.User != "" {
		login, err := c.login("", in.User)
		if err != nil {
			return nil, err
		}
		in.Scope = login
	}
	f, err := c.deps.Gate.Faults.Add(gate.Fault{Scope: in.Scope, Kind: in.Kind, Value: in.Value, Count: in.Count}, time.Duration(in.For*float64(time.Second)))
	if err == nil && in.Kind == gate.DropSocket && in.Scope != "all" {
		err = c.deps.World.Do(in.Scope, func(creator *world.Creator) error {
			creator.DropSockets("", world.ReasonFault)
			return nil
		})
		if errors.Is(err, world.ErrNoLogin) {
			err = nil
		}
	}
	return f, err
}

func (c *Control) listFaults(*http.Request) (any, error) {
	return map[string]any{"faults": c.deps.Gate.Faults.List(), "kinds": gate.Kinds()}, nil
}

// clearFaults removes one fault, the faults of one login or creator, or all faults.
func (c *Control) clearFaults(r *http.Request) (any, error) {
	if query := r.URL.Query(); query.Has("login") || query.Has("user_id") {
		login, err := c.login(query.Get("login"), query.Get("user_id"))
		if err != nil {
			return nil, err
		}
		return map[string]int{"cleared": c.deps.Gate.Faults.ClearOf(login)}, nil
	}
	return map[string]int{"cleared": c.deps.Gate.Faults.Clear(r.PathValue("id"))}, nil
}

func (c *Control) clock(*http.Request) (any, error) {
	return map[string]any{"now": c.deps.World.Now()}, nil
}

func (c *Control) advance(r *http.Request) (any, error) {
	var in struct {
		Advance float64 `json:"advance_sec"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if err := c.deps.World.Advance(time.Duration(in.Advance * float64(time.Second))); err != nil {
		return nil, err
	}
	return c.clock(r)
}

// seed resets the state, the faults, the request log and the clock.
func (c *Control) seed(r *http.Request) (any, error) {
	c.generator.stopAll()
	if err := c.deps.World.Reset(); err != nil {
		return nil, err
	}
	c.deps.Gate.Faults.Clear("")
	c.deps.Gate.Forget()
	return c.clock(r)
}

// requests lists the requests that the platform received, oldest first. With ?limit= it lists only the last ones.
func (c *Control) requests(r *http.Request) (any, error) {
	list := c.deps.Gate.Entries(strings.ToLower(r.URL.Query().Get("login")))
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && limit >= 0 && limit < len(list) {
		list = list[len(list)-limit:]
	}
	return map[string]any{"requests": list}, nil
}

func (c *Control) forgetRequests(*http.Request) (any, error) {
	c.deps.Gate.Forget()
	return wire.OK, nil
}

// mails lists the received mails, oldest first. With ?to= it lists only those to that address.
func (c *Control) mails(r *http.Request) (any, error) {
	return map[string]any{"mails": c.deps.Mails.Mails(r.URL.Query().Get("to"))}, nil
}

// summary is a creator in a list.
type summary struct {
	Login    string `json:"login"`
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Username string `json:"username"`
	Persona  string `json:"persona"`
	Sessions int    `json:"sessions"`
	Sockets  int    `json:"sockets"`
}

// creators lists the first 200 creators. With ?login= it returns that one, and creates it if necessary.
func (c *Control) creators(r *http.Request) (any, error) {
	logins, err := c.deps.World.Logins()
	if one := r.URL.Query().Get("login"); one != "" {
		logins, err = []string{strings.ToLower(one)}, nil
	}
	if err != nil {
		return nil, err
	}
	list := []summary{}
	for _, login := range logins[:min(len(logins), 200)] {
		err := c.deps.World.Do(login, func(creator *world.Creator) error {
			p := creator.Profile
			list = append(list, summary{
				Login: login, ID: p.ID, Name: p.Name, Username: p.Username, Persona: p.Persona,
				Sessions: len(creator.Sessions()), Sockets: creator.Sockets(),
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return map[string]any{"creators": list, "total": len(logins)}, nil
}

// frames lists the stored frames of a creator, oldest first. Tests compare it with the events they received.
func (c *Control) frames(r *http.Request) (any, error) {
	query := r.URL.Query()
	login, err := c.login(query.Get("login"), "")
	if err != nil {
		return nil, err
	}
	after, err := strconv.ParseInt(query.Get("after"), 10, 64)
	if err != nil && query.Get("after") != "" {
		return nil, wire.Invalid("after", "This is not a frame id.")
	}
	limit := mostListed
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = min(n, mostListed)
	}
	type listed struct {
		ID   int64  `json:"id"`
		Type string `json:"type"`
	}
	list, more, complete := []listed{}, false, false
	err = c.deps.World.Do(login, func(creator *world.Creator) error {
		frames, others, all, err := creator.Frames(after, limit)
		more, complete = others, all
		for _, text := range frames {
			var one listed
			if err := json.Unmarshal(text, &one); err != nil {
				return err
			}
			list = append(list, one)
		}
		return err
	})
	return map[string]any{"frames": list, "more": more, "complete": complete}, err
}

// mostListed limits how many frames one request lists.
const mostListed = 20_000

// openSession opens a session for a login without signing in, and returns it in the form of a browser's headers.
func (c *Control) openSession(r *http.Request) (any, error) {
	var in struct {
		Login string `json:"login"`
		Agent string `json:"user_agent"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Agent == "" {
		in.Agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	}
	device := auth.NewDevice()
	s, _, err := c.deps.Auth.Open(strings.ToLower(in.Login), world.Session{Device: device, Agent: in.Agent, Egress: c.deps.Gate.Egress(r)})
	if err != nil {
		return nil, err
	}
	var cookies []string
	for _, cookie := range auth.Cookies(s) {
		cookies = append(cookies, cookie.Name+"="+cookie.Value)
	}
	return map[string]any{
		"cookie": strings.Join(cookies, "; "), "user_agent": in.Agent, "headers": map[string]string{"x-device": device},
		"expires_at": s.ExpiresAt, "user_id": strconv.FormatInt(s.Owner, 10),
	}, nil
}

// endSessions ends all sessions of a creator, given by login or by platform id.
func (c *Control) endSessions(r *http.Request) (any, error) {
	var in struct {
		Login string `json:"login"`
		User  string `json:"user_id"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	login, err := c.login(in.Login, in.User)
	if err != nil {
		return nil, err
	}
	n, err := c.deps.World.EndSessions(login, func(world.Session) bool { return true })
	return map[string]int{"ended": n}, err
}

// oauth describes the platform's authorization server.
func (c *Control) oauth(*http.Request) (any, error) { return c.deps.Auth.OAuthStatus() }

// setOAuth sets the lifetime of the access tokens that are issued from now on.
func (c *Control) setOAuth(r *http.Request) (any, error) {
	var in struct {
		AccessSec    int `json:"access_sec"`
		AnnouncedSec int `json:"announced_sec"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.AccessSec < 0 || in.AccessSec > 86400 {
		return nil, wire.Invalid("access_sec", "This must be a number of seconds up to a day, or 0 for the default.")
	}
	if in.AnnouncedSec < 0 || in.AnnouncedSec > 86400 {
		return nil, wire.Invalid("announced_sec", "This must be a number of seconds up to a day, or 0 for the real lifetime.")
	}
	c.deps.Auth.SetAccessLife(time.Duration(in.AccessSec)*time.Second, time.Duration(in.AnnouncedSec)*time.Second)
	return c.deps.Auth.OAuthStatus()
}

// expireOAuth ends the access tokens of a creator. The refresh tokens stay good.
func (c *Control) expireOAuth(r *http.Request) (any, error) {
	var in struct {
		Login string `json:"login"`
		User  string `json:"user_id"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	login, err := c.login(in.Login, in.User)
	if err != nil {
		return nil, err
	}
	n, err := c.deps.Auth.EndAccess(login)
	return map[string]int{"ended": n}, err
}

// login returns the login of a creator, given by login or by platform id.
func (c *Control) login(login, user string) (string, error) {
	if user != "" {
		id, _ := strconv.ParseInt(user, 10, 64)
		err := c.deps.World.DoID(id, func(creator *world.Creator) error {
			login = creator.Profile.Login
			return nil
		})
		if err != nil {
			return "", wire.NotFound("creator")
		}
	}
	if _, err := world.Persona(login); err != nil {
		return "", wire.Invalid("login", "A login must end in @"+world.Domain+".")
	}
	return strings.ToLower(login), nil
}

func (c *Control) happenings(*http.Request) (any, error) {
	return map[string]any{"happenings": slices.Sorted(maps.Keys(c.deps.Happenings))}, nil
}

// happen runs a happening on a creator: it changes the state and sends frames.
func (c *Control) happen(r *http.Request) (any, error) {
	var in struct {
		Login string `json:"login"`
		User  string `json:"creator_id"`
		What  string `json:"what"`
		// Alone sends only the frame named by What, and not, for example, the frame of a tip's transaction.
		Alone bool `json:"alone"`
		fanaction.Input
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	login, err := c.login(in.Login, in.User)
	if err != nil {
		return nil, err
	}
	do, ok := c.deps.Happenings[in.What]
	if !ok {
		return nil, wire.Invalid("what", "There is no happening of this name. GET /control/happenings lists them.")
	}
	err = c.deps.World.Do(login, func(creator *world.Creator) error {
		if !in.Alone {
			return do(creator, in.Input)
		}
		return creator.Alone(in.What, func() error { return do(creator, in.Input) })
	})
	if err != nil {
		return nil, err
	}
	return map[string]bool{"accepted": true}, nil
}

func (c *Control) challenges(*http.Request) (any, error) {
	list, err := c.deps.Auth.Challenges()
	return map[string]any{"challenges": list}, err
}

func (c *Control) selfie(r *http.Request) (any, error) {
	var in struct {
		Passed bool `json:"passed"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	return wire.OK, c.deps.Auth.TakeSelfie(r.PathValue("token"), in.Passed)
}

func (c *Control) qrs(*http.Request) (any, error) {
	list, err := c.deps.Auth.QRs()
	return map[string]any{"qr": list}, err
}

func (c *Control) answerQR(r *http.Request) (any, error) {
	var in struct {
		Login string `json:"login"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	one, err := c.deps.Auth.AnswerQR(r.PathValue("id"), r.PathValue("action"), strings.ToLower(in.Login))
	return map[string]any{"qr": one}, err
}
