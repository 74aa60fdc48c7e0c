// Package admission decides whether a call may go ahead, exactly and over any number of nodes.
//
// One script on the shared server (admit.lua) holds everything that needs shared state: the org's calls per minute and
// per month, an account's reads and writes, the upstream cool-down, the epoch by which a revoked key is noticed, and the
// version of an account's session. When that server is slow or gone, each node enforces its share by itself
// (degraded.go), and what it admitted meanwhile is made up for afterwards (ledger.go).
//
// Connect attempts are counted in the database, in the transaction that creates them (connect.go).
// Start reading at Admit.
package admission

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Quota says which limits a call uses.
type Quota uint8

// The quotas. Every one of them also checks the epoch.
const (
	// Free uses nothing.
	Free Quota = iota
	// Plain uses the org's.
	Plain
	// Read uses the org's and the account's for reads.
	Read
	// Write uses the org's and the account's for writes.
	Write
	// Safety is for operations that stop something or finish a sign-in. They use neither the org's minute nor its month, so that
	// an org which has used everything up can still do them; SafetyPerMinute is their own limit.
	Safety
)

// SafetyPerMinute is how many calls of the quota Safety an org has per minute, whatever its plan.
const SafetyPerMinute = 60

// Reason names the limit that was hit.
type Reason string

// The reasons of this package.
const (
	OrgPerMinute   Reason = "org_rpm"
	OrgPerMonth    Reason = "org_monthly"
	AccountRead    Reason = "account_read_rpm"
	AccountWrite   Reason = "account_write_rpm"
	ConnectPerHour Reason = "connect_hourly"
	SafetyReason   Reason = "safety_rpm"
)

// Call is what is to be admitted.
type Call struct {
	Org     id.Org
	Account id.Account
	Quota   Quota
	// Epoch and Limits are those of the org as the caller knows it.
	Epoch  int64
	Limits *org.Limits
	// Started is when the call began, ReadAt when the identity was read that it is made with. While the epoch cannot be
	// asked for, an identity that is too old is called stale. Zero for calls that are made with none.
	Started, ReadAt time.Time

	// peek means that an account's windows are only looked at.
	peek bool
}

// looks says that the call uses nothing up.
func (c Call) looks() bool { return c.Quota == Free || c.peek }

// counted says that the call adds to the org's month.
func (c Call) counted() bool { return !c.looks() && c.Quota != Safety }

// fresh says that the identity was read after the call began: a change that was confirmed before the call is in it.
func (c Call) fresh() bool { return !c.Started.IsZero() && !c.ReadAt.Before(c.Started) }

func (c Call) accountLimit() int {
	switch c.Quota {
	case Read:
		return c.Limits.AccountReadPerMinute
	case Write:
		return c.Limits.AccountWritePerMinute
	case Free, Plain, Safety:
	}
	return org.Unlimited
}

// Decision is the answer to a call.
type Decision struct {
	// Stale means that the caller's view of the org is out of date: read it again and ask again. Nothing was consumed.
	Stale bool
	// Denied is nil for a call that may go ahead.
	Denied *Denial
	// What is left after this call. Account is empty for calls that concern none, Safety for all but those of its quota.
	Org, Month, Account, Safety Window
	// MonthUsed is how many calls the month has had.
	MonthUsed int64
	// SessionVersion is the newest known version of the account's session; 0 if none is known.
	SessionVersion uint32
	// At is when the call was admitted and LastWrite when the account was last written to before, both by the shared server's clock.
	// Zero if it was not asked, or does not know of a write.
	At, LastWrite time.Time
	// Degraded means that this node decided alone.
	Degraded bool
}

// Denial says why not, and for how long.
type Denial struct {
	// CoolDown means that the platform, not a limit of ours, asked for a pause; Reason is then empty.
	CoolDown bool
	Reason   Reason
	Wait     time.Duration
	Limit    int
	Current  int
}

// Problem is what the caller is told.
func (d *Denial) Problem() *problem.Error {
	if d.CoolDown {
		return problem.UpstreamRateLimited.New("The platform asked this account to pause.").After(seconds(d.Wait))
	}
	return problem.QuotaExceeded.Newf("The limit %s is reached. Wait %d s and repeat the call; it was not counted.",
		d.Reason, seconds(d.Wait)).
		After(seconds(d.Wait)).With("reason", string(d.Reason)).With("limit", d.Limit).With("current", d.Current)
}

