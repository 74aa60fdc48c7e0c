package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Answer is the outcome of a call.
type Answer struct {
	// Result is JSON that satisfies the method's result schema. Whole is the response body of the API, {"result": …};
	// the two share memory.
	Result, Whole []byte
	// Changed lists the names of the cookies that the platform changed. Session is the session to continue with.
	Changed []string
	Session Session
	// Took is the time until the whole response had arrived, including egress. Sent and Received are the sizes of the
	// bodies in bytes.
	Took           time.Duration
	Sent, Received int
}

// Identity is the user to whom a session belongs.
type Identity struct {
	ID        string  `json:"id"`
	Username  string  `json:"username"`
	Name      string  `json:"name"`
	AvatarURL *string `json:"avatarUrl"`
	IsCreator bool    `json:"isCreator"`
}

// Refused is the error for an error response of the platform.
type Refused struct {
	catalog.Refusal
	Status int
}

// Error returns a text for logs. It does not contain the platform's message.
func (r *Refused) Error() string {
	return fmt.Sprintf("the platform refused: %s (status %d, code %q)", r.Kind, r.Status, r.Code)
}

// refusalProblems maps refusals to the problems that callers get. The caller should confirm RefusedSession with a probe
// before using its problem.
var refusalProblems = map[catalog.RefusalKind]struct {
	kind   problem.Kind
	detail string
}{
	catalog.RefusedSession:     {problem.AccountDisconnected, "The platform no longer accepts the account's session."},
	catalog.RefusedRestricted:  {problem.UpstreamAccountRestricted, "The platform has locked or limited this account."},
	catalog.RefusedCreatorOnly: {problem.UpstreamCreatorOnly, "The platform allows this to creators only."},
	catalog.RefusedRateLimited: {problem.UpstreamRateLimited, "The platform asks this account to slow down."},
	catalog.RefusedForbidden:   {problem.UpstreamForbidden, "The platform does not allow this account to do that."},
	catalog.RefusedNotFound:    {problem.UpstreamNotFound, "The platform has no such thing."},
	catalog.RefusedConflict:    {problem.UpstreamConflict, "The platform's state does not allow it."},
	catalog.RefusedRejected:    {problem.UpstreamRejected, "The platform did not accept the arguments."},
	catalog.RefusedUnavailable: {problem.UpstreamUnavailable, "The platform is unavailable."},
	catalog.RefusedError:       {problem.UpstreamError, "The platform returned an error of its own."},
}

func (r *Refused) Problem(m *catalog.Method) *problem.Error {
	known := refusalProblems[r.Kind]
	e := known.kind.New(known.detail).Because(r)
	if known.kind.Upstream() {
		e = e.From(r.Code, r.Message)
	}
	if r.RetryAfter > 0 {
		e = e.After(int(math.Ceil(r.RetryAfter.Seconds())))
	}
	if r.Kind == catalog.RefusedError {
		// A platform or gateway that fails midway may have carried out the write.
		return markUncertain(e, m, r)
	}
	return e
}

// classifyReply returns the refusal in a reply, or nil for a success.
func (d *HTTP) classifyReply(r *reply) *Refused {
	if r.ok() {
		return nil
	}
	return &Refused{Refusal: d.deps.Catalog.Classify(r.status, r.header, r.body), Status: r.status}
}

// Call calls a method. Also on error, the answer contains the sizes, the duration and the changes of the session.
func (d *HTTP) Call(ctx context.Context, via Via, s Session, m *catalog.Method, args catalog.Args) (Answer, error) {
	req := args.Request()
	began := d.deps.Now()
	got, err := d.sendRequest(ctx, via, s, &req, egress.Limits{Header: m.Timeout})
	defer got.Release()
	if got.Status == 0 {
		return Answer{Session: s, Sent: len(req.Body)}, d.transportProblem(ctx, m, err)
	}
	// The body belongs to got until Release. Neither a result nor a refusal keeps a reference to it.
	r := reply{status: got.Status, body: got.Body, took: d.deps.Now().Sub(began)}
	if !r.ok() || got.SetsCookies() {
		r.header = got.Header() // allocates, and most responses do not need it
	}
	a := d.newAnswer(s, &r)
	a.Sent = len(req.Body)
	if err != nil {
		return a, d.transportProblem(ctx, m, err)
	}
	if refused := d.classifyReply(&r); refused != nil {
		return a, refused
	}
	const prefix, suffix = `{"result":`, "}\n"
	text := append(make([]byte, 0, len(prefix)+catalog.ResultSize(r.body)+len(suffix)), prefix...)
	if text, err = m.AppendResult(text, r.body); err != nil {
		return a, responseProblem(m, err)
	}
	a.Result = text[len(prefix):]
	a.Whole = append(text, suffix...)
	return a, nil
}

// newAnswer returns an answer with the changes that a reply makes to the session. The reply may be nil.
func (d *HTTP) newAnswer(s Session, r *reply) Answer {
	if r == nil {
		return Answer{Session: s}
	}
	a := Answer{Took: r.took, Received: len(r.body)}
	a.Session, a.Changed = s.withSetCookies(d.deps.Catalog, r.header, d.deps.Now())
	return a
}

