package webhook

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// endpoint is what sending to a webhook needs: it goes with a lane.Hook.
type endpoint struct {
	org     id.Org
	account id.Account
	url     string
	target  egress.Target
	current *sign.Signer
	// previous signs as well until a time; nil if there is none.
	previous *sign.Signer
	until    time.Time
	// days is how long the org can read events.
	days int
}

func endpointOf(h *lane.Hook) *endpoint { return h.More.(*endpoint) }

// note says how an event is delivered, besides what is in it.
type note struct {
	attempt int
	// prev is the wanted event before, 0 if not known.
	prev int64
	// cause is why it is delivered; live for what goes its normal way.
	cause string
	// replay is the id of the errand, for one that was asked for.
	replay string
	// late marks an event that comes after ones that happened later.
	late bool
}

// The causes of deliveries.
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

// header makes the header of a delivery. Names are written as Go keeps them; on the wire their case means nothing.
func (e *endpoint) header(ev *event.Stored, n note, now time.Time) http.Header {
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

// work carries out deliveries, one after the other, as long as there are any.
func (w *Webhooks) work(job *lane.Job) {
	for job != nil {
		if job.Grant != nil {
			job.Grant(job)
			w.mu.Lock()
			job = w.advance(w.Now())
			w.mu.Unlock()
			continue
		}
		h := job.By.(*holding)
		var result lane.Result
		h.do(func(ctx context.Context) {
			result = w.send(ctx, endpointOf(job.Hook), &job.Event, note{attempt: job.Attempt, prev: job.Prev, cause: CauseLive})
		})
		w.mu.Lock()
		now := w.Now()
		w.machine.Done(job, result, now)
		job = w.advance(now)
		w.mu.Unlock()
		signal(h.landed)
	}
}

// send sends an event once and puts it into the log.
func (w *Webhooks) send(ctx context.Context, e *endpoint, ev *event.Stored, n note) lane.Result {
	result, answer := w.post(ctx, e, ev, n)
	if result.Aborted {
		return result
	}
	d := Delivery{
		ID: id.New[id.Delivery](), Org: e.org, Account: e.account, At: w.Now(), Event: ev.ID, Kind: ev.Kind, Seq: ev.Seq, Attempt: n.attempt,
		Status: result.Status, Took: result.Took, Error: result.Failure, Cause: n.cause, Delivered: lane.Judge(result) == lane.Delivered,
	}
	if !d.Delivered {
		d.Snippet = snippet(answer.Body, maxSnippet)
	}
	if !w.log.add(&d) {
		w.metrics.unlogged.Inc()
	}
	w.metrics.count(d.Delivered, result.Took)
	return result
}

func (w *Webhooks) post(ctx context.Context, e *endpoint, ev *event.Stored, n note) (lane.Result, egress.Answer) {
	if err := w.Permits.Permit(ctx, e.org); err != nil {
		return lane.Result{Aborted: true}, egress.Answer{}
	}
	began := w.Now()
	answer, err := w.Public.Send(ctx, e.target, e.header(ev, n, began), ev.Body)
	ended := w.Now()
	result := lane.Result{Status: answer.Status, Took: ended.Sub(began)}
	if failure, failed := errors.AsType[egress.Failure](err); failed {
		result.Failure = string(failure)
		return result, egress.Answer{}
	}
	if err != nil {
		result.Aborted = true
		return result, egress.Answer{}
	}
	if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable {
		result.RetryAfter = lane.RetryAfter(answer.Header.Get("Retry-After"), ended, w.Config.Lane.MaxRetryAfter)
	}
	return result, answer
}

// maxSnippet is how much of a failed answer is kept, in bytes.
const maxSnippet = 1024

// snippet is the beginning of an answer as text, without what a database or a terminal would choke on.
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
