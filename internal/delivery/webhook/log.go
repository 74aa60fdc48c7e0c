package webhook

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Delivery is one attempt to deliver an event.
type Delivery struct {
	ID  id.Delivery
	Org id.Org
	// Endpoint is empty for a delivery to the webhook of an account. Account is that of the event; empty for an event of the
	// organisation.
	Endpoint id.Endpoint
	Account  id.Account
	At       time.Time
	Event    id.Event
	Kind     string
	// Seq is 0 for an event that is not stored.
	Seq     int64
	Attempt int
	// Status is 0 if there was no response; Error then says why.
	Status    int
	Took      time.Duration
	Error     string
	Cause     string
	Delivered bool
	// Snippet is the beginning of the response to a failed delivery.
	Snippet string

	// lag is the time from the event to the response that accepted it. It is not stored, and 0 for an event that was sent
	// again.
	lag time.Duration
}

// Position is a position in the delivery log, which is read from the newest entry: right after the delivery with this
// time and id. The zero value is before the newest.
type Position struct {
	At time.Time
	ID id.Delivery
}

// String returns the position as an opaque cursor for callers.
func (p Position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.At.UnixMicro(), 36) + "." + string(p.ID)))
}

// ParsePosition parses a cursor from String.
func ParsePosition(text string) (Position, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Position{}, false
	}
	micros, name, found := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(micros, 36, 64)
	if err != nil || !found || n <= 0 || n > maxMicros {
		return Position{}, false
	}
	one, err := id.Parse[id.Delivery](name)
	return Position{time.UnixMicro(n).UTC(), one}, err == nil
}

// maxMicros is in the year 9999, the last that every part of the system can represent.
const maxMicros = 253_370_764_800_000_000

// LogFilter selects deliveries. Empty fields select all.
type LogFilter struct {
	// Delivered selects successful or failed deliveries; nil means both.
	Delivered *bool
	Kind      string
	Event     id.Event
	// Behind is where the page starts.
	Behind Position
	// Wait is how long to wait for a delivery if there is none.
	Wait time.Duration
}

// lookEvery is how often Deliveries reads the log while it waits.
const lookEvery = 100 * time.Millisecond

// skew is how far the clocks of other nodes may be ahead.
const skew = time.Hour

// Deliveries lists deliveries of an account, newest first, and returns where the next page starts; zero after the last
// page. days is how many days back the caller may read.
func (w *Webhooks) Deliveries(ctx context.Context, org id.Org, account id.Account, f LogFilter, days, limit int) ([]Delivery, Position, error) {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return nil, Position{}, err
	}
	return w.deliveriesOf(ctx, ref{org, account}, f, days, limit)
}

// deliveriesOf lists deliveries to the webhook of an account, or to an endpoint.
func (w *Webhooks) deliveriesOf(ctx context.Context, of ref, f LogFilter, days, limit int) (list []Delivery, next Position, err error) {
	if f.Behind.At.IsZero() {
		f.Behind.At = w.deps.Now().Add(skew)
	}
	for end := w.deps.Now().Add(f.Wait); ; {
		w.flushLog(ctx)
		// One more shows whether there is another page.
		list, err = listDeliveries(ctx, w.deps.DB, of, f, w.readableSince(days), limit+1)
		if err != nil || len(list) > 0 || !w.deps.Now().Before(end) || !clock.Pause(ctx, lookEvery) {
			break
		}
	}
	if err == nil {
		err = w.openSnippets(ctx, list)
	}
	if err != nil || len(list) <= limit {
		return list, Position{}, err
	}
	list = list[:limit]
	return list, Position{list[limit-1].At, list[limit-1].ID}, nil
}

// flushLog writes the deliveries that this node has in memory, so that a caller finds the test it has just made on the
// same node.
func (w *Webhooks) flushLog(ctx context.Context) {
	if w.log.waiting() {
		w.flushOrLog(ctx)
	}
}

// readableSince returns how far back an org may read, by a limit in days.
func (w *Webhooks) readableSince(days int) time.Time { return org.ReadableSince(w.deps.Now(), days) }

// Delivery returns one delivery of an account. days is how many days back the caller may read.
func (w *Webhooks) Delivery(ctx context.Context, org id.Org, account id.Account, one id.Delivery, days int) (Delivery, error) {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return Delivery{}, err
	}
	w.flushLog(ctx)
	d, err := getDelivery(ctx, w.deps.DB, ref{org, account}, one, w.readableSince(days))
	if err != nil {
		return Delivery{}, err
	}
	return w.OpenSnippet(ctx, d)
}

