package driver

import (
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

// Answer is what a call brought.
type Answer struct {
	// Result is JSON, as the catalog's result schema says; Whole is the object that callers are given, with the result in it.
	Result, Whole []byte
	// Changed are the names of the cookies that the platform changed; Session is then the session to go on with.
	Changed []string
	Session Session
	// Took is how long the platform and the way to it took; Sent and Received are the bodies' sizes.
	Took           time.Duration
	Sent, Received int
}

// Identity is who a session belongs to.
type Identity struct {
	ID        string  `json:"id"`
	Username  string  `json:"username"`
	Name      string  `json:"name"`
	AvatarURL *string `json:"avatarUrl"`
	IsCreator bool    `json:"isCreator"`
}

// Refused is a refusal of the platform's.
type Refused struct {
	catalog.Refusal
	Status int
}

// Error is the text for logs; what the platform said is not in it.
func (r *Refused) Error() string {
	return fmt.Sprintf("the platform refused: %s (status %d, code %d)", r.Kind, r.Status, r.Code)
}

// refusalProblems are what callers are told. A dead session has none: it is probed again first.
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
	catalog.RefusedError:       {problem.UpstreamError, "The platform answered with an error of its own."},
}

// Problem is what the caller of a method is told.
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
		// A platform that fails in the middle, or the gateway before it, may have done it all the same.
		return uncertain(e, m, r)
	}
	return e
}

// refused is the refusal in an answer; nil for a success.
func (d *HTTP) refused(r *reply) *Refused {
	if r.ok() {
		return nil
	}
	return &Refused{Refusal: d.Catalog.Classify(r.status, r.header, r.body), Status: r.status}
}

// Call calls a method. Whatever the error, the answer says what the call cost and how it changed the session.
func (d *HTTP) Call(ctx context.Context, via Via, s Session, m *catalog.Method, args catalog.Args) (Answer, error) {
	req := args.Request()
	began := d.Now()
	got, err := d.carry(ctx, via, s, &req, egress.Limits{Header: m.Timeout})
	defer got.Release()
	if got.Status == 0 {
		return Answer{Session: s, Sent: len(req.Body)}, d.lost(ctx, m, err)
	}
	// The body is borrowed: neither a result nor a refusal keeps any of it.
	r := reply{status: got.Status, body: got.Body, took: d.Now().Sub(began)}
	if !r.ok() || got.SetsCookies() {
		r.header = got.Header() // which most answers can do without
	}
	a := d.answer(s, &r)
	a.Sent = len(req.Body)
	if err != nil {
		return a, d.lost(ctx, m, err)
	}
	if refused := d.refused(&r); refused != nil {
		return a, refused
	}
	const before, behind = `{"result":`, "}\n"
	text := append(make([]byte, 0, len(before)+catalog.ResultSize(r.body)+len(behind)), before...)
	if text, err = m.AppendResult(text, r.body); err != nil {
		return a, unreadable(m, err)
	}
	a.Result = text[len(before):]
	a.Whole = append(text, behind...)
	return a, nil
}

// answer is what a reply did to the session; there may be none.
func (d *HTTP) answer(s Session, r *reply) Answer {
	if r == nil {
		return Answer{Session: s}
	}
	a := Answer{Took: r.took, Received: len(r.body)}
	a.Session, a.Changed = s.after(d.Catalog, r.header, d.Now())
	return a
}

// lost is the problem when no whole answer came. Of a write that may have arrived nobody knows the outcome.
func (d *HTTP) lost(ctx context.Context, m *catalog.Method, err error) error {
	if ctx.Err() != nil && !errors.Is(err, egress.ErrNotSent) && errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("call %s: %w", m.ID(), err)
	}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return uncertain(p, m, err)
	}
	var e *problem.Error
	f, _ := broken(err)
	switch {
	case f.Code == FailTimeout, errors.Is(err, context.DeadlineExceeded):
		e = problem.UpstreamTimeout.New("The platform did not answer in time.")
	case f.Code == FailChanged:
		e = problem.UpstreamInvalidResponse.New("The platform's answer could not be read.")
	case f.Code == FailUnavailable:
		e = problem.UpstreamUnavailable.New("The connection to the platform broke.").After(1)
	default:
		return fmt.Errorf("call %s: %w", m.ID(), err)
	}
	return uncertain(e.Because(err), m, err)
}

// uncertain marks the problem of a write whose outcome is unknown. That holds for idempotent methods too: what was set may have been
// changed since.
func uncertain(e *problem.Error, m *catalog.Method, err error) *problem.Error {
	if m.Access == catalog.Read || errors.Is(err, egress.ErrNotSent) {
		return e
	}
	return e.InDoubt()
}

// unreadable is the problem when the platform said yes in words that the manifest does not know.
func unreadable(m *catalog.Method, err error) error {
	e := problem.UpstreamInvalidResponse.New("The platform's answer is not what its interface promises.")
	if errors.Is(err, catalog.ErrChanged) {
		e = problem.UpstreamChanged.New("The platform's interface has changed; we have been told.")
	}
	if m.Access == catalog.Write {
		e.With("outcome", "done")
	}
	return e.Because(err)
}

// Probe asks the platform who the session belongs to.
func (d *HTTP) Probe(ctx context.Context, via Via, s Session) (Identity, Answer, error) {
	m := d.Catalog.Verify
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
		return Identity{}, a, unreadable(m, catalog.ErrChanged)
	}
	return who, a, nil
}

// readIdentity reads the answer of a probe. A NUL character cannot be stored as text: names lose it, and an id with one is refused.
func readIdentity(result []byte) (Identity, bool) {
	var who Identity
	if err := json.Unmarshal(result, &who); err != nil || who.ID == "" || strings.ContainsRune(who.ID, 0) {
		return Identity{}, false
	}
	who.Username, who.Name = strings.ReplaceAll(who.Username, "\x00", ""), strings.ReplaceAll(who.Name, "\x00", "")
	return who, true
}
