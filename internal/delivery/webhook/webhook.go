// Package webhook sends an account's events to the URL that its owner gave: in order, at least once, signed, without one receiver's
// trouble becoming another's.
//
// It owns the webhook (hooks.go), how far its delivery is (package lane decides, hold.go and deliver.go carry out), what is delivered
// beside the order (errand.go) and the log of deliveries (log.go). Whoever has the lease of a bucket calls Hold for it, and Committed
// after each commit to the event store. A delivery that works costs no query and no row but its line in the log: what is written is the
// floor of each bucket, up to when everything is done, and a row for each lane that is behind it (flush.go). See docs/webhooks.md.
package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config are the times and bounds of deliveries.
type Config struct {
	Lane lane.Config
	// FlushEvery is how often what has changed is written; what a crash repeats is about as much.
	FlushEvery time.Duration
	// Margin is how far the clocks of two nodes may differ. As much is delivered again after a crash.
	Margin time.Duration
	// Patience is how long a bucket that is given up waits for what is under way.
	Patience time.Duration
	// PollEvery is how often changed webhooks and due errands are looked for when nobody tells of them.
	PollEvery time.Duration
	// Errands is how many of them a node does at once.
	Errands int
}

// Defaults are what a node runs with.
func Defaults() Config {
	return Config{
		Lane: lane.Defaults(), FlushEvery: 250 * time.Millisecond, Margin: time.Second, Patience: 3 * time.Second, PollEvery: 5 * time.Second, Errands: 32,
	}
}

// sender sends to customers' URLs; *egress.Public does.
type sender interface {
	CheckURL(ctx context.Context, raw string) error
	Target(raw string) (egress.Target, error)
	Send(ctx context.Context, target egress.Target, header http.Header, body []byte) (egress.Answer, error)
}

// orgs knows limits and environments; *org.Orgs does.
type orgs interface {
	Get(ctx context.Context, org id.Org) (org.Org, error)
}

// accounts is implemented by *account.Accounts.
type accounts interface {
	Get(ctx context.Context, owner id.Org, account id.Account) (account.Account, error)
	Labels(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]string, error)
}

// sealer keeps secrets; *seal.Sealer does.
type sealer interface {
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
}

// poker tells other nodes; *pubsub.Bus does.
type poker interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// counter counts deliveries; *usage.Usage does.
type counter interface {
	Delivered(org id.Org, accepted, failed int64)
}

// permits says whether something may leave for an org now; *org.Suspensions does. Permit waits while that is not known.
type permits interface {
	Permit(ctx context.Context, org id.Org) error
	Suspended(org id.Org) bool
}

// Deps is what the service needs.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Events   *event.Store
	Kinds    *event.Kinds
	Orgs     orgs
	Accounts accounts
	Seal     sealer
	Audit    *audit.Log
	Outbox   *outbox.Outbox
	Public   sender
	Bus      poker
	Usage    counter
	// Switches say whether anything is sent; nil for always. Halt is told of it as well.
	Switches *switches.Control
	// Permits is asked right before anything is sent. Suspend is told of the same orgs.
	Permits permits
	Log     *slog.Logger
	Now     func() time.Time
}

// Webhooks is the service.
type Webhooks struct {
	Deps
	days    *postgres.Days
	metrics metrics

	// mu guards the machine and the buckets that are held.
	mu      sync.Mutex
	machine *lane.Machine
	held    map[int]*holding
	workers sync.WaitGroup

	// flushing is held by whoever writes: one at a time. copied is memory that the last one has left.
	flushing sync.Mutex
	copied   *postgres.Rows
	log      deliveryLog
	shortly  coalescer
	errands  running

	loads, timers, wake chan struct{}
	// ended means that it is over, and nobody is held back any more.
	ended bool
}