// fleet knows how many nodes share the work, and when one last died; *fleet.Fleet has it.
type fleet interface {
	LiveAPI() int
	LastDeath() time.Time
}

// epochs reads an org's epoch from the database; *org.Orgs has it.
type epochs interface {
	HoldEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error)
}

// Config are the settings.
type Config struct {
	// Timeout is when an answer of the shared server is late. Late answers are used all the same, but several of them in a row make this
	// node decide alone for a while.
	Timeout time.Duration
	// Patience is how long a call waits for an answer before this node decides alone; Timeout if it is less.
	Patience time.Duration
	// Process is unique to this start of this node.
	Process string
	// OwnClock makes admissions use this node's clock instead of the server's, so that tests can move time forward.
	OwnClock bool
}

// Deps is what the limiter needs.
type Deps struct {
	Config Config
	Redis  *redis.Client
	DB     *postgres.DB
	Bus    *pubsub.Bus
	Fleet  fleet
	Log    *slog.Logger
	Now    func() time.Time
}

// Limiter is the service.
type Limiter struct {
	Deps
	scripts scripts
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	orgs    sync.Map // id.Org -> *orgState
	// accounts holds the buckets this node keeps by itself while degraded, denials those of single accounts.
	accounts  cache.Cache[accountQuota, *localBucket]
	denials   cache.Cache[accountQuota, heldDenial]
	cooldowns cache.Cache[id.Account, time.Time]
	priming   singleflight.Group
	epochs    epochs
	metrics   Metrics
	trouble   atomic.Int64 // Unix nanoseconds of the last failure of the shared server
	settle    settling
}

type accountQuota struct {
	account id.Account
	quota   Quota
}

// localCacheSize bounds what a node remembers of single accounts.
const localCacheSize = 100_000

// New makes a limiter. SetEpochs must be called before its first use.
func New(d Deps) *Limiter {
	d.Config.Patience = max(d.Config.Patience, d.Config.Timeout)
	l := &Limiter{Deps: d, scripts: loadScripts(), metrics: newMetrics(), settle: settling{due: map[id.Org]due{}}}
	l.accounts = cache.NewUsed[accountQuota, *localBucket](localCacheSize, 10*time.Minute)
	l.denials = cache.NewFor[accountQuota, heldDenial](localCacheSize, denyAtMost)
	l.cooldowns = cache.NewFor[id.Account, time.Time](localCacheSize, time.Hour)
	l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		// The breaker forgets what it counted after an interval, and ignores answers to questions of the one before. So
		// an interval is several times as long as an answer may take.
		Name: "redis", MaxRequests: 3, Interval: max(time.Second, 4*d.Config.Patience), Timeout: 2 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 20 && c.TotalFailures*2 >= c.Requests || c.ConsecutiveFailures >= 5
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { l.changed(from, to) },
	})
	return l
}

// SetEpochs closes the circle between orgs, which announce an epoch here, and the limiter, which reads it there.
func (l *Limiter) SetEpochs(e epochs) { l.epochs = e }

func (l *Limiter) changed(from, to gobreaker.State) {
	l.metrics.degraded.Set(boolFloat(to != gobreaker.StateClosed))
	if to == gobreaker.StateHalfOpen || from == gobreaker.StateHalfOpen && to == gobreaker.StateOpen {
		return // a probe, not a change of mode
	}
	mode := "degraded"
	if to == gobreaker.StateClosed {
		mode = "shared"
	}
	l.Log.Warn("admission mode changed", slog.String("mode", mode))
}

// Troubled says when the shared server last failed; zero if it never did. While it is in trouble a node cannot hear of
// a change by the epoch, so cached identities must be re-read sooner.
func (l *Limiter) Troubled() time.Time {
	if at := l.trouble.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

const (
	// admitTries bounds how often a call asks again because the counters were rebuilt under it.
	admitTries = 4
	// databaseAtMost bounds how long a call waits for a database that hangs.
	databaseAtMost = 3 * time.Second
)

// Admit decides on a call. It fails only if the call's context has ended.
func (l *Limiter) Admit(ctx context.Context, c Call) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	// From here on the caller's going away changes nothing: an answer that is not awaited could not be counted.
	ctx = context.WithoutCancel(ctx)
	st := l.touch(c.Org)
	if d, held := l.held(st, c); held {
		l.metrics.decisions.WithLabelValues("held").Inc()
		return d, nil
	}
	if d, ok := l.consult(ctx, st, c); ok {
		return d, nil
	}
	return l.alone(ctx, st, c), nil
}

