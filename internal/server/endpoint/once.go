package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
)

// once makes a request that carries a key run once, over all nodes; *idempotency.Keys has it.
type once interface {
	// Known says whether the key has been used for the operation.
	Known(ctx context.Context, r idempotency.Request) (bool, error)
	// Begin reserves the key, or finds the answer that was given under it.
	Begin(ctx context.Context, r idempotency.Request) (*idempotency.Claim, *idempotency.Answer, error)
	// Finish keeps the answer, Release forgets that the key was used, Abandon says that nobody knows how it ended.
	Finish(ctx context.Context, c *idempotency.Claim, a idempotency.Answer) error
	Release(ctx context.Context, c *idempotency.Claim) error
	Abandon(ctx context.Context, c *idempotency.Claim) error
}

const (
	// keyHeader is in the form in which net/http keeps names.
	keyHeader = "Idempotency-Key"
	maxKey    = 255
	// keyedAtMost bounds an operation that declares no timeout: under a key it goes on when its caller has gone.
	keyedAtMost = 50 * time.Second
	// maxKept bounds an answer that is kept. A larger one is sent as it comes.
	maxKept = 1 << 20
	// settleAtMost bounds what keeping an answer may take from its caller.
	settleAtMost = 5 * time.Second
)

// errReplayed means that the answer is there already.
var errReplayed = errors.New("answered before")

// keptHeaders are repeated with an answer.
var keptHeaders = [...]string{"Content-Type", "Location", "Link", "Retry-After", "Etag", "Cache-Control", "Preference-Applied"}

// keyParameter describes the header.
var keyParameter = huma.Param{
	Name: keyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxKey)},
	Description: "Makes a repetition safe: within 24 hours the same request with the same key is carried out once, and answered as the first time, " +
		"with the header Idempotency-Replayed. Use a new random key for every new intent.",
}

// keyed is a call under an Idempotency-Key. It stands between the handler and the caller, and holds the answer back until it
// is kept: a caller that has seen an answer must be given the same again.
type keyed struct {
	http.ResponseWriter
	key    string
	claim  *idempotency.Claim
	replay *idempotency.Answer
	status int
	body   []byte
	// passing means that the answer has become too large to be kept.
	passing bool
}

// WriteHeader notes the status.
func (k *keyed) WriteHeader(status int) {
	if k.status == 0 && status >= http.StatusOK {
		k.status = status
	}
}

// Write holds back what is written, while it is not too much.
func (k *keyed) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	switch {
	case k.replay != nil:
		return len(b), nil // the answer is another
	case k.passing:
		return k.ResponseWriter.Write(b)
	case len(k.body)+len(b) <= maxKept:
		k.body = append(k.body, b...)
		return len(b), nil
	}
	k.passing = true
	k.send()
	return k.ResponseWriter.Write(b)
}

// send gives the caller what was held back.
func (k *keyed) send() {
	if k.status != 0 {
		k.ResponseWriter.WriteHeader(k.status)
	}
	// The caller may have gone; there is nobody left to tell.
	_, _ = k.ResponseWriter.Write(k.body)
	k.body = nil
}

// withdraw drops what was held back, for a problem to take its place.
func (k *keyed) withdraw() {
	if !k.passing {
		k.status, k.body = 0, nil
	}
}

// sendReplay answers as the first time.
func (k *keyed) sendReplay() {
	h := k.Header()
	for _, name := range keptHeaders {
		h.Del(name)
	}
	for name, value := range k.replay.Header {
		h.Set(name, value)
	}
	h.Set("Idempotency-Replayed", "true")
	k.status, k.body = k.replay.Status, k.replay.Body
	k.send()
}

