package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
)

const (
	// keyHeader is in the canonical form of net/http.
	keyHeader = "Idempotency-Key"
	maxKey    = 255
	// keyedAtMost bounds an operation that declares no timeout: under a key it continues after its caller disconnected.
	keyedAtMost = 50 * time.Second
	// maxKept bounds the bytes of a stored response. A larger response is sent but not stored.
	maxKept = 1 << 20
	// settleAtMost bounds how long storing a response may delay it.
	settleAtMost = 5 * time.Second
)

// errReplayed means that the response of the first run is sent instead.
var errReplayed = errors.New("answered before")

// keptHeaders are stored with a response.
var keptHeaders = [...]string{"Content-Type", "Location", "Link", "Retry-After", "Etag", "Cache-Control", "Preference-Applied"}

// keyParameter describes the header in the OpenAPI document.
var keyParameter = huma.Param{
	Name: keyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxKey)},
	Description: "Makes retries safe: for 24 hours, repeating the request with the same key does not run it again but returns the first response, " +
		"with the header Idempotency-Replayed. Use a new random key for each new operation.",
}

// idempotentRun is the response writer of a call with an Idempotency-Key. It holds the response back until it is
// stored: a caller that has seen a response must get the same one again.
type idempotentRun struct {
	http.ResponseWriter
	key    string
	claim  *idempotency.Claim
	replay *idempotency.Answer
	status int
	body   []byte
	// passing means that the response became too large to store and is sent as it is written.
	passing bool
}

func (k *idempotentRun) WriteHeader(status int) {
	if k.status == 0 && status >= http.StatusOK {
		k.status = status
	}
}

// Write holds back what is written, up to maxKept bytes.
func (k *idempotentRun) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	switch {
	case k.replay != nil:
		return len(b), nil // The stored response is sent instead.
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

// send sends what was held back.
func (k *idempotentRun) send() {
	if k.status != 0 {
		k.ResponseWriter.WriteHeader(k.status)
	}
	// The caller may have disconnected.
	_, _ = k.ResponseWriter.Write(k.body)
	k.body = nil
}

// withdraw drops what was held back, so that a problem can take its place.
func (k *idempotentRun) withdraw() {
	if !k.passing {
		k.status, k.body = 0, nil
	}
}

// sendReplay sends the stored response.
func (k *idempotentRun) sendReplay() {
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
func (k *idempotentRun) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// serveOnce serves a call with an Idempotency-Key. Once started, the call continues if its caller disconnects, so that
// a retry finds its response.
func (t *Table) serveOnce(w http.ResponseWriter, r *http.Request, given []string, next http.Handler) {
	if len(given) != 1 || !isValidKey(given[0]) {
		t.Fail(w, r, problem.InvalidRequest.Newf("The Idempotency-Key must be 1 to %d printable ASCII characters, sent once.", maxKey).
			At("header/"+keyHeader, "format", "must be 1 to 255 printable ASCII characters"))
		return
	}
	call := From(r.Context())
	k := &idempotentRun{ResponseWriter: w, key: given[0]}
	call.idempotent = k
	settled := false
	detached := context.WithoutCancel(r.Context())
	ctx, cancel := context.WithTimeout(detached, max(call.op.Timeout, keyedAtMost))
	defer cancel()
	defer func() {
		if k.claim != nil && !settled { // The handler panicked.
			t.settleClaim(detached, call, t.deps.Idempotency.Abandon)
		}
	}()
	next.ServeHTTP(k, r.WithContext(ctx))
	t.settleKey(detached, call)
	settled = true
	switch {
	case k.replay != nil:
		k.sendReplay()
	case !k.passing:
		k.send()
	}
}

func isValidKey(key string) bool {
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

// settleKey stores the response or releases the key. A retryable problem means that the operation was not carried out,
// so the key may be used again; every other response is stored.
func (t *Table) settleKey(ctx context.Context, call *Call) {
	k := call.idempotent
	switch {
	case k.claim == nil: // Refused before it ran, or replayed.
	case call.outcome.problem != "" && call.outcome.retryable:
		t.settleClaim(ctx, call, t.deps.Idempotency.Release)
	default:
		t.settleClaim(ctx, call, func(ctx context.Context, c *idempotency.Claim) error {
			return t.deps.Idempotency.Finish(ctx, c, k.answer())
		})
	}
}

// settleClaim ends a claim. If that fails, the caller still gets the response, because the work is done. A retry is
// then answered that the outcome is unknown.
func (t *Table) settleClaim(ctx context.Context, call *Call, how func(context.Context, *idempotency.Claim) error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err := how(ctx, call.idempotent.claim); err != nil {
		t.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot settle idempotency key",
			slog.String(logkey.RequestID, string(call.ID)), slog.String(logkey.Operation, call.op.ID), slog.Any(logkey.Error, err))
	}
}

// answer returns the response in the form in which it is stored.
func (k *idempotentRun) answer() idempotency.Answer {
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

// replayed reports whether the response was that of an earlier run under the same Idempotency-Key.
func (c *Call) replayed() bool { return c.idempotent != nil && c.idempotent.replay != nil }

// admit checks the limits of a call and reserves its Idempotency-Key, if it has one. A replay counts as a plain call
// but uses none of an account's limits, because nothing is done to the account.
func (t *Table) admit(ctx context.Context, call *Call) error {
	k := call.idempotent
	if k == nil {
		return t.checkLimits(ctx, call)
	}
	request := idempotency.Request{
		Org: call.Identity.Principal.Org.ID, Caller: string(call.Identity.Principal.Key.ID), Key: k.key, Route: call.op.pattern(),
		Target: call.Origin.request.URL.RequestURI(), Body: call.body, Lease: leaseOf(call.op), Repeatable: call.terms.Repeatable,
	}
	if call.terms.Quota == admission.Read || call.terms.Quota == admission.Write {
		request.Account = call.Account // the answer comes from the platform
		known, err := t.deps.Idempotency.Known(ctx, request)
		if err != nil {
			return err
		}
		if known {
			call.terms.Quota = admission.Plain
		}
	}
	if err := t.checkLimits(ctx, call); err != nil {
		return err
	}
	var err error
	k.claim, k.replay, err = t.deps.Idempotency.Begin(ctx, request)
	if err == nil && k.replay != nil {
		return errReplayed
	}
	return err
}

// leaseOf returns how long a run may be silent before it counts as dead: longer than it may take.
func leaseOf(op *Operation) time.Duration {
	return max(idempotency.Lease, op.Timeout+settleAtMost+answerSlack)
}
