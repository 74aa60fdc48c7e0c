package webhook

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// endpoint holds what is needed to send to a webhook. It is the Endpoint of a lane.Hook.
type endpoint struct {
	org id.Org
	// id is empty for the webhook of an account.
	id      id.Endpoint
	url     string
	target  egress.Target
	current *sign.Signer
	// previous also signs until a time, after the secret was rotated; nil if there is none.
	previous *sign.Signer
	until    time.Time
	// days is how many days of events the organisation can read.
	days int
}

func endpointOf(h *lane.Hook) *endpoint { return h.Endpoint.(*endpoint) }

// deliveryMeta describes a delivery in its headers and in the log, apart from the event itself.
type deliveryMeta struct {
	attempt int
	// prev is the sequence of the last wanted event before this one; 0 if unknown.
	prev int64
	// cause is one of the Cause constants.
	cause string
	// replay is the id of a side delivery that the owner requested; empty otherwise.
	replay string
	// late marks an event that is delivered out of order, after later ones.
	late bool
}

// The causes of deliveries. CauseLive is the ordered delivery by a lane.
const (
	CauseLive      = "live"
	CauseRetry     = "retry"
	CauseRedeliver = "redeliver"
	CauseReplay    = "replay"
	CauseTest      = "test"
)

const userAgent = "Stagedoor-Webhooks/1"

var (
	agent    = []string{userAgent}
	jsonType = []string{"application/json"}
	one      = []string{"1"}
)

// header builds the header of a delivery. Names are in Go's canonical form; their case is irrelevant on the wire. All
// values share one array, to save allocations.
func (e *endpoint) header(ev *event.Stored, n deliveryMeta, now time.Time) http.Header {
	at := now.Unix()
	name := string(ev.ID)
	whole, standard := e.current.Sign(name, at, ev.Body)
	h := make(http.Header, 18)
	var before string
	if e.previous != nil && now.Before(e.until) {
		old, oldStandard := e.previous.Sign(name, at, ev.Body)
		before, standard = old, standard+" "+oldStandard
	}
	values := [...]string{
		whole, name, ev.Kind, strconv.Itoa(n.attempt), strconv.FormatInt(at, 10), standard, before,
		strconv.FormatInt(ev.Seq, 10), strconv.FormatInt(n.prev, 10), n.replay,
	}
	put := func(key string, i int) { h[key] = values[i : i+1 : i+1] }
	h["User-Agent"], h["Content-Type"] = agent, jsonType
	put("X-Webhook-Signature", 0)
	put("X-Webhook-Id", 1)
	put("X-Webhook-Event", 2)
	put("X-Webhook-Attempt", 3)
	put("X-Webhook-Timestamp", 4)
	put("Webhook-Id", 1)
	put("Webhook-Timestamp", 4)
	put("Webhook-Signature", 5)
	if before != "" {
		put("X-Webhook-Signature-Previous", 6)
	}
	if ev.Seq > 0 {
		put("X-Webhook-Sequence", 7)
	}
	if n.prev > 0 {
		put("X-Webhook-Previous-Sequence", 8)
	}
	if n.replay != "" {
		put("X-Webhook-Replay", 9)
	}
	if n.late {
		h["X-Webhook-Out-Of-Order"] = one
	}
	return h
}

// deliver carries out a delivery and those that become ready when it ends, one after the other.
func (w *Webhooks) deliver(job *lane.Job) {
	for job != nil {
		if job.Grant != nil {
			job.Grant(job)
			w.mu.Lock()
			job = w.startWork(w.deps.Now())
			w.mu.Unlock()
			continue
		}
		h := job.Holder.(*holding)
		var result lane.Result
		h.run(func(ctx context.Context) {
			meta := deliveryMeta{attempt: job.Attempt, prev: job.Prev, cause: CauseLive}
			if job.Prompt {
				tracing.ObserveIn(job.Event.Trace, w.metrics.wait, max(0, w.deps.Now().Sub(job.Event.At)).Seconds())
			}
			result = w.send(ctx, endpointOf(job.Hook), &job.Event, meta)
		})
		w.mu.Lock()
		now := w.deps.Now()
		w.machine.Done(job, result, now)
		job = w.startWork(now)
		w.mu.Unlock()
		signal(h.deliveryEnded)
	}
}

// send sends an event once and logs the delivery.
func (w *Webhooks) send(ctx context.Context, e *endpoint, ev *event.Stored, n deliveryMeta) lane.Result {
	ctx, span := w.startSpan(ctx, ev, n)
	result, answer := w.post(ctx, e, ev, n)
	endSpan(span, result)
	if result.Aborted {
		return result
	}
	d := Delivery{
		ID: id.New[id.Delivery](), Org: e.org, Endpoint: e.id, Account: accountOf(ev), At: w.deps.Now(), Event: ev.ID, Kind: ev.Kind, Seq: ev.Seq, Attempt: n.attempt,
		Status: result.Status, Took: result.Took, Error: result.Failure, Cause: n.cause, Delivered: lane.Classify(result) == lane.Delivered,
	}
	if !d.Delivered {
		d.Snippet = snippet(answer.Body, maxSnippet)
		w.sealSnippet(ctx, &d)
	}
	if d.Delivered && (n.cause == CauseLive || n.cause == CauseRetry) {
		d.lag = max(d.At.Sub(ev.At), 0)
	}
	if !w.log.add(&d) {
		w.metrics.unlogged.Inc()
	}
	w.metrics.count(ctx, d.Delivered, result.Took)
	if d.Delivered && n.cause == CauseLive {
		tracing.Observe(ctx, w.metrics.arrival, d.At.Sub(ev.At).Seconds())
	}
	return result
}

// accountOf returns the account of an event; empty if the event is of the organisation.
func accountOf(ev *event.Stored) id.Account {
	if !event.IsAccount(ev.Source) {
		return ""
	}
	return id.Account(ev.Source)
}

// exhaustedPause is how long a delivery waits if this machine cannot open a connection: another one would fail as well.
const exhaustedPause = time.Second

// post sends an event once, without logging it. The result is Aborted if the organisation may not send, this machine
// cannot open a connection, or the context ended.
func (w *Webhooks) post(
	ctx context.Context, e *endpoint, ev *event.Stored, n deliveryMeta,
) (lane.Result, egress.Answer) {
	if err := w.deps.Permits.Permit(ctx, e.org); err != nil {
		return lane.Result{Aborted: true}, egress.Answer{}
	}
	began := w.deps.Now()
	answer, err := w.deps.Public.Send(ctx, e.target, e.header(ev, n, began), ev.Body)
	ended := w.deps.Now()
	result := lane.Result{Status: answer.Status, Took: ended.Sub(began)}
	if failure, failed := errors.AsType[egress.Failure](err); failed {
		result.Failure = string(failure)
		return result, egress.Answer{Reason: answer.Reason}
	}
	if err != nil {
		if errors.Is(err, egress.ErrExhausted) {
			clock.Pause(ctx, exhaustedPause)
		}
		result.Aborted = true
		return result, egress.Answer{}
	}
	if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable {
		result.RetryAfter = lane.RetryAfter(answer.Header.Get("Retry-After"), ended, w.deps.Config.Lane.MaxRetryAfter)
	}
	return result, answer
}

// maxSnippet is how many bytes of the response to a failed delivery are kept.
const maxSnippet = 1024

// snippet returns the beginning of a response as text, without invalid UTF-8 and control characters.
func snippet(body []byte, most int) string {
	if len(body) > most {
		body = body[:most]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, string(body))
}