// consult asks the shared counters; not ok if they cannot be had.
func (l *Limiter) consult(ctx context.Context, st *orgState, c Call) (Decision, bool) {
	for range admitTries {
		incarnation := st.currentIncarnation()
		a, err := l.ask(ctx, st, c, incarnation)
		if err != nil {
			return Decision{}, false
		}
		switch a.verdict {
		case otherCounter:
			if err := l.adopt(ctx, st, c.Org, incarnation, a.incarnation); err != nil {
				return Decision{}, false
			}
		case staleEpoch:
			return Decision{Stale: true}, true
		case admitted, overMinute, overMonth, overRead, overWrite, overSafety, coolingDown:
			return l.decide(st, c, a), true
		}
	}
	return Decision{}, false
}

// ask runs the admission script, unless the breaker is open. On an error the script may have run all the same.
func (l *Limiter) ask(ctx context.Context, st *orgState, c Call, incarnation int64) (answer, error) {
	done, err := l.breaker.Allow()
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.Config.Patience)
	defer cancel()
	// Its own timer, because the clock of a test may stand still.
	inTime, over := context.WithTimeout(ctx, l.Config.Timeout)
	defer over()
	keys := []string{orgKey(c.Org)}
	switch c.Quota {
	case Read, Write:
		keys = append(keys, accountKey(c.Org, c.Account))
	case Safety:
		keys = append(keys, safetyKey(c.Org))
	case Free, Plain:
	}
	text, err := l.Redis.Run(ctx, l.scripts.admit, keys, arguments(c, monthOf(l.Now()), incarnation, l.sharedNow()))
	if err == nil {
		var a answer
		if a, err = decode(text); err == nil {
			if done(inTime.Err()); inTime.Err() != nil {
				l.metrics.late.Inc()
			}
			return a, nil
		}
	}
	done(err)
	l.failed(err, st)
	return answer{}, err
}

// sharedNow is the time that the scripts are to use; 0 for their server's.
func (l *Limiter) sharedNow() string {
	if l.Config.OwnClock {
		return strconv.FormatInt(l.Now().UnixMilli(), 10)
	}
	return "0"
}

// failed notes that the shared server did not answer. Unless it surely did not get the question, its counters of this
// org can no longer be trusted.
func (l *Limiter) failed(err error, st *orgState) {
	l.trouble.Store(l.Now().UnixNano())
	if st != nil && !errors.Is(err, redis.ErrUnavailable) {
		st.doubted()
	}
}

// decide turns the shared server's answer into a decision and remembers what it tells.
func (l *Limiter) decide(st *orgState, c Call, a answer) Decision {
	d := Decision{
		Org:            window(a.now, a.orgLevel, c.Limits.CallsPerMinute, time.Minute),
		Month:          monthWindow(a.now, a.used, c.Limits.CallsPerMonth),
		MonthUsed:      a.used,
		SessionVersion: a.sessionVersion,
		At:             a.now,
		LastWrite:      a.lastWrite,
	}
	switch c.Quota {
	case Read, Write:
		d.Account = window(a.now, a.ownLevel, c.accountLimit(), time.Minute)
	case Safety:
		d.Safety = window(a.now, a.ownLevel, SafetyPerMinute, time.Minute)
	case Free, Plain:
	}
	now := l.Now()
	st.learn(a.month, a.used, bucket{a.orgLevel, now})
	if a.verdict == admitted {
		if c.counted() {
			st.count(a.month, a.incarnation) // the month it was counted in, whatever this node's clock says by now
		}
		l.metrics.decisions.WithLabelValues("admitted").Inc()
		return d
	}
	if c.looks() {
		return d
	}
	d.Denied = denial(c, a)
	l.hold(st, c, d, now)
	l.metrics.decisions.WithLabelValues("denied").Inc()
	return d
}

