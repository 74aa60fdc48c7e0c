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
)

// Delivery is one attempt to deliver an event.
type Delivery struct {
	ID      id.Delivery
	Org     id.Org
	Account id.Account
	At      time.Time
	Event   id.Event
	Kind    string
	// Seq is 0 for an event that is not stored.
	Seq     int64
	Attempt int
	// Status is 0 if there was no answer; Error says why then.
	Status    int
	Took      time.Duration
	Error     string
	Cause     string
	Delivered bool
	// Snippet is the beginning of the answer to one that failed.
	Snippet string
}

// Position is a place in the log, behind a delivery. The zero value is the newest end.
type Position struct {
	At time.Time
	ID id.Delivery
}

// String is the form for callers, who have no business reading it.
func (p Position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.At.UnixMicro(), 36) + "." + string(p.ID)))
}

// ParsePosition reads what String made.
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

// maxMicros is in the year 9999, up to which every part of the system can write a time.
const maxMicros = 253_370_764_800_000_000

// LogFilter chooses deliveries. What is empty does not matter.
type LogFilter struct {
	// Delivered is nil for both that got through and that did not.
	Delivered *bool
	Kind      string
	Event     id.Event
	Behind    Position
	// Wait is how long to wait if there is none.
	Wait time.Duration
}

// lookEvery is how often a list that is waited for is read.
const lookEvery = 100 * time.Millisecond

// skew is how far the clocks of other nodes may be ahead.
const skew = time.Hour

// Deliveries lists deliveries of an account from the newest. next is where to go on; zero if that was all. days is how long they are kept.
func (w *Webhooks) Deliveries(ctx context.Context, org id.Org, account id.Account, f LogFilter, days, limit int) (list []Delivery, next Position, err error) {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return nil, Position{}, err
	}
	if f.Behind.At.IsZero() {
		f.Behind.At = w.Now().Add(skew)
	}
	for end := w.Now().Add(f.Wait); ; {
		w.settleLog(ctx)
		// One more than is wanted tells whether there is another page.
		list, err = deliveries(ctx, w.DB.Pool(), ref{org, account}, f, w.kept(days), limit+1)
		if err != nil || len(list) > 0 || !w.Now().Before(end) || !clock.Pause(ctx, lookEvery) {
			break
		}
	}
	if err != nil || len(list) <= limit {
		return list, Position{}, err
	}
	list = list[:limit]
	return list, Position{list[limit-1].At, list[limit-1].ID}, nil
}

// settleLog writes what this node has in memory: who has just made a test and asks the same node finds it.
func (w *Webhooks) settleLog(ctx context.Context) {
	if w.log.waiting() {
		w.flushOrLog(ctx)
	}
}

func (w *Webhooks) kept(days int) time.Time {
	if days < 0 || days > MaxDays {
		days = MaxDays
	}
	return w.Now().AddDate(0, 0, -days)
}

// Delivery finds one delivery of an account.
func (w *Webhooks) Delivery(ctx context.Context, org id.Org, account id.Account, one id.Delivery, days int) (Delivery, error) {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return Delivery{}, err
	}
	w.settleLog(ctx)
	return delivery(ctx, w.DB.Pool(), ref{org, account}, one, w.kept(days))
}

// Redeliver has the event of a delivery sent once more, beside the order.
func (w *Webhooks) Redeliver(ctx context.Context, by audit.By, org id.Org, account id.Account, one id.Delivery, days int) (Delivery, error) {
	d, err := w.Delivery(ctx, org, account, one, days)
	if err != nil {
		return Delivery{}, err
	}
	if d.Seq == 0 {
		return Delivery{}, problem.EventNotFound.New("The event is not stored, as tests and ephemeral events are not, so it cannot be sent again.")
	}
	if _, err := w.Events.Find(ctx, org, string(account), d.Event); err != nil {
		return Delivery{}, err
	}
	_, err = w.addErrand(ctx, by, errand{org: org, account: string(account), kind: errandRedeliver, from: d.Seq, to: d.Seq}, audit.Changes{
		"eventId": {To: d.Event}, "deliveryId": {To: d.ID},
	})
	return d, err
}

// Range says what is replayed.
type Range struct {
	// FromID is the first event, or FromTime the moment of the first; one of them is given.
	FromID           id.Event
	FromTime, ToTime time.Time
	// Events is nil for all.
	Events     []string
	OnlyFailed bool
}

// Replay is a replay that was begun.
type Replay struct {
	ID string
	// From and To are the first and the last event of the range, before it is filtered; To is below From if there is nothing in it.
	From, To int64
}

// Replay has events sent again from the log, beside the order.
func (w *Webhooks) Replay(ctx context.Context, by audit.By, org id.Org, account id.Account, r Range) (Replay, error) {
	a, err := w.Accounts.Get(ctx, org, account)
	if err != nil {
		return Replay{}, err
	}
	if _, err := get(ctx, w.DB.Pool(), org, account); err != nil {
		return Replay{}, err
	}
	filter, err := w.Kinds.Filter(a.Environment, r.Events)
	if err != nil {
		return Replay{}, err
	}
	from, to, err := w.span(ctx, org, account, r)
	if err != nil {
		return Replay{}, err
	}
	e := errand{org: org, account: string(account), kind: errandReplay, from: from, to: to, onlyFailed: r.OnlyFailed}
	if names := filter.Names(); len(names) > 0 {
		e.events = names
	}
	name, err := w.addErrand(ctx, by, e, audit.Changes{
		"from": {To: event.FormatCursor(from)}, "to": {To: event.FormatCursor(max(to, 0))}, "events": {To: e.events}, "onlyFailed": {To: r.OnlyFailed},
	})
	return Replay{name, from, to}, err
}

// span is the first and the last event of a range.
func (w *Webhooks) span(ctx context.Context, org id.Org, account id.Account, r Range) (from, to int64, err error) {
	source := string(account)
	if r.FromID != "" {
		first, err := w.Events.Find(ctx, org, source, r.FromID)
		if err != nil {
			return 0, 0, err
		}
		from = first.Seq
	} else {
		before, err := w.Events.SeqAt(ctx, org, source, r.FromTime.Add(-time.Microsecond))
		if err != nil {
			return 0, 0, err
		}
		from = before + 1
	}
	if !r.ToTime.IsZero() {
		to, err = w.Events.SeqAt(ctx, org, source, r.ToTime)
		return from, to, err
	}
	head, err := w.Events.Head(ctx, org, source)
	return from, head.LastSeq, err
}

// addErrand writes an errand and tells whoever does it.
func (w *Webhooks) addErrand(ctx context.Context, by audit.By, e errand, changes audit.Changes) (string, error) {
	account := id.Account(e.account)
	e.id, e.cursor, e.since = newErrandID(), e.from-1, w.Now()
	e.nextAt = e.since
	err := w.DB.Tx(ctx, func(tx postgres.Tx) error {
		_, exists, err := lock(ctx, tx, e.org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if e.to >= e.from {
			if err := addErrandTo(ctx, tx, e); err != nil {
				return err
			}
		}
		return w.Audit.Record(ctx, tx, e.org, by, e.account, changes)
	})
	if err != nil {
		return "", err
	}
	w.tell(ctx, e.org, account)
	return e.id, nil
}