// Redeliver sends the event of a delivery once more, as a side delivery. It returns the original delivery.
func (w *Webhooks) Redeliver(ctx context.Context, by audit.By, org id.Org, account id.Account, one id.Delivery, days int) (Delivery, error) {
	d, err := w.Delivery(ctx, org, account, one, days)
	if err != nil {
		return Delivery{}, err
	}
	if d.Seq == 0 {
		return Delivery{}, problem.EventNotFound.New("The event is not stored, as tests and ephemeral events are not, so it cannot be sent again.")
	}
	if _, err := w.deps.Events.Find(ctx, org, string(account), d.Event); err != nil {
		return Delivery{}, err
	}
	again := sideDelivery{org: org, account: string(account), kind: sideRedeliver, from: d.Seq, to: d.Seq}
	_, err = w.addSideDelivery(ctx, by, again, audit.Changes{"eventId": {To: d.Event}, "deliveryId": {To: d.ID}})
	return d, err
}

// Range selects the events of a replay.
type Range struct {
	// Either FromID or FromTime is set: the first event, or the earliest time.
	FromID           id.Event
	FromTime, ToTime time.Time
	// Events are the kinds to deliver; nil means all.
	Events []string
	// OnlyFailed selects events that were never delivered successfully.
	OnlyFailed bool
	// DryRun only finds the range.
	DryRun bool
}

// Replay is a replay that was started.
type Replay struct {
	ID string
	// From and To are the first and the last event of the range, before it is filtered. To is less than From if the
	// range is empty.
	From, To int64
}

// Replay delivers a range of stored events again, as a side delivery.
func (w *Webhooks) Replay(ctx context.Context, by audit.By, org id.Org, account id.Account, r Range) (Replay, error) {
	a, err := w.deps.Accounts.Get(ctx, org, account)
	if err != nil {
		return Replay{}, err
	}
	if _, err := getRecord(ctx, w.deps.DB, org, account); err != nil {
		return Replay{}, err
	}
	filter, err := w.deps.Kinds.Filter(a.Environment, r.Events)
	if err != nil {
		return Replay{}, err
	}
	from, to, err := w.resolveRange(ctx, org, account, r)
	if err != nil {
		return Replay{}, err
	}
	if r.DryRun {
		return Replay{From: from, To: to}, nil
	}
	e := sideDelivery{org: org, account: string(account), kind: sideReplay, from: from, to: to, onlyFailed: r.OnlyFailed}
	if names := filter.Names(); len(names) > 0 {
		e.events = names
	}
	name, err := w.addSideDelivery(ctx, by, e, audit.Changes{
		"from": {To: event.FormatCursor(from)}, "to": {To: event.FormatCursor(max(to, 0))}, "events": {To: e.events}, "onlyFailed": {To: r.OnlyFailed},
	})
	return Replay{name, from, to}, err
}

// resolveRange returns the sequences of the first and the last event of a range.
func (w *Webhooks) resolveRange(
	ctx context.Context, org id.Org, account id.Account, r Range,
) (from, to int64, err error) {
	source := string(account)
	if r.FromID != "" {
		first, err := w.deps.Events.Find(ctx, org, source, r.FromID)
		if err != nil {
			return 0, 0, err
		}
		from = first.Seq
	} else {
		before, err := w.deps.Events.SeqAt(ctx, org, source, r.FromTime.Add(-time.Microsecond))
		if err != nil {
			return 0, 0, err
		}
		from = before + 1
	}
	if !r.ToTime.IsZero() {
		to, err = w.deps.Events.SeqAt(ctx, org, source, r.ToTime)
		return from, to, err
	}
	head, err := w.deps.Events.Head(ctx, org, source)
	return from, head.LastSeq, err
}

// addSideDelivery stores a side delivery and wakes the node that runs it. An empty range is only audited.
func (w *Webhooks) addSideDelivery(
	ctx context.Context, by audit.By, e sideDelivery, changes audit.Changes,
) (string, error) {
	account := id.Account(e.account)
	e.id, e.cursor, e.since = newSideID(), e.from-1, w.deps.Now()
	e.nextAt = e.since
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		_, exists, err := lockRecord(ctx, tx, e.org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if e.to >= e.from {
			if err := addSideDeliveryTx(ctx, tx, e); err != nil {
				return err
			}
		}
		return w.deps.Audit.Record(ctx, tx, e.org, by, e.account, changes)
	})
	if err != nil {
		return "", err
	}
	w.publishChange(ctx, e.org, account)
	return e.id, nil
}