// denial explains a verdict.
func denial(c Call, a answer) *Denial {
	current := func(level float64) int { return int(ceil(level)) }
	switch a.verdict {
	case overMinute:
		return &Denial{Reason: OrgPerMinute, Wait: a.wait, Limit: c.Limits.CallsPerMinute, Current: current(a.orgLevel)}
	case overMonth:
		return &Denial{Reason: OrgPerMonth, Wait: nextMonth(a.now).Sub(a.now), Limit: c.Limits.CallsPerMonth, Current: int(a.used)}
	case overRead:
		return &Denial{Reason: AccountRead, Wait: a.wait, Limit: c.accountLimit(), Current: current(a.ownLevel)}
	case overWrite:
		return &Denial{Reason: AccountWrite, Wait: a.wait, Limit: c.accountLimit(), Current: current(a.ownLevel)}
	case overSafety:
		return &Denial{Reason: SafetyReason, Wait: a.wait, Limit: SafetyPerMinute, Current: current(a.ownLevel)}
	case admitted, staleEpoch, otherCounter, coolingDown:
	}
	return &Denial{CoolDown: true, Wait: a.wait}
}

// AccountWindows is what is left of an account's limits. While the shared server is away nothing is known of them, and they look full.
func (l *Limiter) AccountWindows(ctx context.Context, owner id.Org, account id.Account, limits *org.Limits) (read, write Window, err error) {
	if err := ctx.Err(); err != nil {
		return Window{}, Window{}, err
	}
	st, now := l.touch(owner), l.Now()
	ask := func(q Quota) Window {
		c := Call{Org: owner, Account: account, Quota: q, Limits: limits, Started: now, ReadAt: now, peek: true}
		if d, ok := l.consult(context.WithoutCancel(ctx), st, c); ok {
			return d.Account
		}
		return window(now, 0, c.accountLimit(), time.Minute)
	}
	return ask(Read), ask(Write), nil
}

// Cool pauses an account on every node. On this node the pause holds, for up to an hour, even if the shared server is away.
func (l *Limiter) Cool(ctx context.Context, org id.Org, account id.Account, pause time.Duration) error {
	until := l.Now().Add(pause)
	l.cooldowns.Change(account, func(old time.Time, found bool) (time.Time, cache.Outcome) {
		if found && old.After(until) {
			return old, cache.Keep // a pause only grows
		}
		return until, cache.Replace
	})
	l.ForgetAccount(account)
	err := l.note(ctx, org, account, pause, 0)
	l.poke(pokeAccount, string(account), "")
	return err
}

// SessionChanged tells every node that an account's session has a newer version.
func (l *Limiter) SessionChanged(ctx context.Context, org id.Org, account id.Account, version uint32) error {
	return l.note(ctx, org, account, 0, version)
}

func (l *Limiter) note(ctx context.Context, org id.Org, account id.Account, pause time.Duration, version uint32) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	_, err := l.Redis.Run(ctx, l.scripts.cool, []string{accountKey(org, account)},
		[]string{itoa(int(pause.Milliseconds())), itoa(int(version)), l.sharedNow()})
	return err
}

// tellTimeout is how long something that must be known everywhere is given to get there. It is more than a call waits:
// the confirmation of a revocation rests on it.
const tellTimeout = time.Second

// Pokes carry an org's new epoch, or that an account's limits are other than a node may remember. The id is the last
// token of the subject.
const (
	pokeOrg     = "org"
	pokeAccount = "acct"

	// EpochPattern and AccountPattern are what a node listens on.
	EpochPattern   = "inv." + pokeOrg + ".*"
	AccountPattern = "inv." + pokeAccount + ".*"
)

// poke tells the other nodes sooner what they would find out anyway, so its failure does not matter.
func (l *Limiter) poke(kind, name, payload string) {
	if subject, err := pubsub.Subject("inv", kind, name); err == nil {
		_ = l.Bus.Poke(subject, []byte(payload))
	}
}

// Announce tells every node of an org's new epoch: the shared server, where the next call on any node meets it, and the
// bus, which is faster for streams and for nodes that cannot reach the server. It fails if the server was not reached.
func (l *Limiter) Announce(ctx context.Context, org id.Org, epoch int64) error {
	l.Forget(org)
	_, err := l.tell(ctx, l.scripts.bump, org, epoch)
	if err != nil {
		l.failed(err, nil)
	}
	l.poke(pokeOrg, string(org), itoa(int(epoch)))
	return err
}

// Forget drops what this node holds against an org, because its limits may have changed. What it holds against single
// accounts of the org goes within five seconds.
func (l *Limiter) Forget(org id.Org) { l.state(org).release() }

// ForgetAccount drops what this node holds against an account.
func (l *Limiter) ForgetAccount(account id.Account) {
	l.denials.Drop(accountQuota{account, Read})
	l.denials.Drop(accountQuota{account, Write})
}