// transportProblem returns the problem for a call without a complete response. If the request may have been sent and
// the caller has gone away, it returns a plain error. The outcome of a write that may have been sent is unknown.
func (d *HTTP) transportProblem(ctx context.Context, m *catalog.Method, err error) error {
	// A caller that has gone away needs no problem. A deadline of ours is a timeout of the platform, see below.
	if ctx.Err() != nil && !errors.Is(err, egress.ErrNotSent) && errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("call %s: %w", m.ID(), err)
	}
	// Egress reports missing proxies and unreachable platforms as problems.
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return markUncertain(p, m, err)
	}
	var e *problem.Error
	f, _ := transportFailure(err)
	switch {
	case f.Code == FailTimeout, errors.Is(err, context.DeadlineExceeded):
		e = problem.UpstreamTimeout.New("The platform did not answer in time.")
	case f.Code == FailChanged:
		e = problem.UpstreamInvalidResponse.New("The platform's response could not be read.")
	case f.Code == FailUnavailable:
		e = problem.UpstreamUnavailable.New("The connection to the platform broke.").After(1)
	default:
		return fmt.Errorf("call %s: %w", m.ID(), err)
	}
	return markUncertain(e.Because(err), m, err)
}

// markUncertain marks the problem of a write that was sent as having an unknown outcome. This includes idempotent
// methods, because the value that was set may have been changed since.
func markUncertain(e *problem.Error, m *catalog.Method, err error) *problem.Error {
	if m.Access == catalog.Read || errors.Is(err, egress.ErrNotSent) {
		return e
	}
	return e.InDoubt()
}

// responseProblem returns the problem for a successful response that cannot be mapped. A write was carried out.
func responseProblem(m *catalog.Method, err error) error {
	e := problem.UpstreamInvalidResponse.New("The platform's response does not have the expected form.")
	if errors.Is(err, catalog.ErrChanged) {
		e = problem.UpstreamChanged.New("The platform's interface has changed; we have been notified.")
	}
	if m.Access == catalog.Write {
		e.With("outcome", "done")
	}
	return e.Because(err)
}

// Probe asks the platform to whom the session belongs, with the manifest's verify method.
func (d *HTTP) Probe(ctx context.Context, via Via, s Session) (Identity, Answer, error) {
	if s.Credentials() == catalog.ByToken {
		return d.probeToken(ctx, via, s)
	}
	m := d.deps.Catalog.Verify
	args, err := m.FromObject([]byte("{}"), false)
	if err != nil {
		return Identity{}, Answer{}, fmt.Errorf("probe: %w", err)
	}
	a, err := d.Call(ctx, via, s, m, args)
	if err != nil {
		return Identity{}, a, err
	}
	who, ok := readIdentity(a.Result)
	if !ok {
		return Identity{}, a, responseProblem(m, catalog.ErrChanged)
	}
	return who, a, nil
}

// probeToken checks a key. A key belongs to a site and not to a person, so it is the account's identity together with
// the site, whose title is its name.
func (d *HTTP) probeToken(ctx context.Context, via Via, s Session) (Identity, Answer, error) {
	jwt := d.deps.Catalog.Session.JWT
	if jwt == nil {
		_, err := d.signToken(s)
		return Identity{}, Answer{Session: s}, err
	}
	args, err := jwt.Verify.FromObject([]byte("{}"), false)
	if err != nil {
		return Identity{}, Answer{Session: s}, fmt.Errorf("probe: %w", err)
	}
	a, err := d.Call(ctx, via, s, jwt.Verify, args)
	if err != nil {
		return Identity{}, a, err
	}
	who := Identity{ID: s.token.ID, Name: jwt.Name, IsCreator: true}
	if d.deps.Catalog.Site == nil {
		return who, a, nil
	}
	r, err := d.exchange(ctx, via, s, d.deps.Catalog.Site.Request(), d.limits())
	if err != nil {
		return Identity{}, a, d.transportProblem(ctx, jwt.Verify, err)
	}
	if refused := d.classifyReply(r); refused != nil {
		return Identity{}, a, refused
	}
	site, err := d.deps.Catalog.Site.Read(r.body)
	if err != nil {
		return Identity{}, a, responseProblem(jwt.Verify, catalog.ErrChanged)
	}
	who.Name = cmp.Or(strings.ReplaceAll(site.Title, "\x00", ""), who.Name)
	_, who.Username, _ = strings.Cut(via.Site, "://")
	return who, a, nil
}

// readIdentity parses the result of a probe. On a platform that does not say who is a creator, everyone is one.
// PostgreSQL cannot store NUL characters in text, so it removes them from names and rejects an id that has one.
func readIdentity(result []byte) (Identity, bool) {
	who := Identity{IsCreator: true}
	if err := json.Unmarshal(result, &who); err != nil || who.ID == "" || strings.ContainsRune(who.ID, 0) {
		return Identity{}, false
	}
	who.Username, who.Name = strings.ReplaceAll(who.Username, "\x00", ""), strings.ReplaceAll(who.Name, "\x00", "")
	return who, true
}