// New makes the service.
func New(d Deps) *Webhooks {
	w := &Webhooks{
		Deps: d, days: postgres.NewDays(d.DB, "webhook_delivery", d.Log), metrics: newMetrics(), held: map[int]*holding{},
		machine: lane.New(d.Config.Lane, rand.Float64), loads: make(chan struct{}, 1), timers: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
	w.shortly.entries = map[shortKey]*shortEntry{}
	w.errands.ids = map[string]bool{}
	w.errands.ask()
	return w
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run does what a node does for all its buckets, until the context ends.
func (w *Webhooks) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, part := range []func(context.Context){w.loadLoop, w.timerLoop, w.flushLoop, w.pollLoop, w.errandLoop, w.upkeepLoop, w.listen} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	w.end()
	w.workers.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushAtMost)
	defer cancel()
	w.flushOrLog(last)
	return nil
}

func (w *Webhooks) timerLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		now := w.Now()
		w.machine.Tick(now)
		job := w.advance(now)
		wait := time.Minute
		if at, ok := w.machine.NextDue(); ok {
			wait = min(max(at.Sub(now), time.Millisecond), wait)
		}
		w.mu.Unlock()
		w.spawn(job)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.timers:
		}
	}
}

// every calls do at intervals, and at once when somebody signals.
func every(ctx context.Context, interval time.Duration, soon <-chan struct{}, do func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-soon:
		}
		do(ctx)
	}
}

const upkeepEvery = 10 * time.Minute

// MaxDays is how long deliveries can be read; plans allow as long or shorter.
const MaxDays = 30

func (w *Webhooks) upkeepLoop(ctx context.Context) {
	w.upkeep(ctx)
	every(ctx, upkeepEvery, nil, w.upkeep)
}

func (w *Webhooks) upkeep(ctx context.Context) {
	_, err := w.days.Upkeep(ctx, 1, 2, MaxDays+1)
	if err == nil {
		err = forgetDeleted(ctx, w.DB.Pool(), w.Now().Add(-time.Hour))
	}
	if err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "webhook upkeep not done", slog.Any("error", err))
	}
}

// subject is where nodes are told that an account's webhook changed, or that there is an errand for it.
func subject(account id.Account) string { return "ctl.webhook." + string(account) }

const pattern = "ctl.webhook.*"

// tell has the owner of the account's bucket look at it. It only makes sooner what would happen anyway.
func (w *Webhooks) tell(ctx context.Context, org id.Org, account id.Account) {
	if err := w.Bus.Publish(subject(account), []byte(org)); err != nil {
		w.Log.LogAttrs(ctx, slog.LevelDebug, "webhook change not told", slog.Any("error", err))
	}
	w.changed(org, string(account))
}

func (w *Webhooks) listen(ctx context.Context) {
	err := w.Bus.Subscribe(ctx, pattern, func(account string, payload []byte) {
		if org, err := id.Parse[id.Org](string(payload)); err == nil {
			w.changed(org, account)
		}
	})
	if err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "webhook changes not heard of", slog.Any("error", err))
	}
	<-ctx.Done()
}

// changed has a webhook read again, if its bucket is here.
func (w *Webhooks) changed(org id.Org, account string) {
	w.mu.Lock()
	here := w.held[event.Bucket(account)] != nil
	if here {
		w.machine.Invalidate(org, account)
	}
	job := w.advance(w.Now())
	w.mu.Unlock()
	w.spawn(job)
	if here {
		signal(w.wake)
	}
}

// pollLoop finds changes that nobody told of.
func (w *Webhooks) pollLoop(ctx context.Context) {
	since, seen := w.Now().Add(-overlap), map[ref]time.Time{}
	every(ctx, w.Config.PollEvery, nil, func(ctx context.Context) {
		list, newest, err := changedSince(ctx, w.DB.Pool(), since)
		if err != nil {
			if ctx.Err() == nil {
				w.Log.LogAttrs(ctx, slog.LevelWarn, "webhook changes not read", slog.Any("error", err))
			}
			return
		}
		now := map[ref]time.Time{}
		for _, one := range list {
			if now[one.ref] = one.at; !seen[one.ref].Equal(one.at) {
				w.changed(one.Org, string(one.Account))
			}
		}
		seen = now
		if from := newest.Add(-overlap); from.After(since) {
			since = from
		}
	})
}

// overlap is longer than a transaction takes: one that began earlier may end later.
const overlap = 15 * time.Second