// Unwrap lets http.ResponseController reach the connection.
func (k *keyed) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// serveOnce serves a call under an Idempotency-Key. Once begun it goes on when its caller goes away: the repetition is to find
// its answer.
func (t *Table) serveOnce(w http.ResponseWriter, r *http.Request, given []string, next http.Handler) {
	if len(given) != 1 || !soundKey(given[0]) {
		t.Fail(w, r, problem.InvalidRequest.Newf("The Idempotency-Key must be 1 to %d printable ASCII characters, sent once.", maxKey).
			At("header/"+keyHeader, "format", "must be 1 to 255 printable ASCII characters"))
		return
	}
	call := From(r.Context())
	k := &keyed{ResponseWriter: w, key: given[0]}
	call.keyed = k
	settled := false
	detached := context.WithoutCancel(r.Context())
	ctx, cancel := context.WithTimeout(detached, max(call.op.Timeout, keyedAtMost))
	defer cancel()
	defer func() {
		if k.claim != nil && !settled { // a panic is on its way
			t.settleWith(detached, call, t.Idempotency.Abandon)
		}
	}()
	next.ServeHTTP(k, r.WithContext(ctx))
	t.settle(detached, call)
	settled = true
	switch {
	case k.replay != nil:
		k.sendReplay()
	case !k.passing:
		k.send()
	}
}

func soundKey(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// settle says what is to become of the key. What may succeed later was not carried out, so the key is as good as new; every other
// answer is kept.
func (t *Table) settle(ctx context.Context, call *Call) {
	k := call.keyed
	switch {
	case k.claim == nil: // refused before it ran, or answered before
	case call.problem != "" && call.retryable:
		t.settleWith(ctx, call, t.Idempotency.Release)
	default:
		t.settleWith(ctx, call, func(ctx context.Context, c *idempotency.Claim) error {
			return t.Idempotency.Finish(ctx, c, k.answer())
		})
	}
}

// settleWith settles a claim. If that fails the work is done all the same, so its caller gets the answer; a repetition is told that
// the outcome is not known.
func (t *Table) settleWith(ctx context.Context, call *Call, how func(context.Context, *idempotency.Claim) error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err := how(ctx, call.keyed.claim); err != nil {
		t.Log.LogAttrs(ctx, slog.LevelWarn, "idempotency key not settled",
			slog.String("request_id", string(call.Request)), slog.String("operation", call.op.ID), slog.Any("error", err))
	}
}

// answer is what is kept.
func (k *keyed) answer() idempotency.Answer {
	a := idempotency.Answer{Status: k.status, Header: map[string]string{}, Body: k.body, TooLarge: k.passing}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	for _, name := range keptHeaders {
		if value := k.Header().Get(name); value != "" {
			a.Header[name] = value
		}
	}
	return a
}

// enter admits a call, and makes sure that one under an Idempotency-Key runs once. A repetition costs what any call does, and
// nothing of an account's limits: nothing is done to it.
func (t *Table) enter(ctx context.Context, call *Call) error {
	k := call.keyed
	if k == nil {
		return t.admit(ctx, call)
	}
	request := idempotency.Request{
		Org: call.Identity.Principal.Org.ID, Caller: string(call.Identity.Principal.Key.ID), Key: k.key, Route: call.op.pattern(),
		Target: call.request.URL.RequestURI(), Body: call.body, Lease: leaseOf(call.op), Repeatable: call.op.Repeatable || call.repeatable,
	}
	if call.quota == admission.Read || call.quota == admission.Write {
		known, err := t.Idempotency.Known(ctx, request)
		if err != nil {
			return err
		}
		if known {
			call.quota = admission.Plain
		}
	}
	if err := t.admit(ctx, call); err != nil {
		return err
	}
	var err error
	k.claim, k.replay, err = t.Idempotency.Begin(ctx, request)
	if err == nil && k.replay != nil {
		return errReplayed
	}
	return err
}

// leaseOf is how long a run may be silent before it counts as dead: longer than it may take.
func leaseOf(op *Operation) time.Duration {
	return max(idempotency.Lease, op.Timeout+settleAtMost+answerSlack)
}
