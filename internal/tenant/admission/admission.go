// Package admission decides whether a call may proceed, exactly and over any number of nodes. It does not authenticate
// callers (apikey) and does not break usage down (usage). Start reading at Admit.
//
// One Redis script (admit.lua) checks everything that needs shared state: the org's calls per minute and per month, an
// account's reads and writes, the platform's cool-down, the epoch by which a revoked key is noticed, and the version of
// an account's session. While Redis is slow or away, each node enforces its share of the limits alone (degraded.go);
// the calls it admits in that time are added to the shared totals afterwards (ledger.go).
//
// Connect attempts are counted in PostgreSQL, in the transaction that creates them (connect.go).
package admission

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Quota says which limits a call uses.
type Quota uint8

// The quotas. The epoch is checked for all of them.
const (
	// Free uses no limit.
	Free Quota = iota
	// Plain uses the org's limits per minute and month.
	Plain
	// Read uses the org's limits and the account's limit of reads.
	Read
	// Write uses the org's limits and the account's limit of writes.
	Write
	// Safety is for operations that stop something or finish a sign-in. They have their own limit, SafetyPerMinute, and
	// use no other, so that an org that has used up everything can still make them.
	Safety
	// Jobs is the part of a limit that jobs may use: Call.Most a minute of what Call.Of uses. A job asks for it before it
	// asks for Call.Of itself, so that callers have the rest. It uses nothing else.
	Jobs
)

// SafetyPerMinute is how many calls of the quota Safety every org has per minute, whatever its plan.
const SafetyPerMinute = 60

// Reason names a limit that was reached, as the API does.
type Reason string

// The limits that this package enforces.
const (
	OrgPerMinute   Reason = "org_rpm"
	OrgPerMonth    Reason = "org_monthly"
	AccountRead    Reason = "account_read_rpm"
	AccountWrite   Reason = "account_write_rpm"
	ConnectPerHour Reason = "connect_hourly"
	SafetyReason   Reason = "safety_rpm"
	JobShare       Reason = "job_share"
)

// Call describes a call that asks for admission.
type Call struct {
	Org     id.Org
	Account id.Account
	Quota   Quota
	// Epoch and Limits are those of the org in the caller's identity.
	Epoch  int64
	Limits *org.Limits
	// Started is when the call began and ReadAt when its identity was read. They decide whether the identity is too old
	// while Redis cannot be asked for the epoch. ReadAt is zero for a call without an identity, which is never too old.
	Started, ReadAt time.Time

	// Of and Most are for Jobs only: Read or Write for the limits of the account, Plain for those of the org.
	Of   Quota
	Most int

	// peek reads the account's windows without using the limits.
	peek bool
}

// usesNothing reports whether the call only reads the counters.
func (c Call) usesNothing() bool { return c.Quota == Free || c.peek }

// countsToMonth reports whether the call adds to the org's month if it is admitted.
func (c Call) countsToMonth() bool { return !c.usesNothing() && !c.hasOwnBucket() }

// hasOwnBucket reports whether the call uses a bucket of its quota, and none of the org and the account.
func (c Call) hasOwnBucket() bool { return c.Quota == Safety || c.Quota == Jobs }

// isFresh reports whether the identity was read after the call began. It then includes every change that was confirmed
// before the call, and a newer epoch does not make it stale. Otherwise an org that changes constantly could not call.
func (c Call) isFresh() bool { return !c.Started.IsZero() && !c.ReadAt.Before(c.Started) }

func (c Call) accountLimit() int {
	switch c.Quota {
	case Read:
		return c.Limits.AccountReadPerMinute
	case Write:
		return c.Limits.AccountWritePerMinute
	case Free, Plain, Safety, Jobs:
	}
	return org.Unlimited
}

// Decision is the result of Admit.
type Decision struct {
	// Stale means that the caller's identity is out of date. Nothing was consumed; read the identity again and call
	// Admit again.
	Stale bool
	// Denied is nil if the call may proceed.
	Denied *Denial
	// Org, Month, Account and Safety are what is left after this call. Account is set for Read and Write only, Safety
	// for Safety only.
	Org, Month, Account, Safety Window
	// MonthUsed is the org's number of calls in this month.
	MonthUsed int64
	// SessionVersion is the newest known version of the account's session; 0 if unknown.
	SessionVersion uint32
	// At is when the call was admitted, and LastWrite when the account was last written to before this call, both by
	// the clock of Redis. At is zero if Redis was not asked, LastWrite also if no write is known.
	At, LastWrite time.Time
	// Degraded means that this node decided alone, without Redis.
	Degraded bool
}

// Denial says why a call was denied, and for how long.
type Denial struct {
	// CoolDown means that the platform asked for a pause. Reason is then empty.
	CoolDown bool
	Reason   Reason
	Wait     time.Duration
	Limit    int
	Current  int
}

func (d *Denial) Problem() *problem.Error {
	if d.CoolDown {
		return problem.UpstreamRateLimited.New("The platform asked this account to pause.").After(seconds(d.Wait))
	}
	return problem.QuotaExceeded.Newf("The limit %s is reached. Wait %d s and repeat the call; it was not counted.",
		d.Reason, seconds(d.Wait)).
		After(seconds(d.Wait)).With("reason", string(d.Reason)).With("limit", d.Limit).With("current", d.Current)
}

// fleet reports how many live API nodes there are and when a node last died. *fleet.Fleet implements it.
type fleet interface {
	LiveAPI() int
	LastDeath() time.Time
}

// Config holds the settings of a Limiter.
type Config struct {
	// Timeout is how long an answer of Redis may take. A later answer is still used, but several of them in a row open
	// the breaker, and this node decides alone for a while.
	Timeout time.Duration
	// Patience is how long a call waits for an answer before this node decides it alone; at least Timeout.
	Patience time.Duration
	// Process identifies this process. It must differ for every start of every node.
	Process string
	// OwnClock makes admissions use this node's clock instead of that of Redis, so that tests can advance it.
	OwnClock bool
}

// Deps are the dependencies of a Limiter.
type Deps struct {
	Config Config
	Redis  *redis.Client
	DB     *postgres.DB
	Bus    *pubsub.Bus
	Fleet  fleet
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Limiter admits calls on one node. Its methods are safe for concurrent use.
type Limiter struct {
	deps    Deps
	scripts scripts
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	orgs    sync.Map // id.Org -> *orgState
	// accounts holds this node's own buckets of accounts while it decides alone, and denials its held denials of Read
	// and Write calls. cooldowns holds the pauses that this node was asked for.
	accounts    cache.Cache[accountQuota, *localBucket]
	denials     cache.Cache[accountQuota, heldDenial]
	cooldowns   cache.Cache[id.Account, time.Time]
	priming     singleflight.Group
	epochs      *org.Orgs
	metrics     Metrics
	lastFailure atomic.Int64 // Unix nanoseconds of the last failure of Redis; 0 for none
	settle      settling
}

type accountQuota struct {
	account id.Account
	quota   Quota
}

// localCacheSize bounds each of a node's caches by account.
const localCacheSize = 100_000

// New returns a Limiter. SetEpochs must be called before its first use.
func New(d Deps) *Limiter {
	d.Config.Patience = max(d.Config.Patience, d.Config.Timeout)
	l := &Limiter{deps: d, scripts: loadScripts(), metrics: newMetrics(d.Registry), settle: settling{due: map[id.Org]due{}}}
	l.accounts = cache.NewUsed[accountQuota, *localBucket](localCacheSize, 10*time.Minute)
	l.denials = cache.NewFor[accountQuota, heldDenial](localCacheSize, maxHold)
	l.cooldowns = cache.NewFor[id.Account, time.Time](localCacheSize, time.Hour)
	l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		// The breaker resets its counts after each interval and ignores results of requests that began in an earlier
		// one, so an interval must be several times as long as an answer may take.
		Name: "redis", MaxRequests: 3, Interval: max(time.Second, 4*d.Config.Patience), Timeout: 2 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 20 && c.TotalFailures*2 >= c.Requests || c.ConsecutiveFailures >= 5
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { l.onBreakerChange(from, to) },
	})
	return l
}

// SetEpochs sets where the Limiter reads epochs. It is separate from New because of a cycle: org.Orgs announces epochs
// through the Limiter, and the Limiter reads them from org.Orgs.
func (l *Limiter) SetEpochs(e *org.Orgs) { l.epochs = e }

func (l *Limiter) onBreakerChange(from, to gobreaker.State) {
	l.metrics.degraded.Set(boolFloat(to != gobreaker.StateClosed))
	if to == gobreaker.StateHalfOpen || from == gobreaker.StateHalfOpen && to == gobreaker.StateOpen {
		return // a probe, which does not change the mode
	}
	mode := "degraded"
	if to == gobreaker.StateClosed {
		mode = "shared"
	}
	l.deps.Log.Warn("admission mode changed", slog.String(logkey.Mode, mode))
}

// Troubled returns when Redis last failed, or zero. While Redis fails, a node does not learn of changes by the epoch,
// so cached identities must be read again sooner.
func (l *Limiter) Troubled() time.Time {
	if at := l.lastFailure.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

const (
	// admitTries bounds how often a call repeats its admission because the counters were rebuilt concurrently.
	admitTries = 4
	// databaseTimeout bounds how long a call waits for a database that hangs.
	databaseTimeout = 3 * time.Second
)

// Admit decides on a call and counts it if it is admitted. A denied or stale call consumes nothing. It returns an error
// only if ctx has ended before.
func (l *Limiter) Admit(ctx context.Context, c Call) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	// From here on the caller's cancellation is ignored: Redis may have counted the call, and this node must record
	// that.
	ctx = context.WithoutCancel(ctx)
	st := l.touchState(c.Org)
	if d, held := l.findHeldDenial(st, c); held {
		l.metrics.decisions.WithLabelValues("held").Inc()
		return d, nil
	}
	if d, ok := l.decideShared(ctx, st, c); ok {
		return d, nil
	}
	return l.decideAlone(ctx, st, c), nil
}

// decideShared decides by the shared counters in Redis. It returns false if they cannot be reached.
func (l *Limiter) decideShared(ctx context.Context, st *orgState, c Call) (Decision, bool) {
	for range admitTries {
		incarnation := st.currentIncarnation()
		a, err := l.runAdmit(ctx, st, c, incarnation)
		if err != nil {
			return Decision{}, false
		}
		switch a.outcome {
		case otherCounter:
			if err := l.adoptIncarnation(ctx, st, c.Org, incarnation, a.incarnation); err != nil {
				return Decision{}, false
			}
		case staleEpoch:
			return Decision{Stale: true}, true
		case admitted, overMinute, overMonth, overRead, overWrite, overOwn, coolingDown:
			return l.applyAnswer(st, c, a), true
		}
	}
	return Decision{}, false
}

// runAdmit runs admit.lua, unless the breaker is open. If it returns an error, the script may have run nevertheless.
func (l *Limiter) runAdmit(ctx context.Context, st *orgState, c Call, incarnation int64) (answer, error) {
	done, err := l.breaker.Allow()
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.deps.Config.Patience)
	defer cancel()
	// A timer and not l.Now, because a test's clock may stand still.
	inTime, over := context.WithTimeout(ctx, l.deps.Config.Timeout)
	defer over()
	keys := []string{orgKey(c.Org)}
	switch c.Quota {
	case Read, Write:
		keys = append(keys, accountKey(c.Org, c.Account))
	case Safety:
		keys = append(keys, safetyKey(c.Org))
	case Jobs:
		keys = append(keys, shareKey(c))
	case Free, Plain:
	}
	text, err := l.deps.Redis.Run(ctx, l.scripts.admit, keys, admitArgs(c, monthOf(l.deps.Now()), incarnation, l.sharedNow()))
	if err == nil {
		var a answer
		if a, err = decodeAnswer(text); err == nil {
			if done(inTime.Err()); inTime.Err() != nil {
				l.metrics.late.Inc()
			}
			return a, nil
		}
	}
	done(err)
	l.recordFailure(err, st)
	return answer{}, err
}

// sharedNow returns the time that the scripts use; "0" makes them use the clock of Redis.
func (l *Limiter) sharedNow() string {
	if l.deps.Config.OwnClock {
		return strconv.FormatInt(l.deps.Now().UnixMilli(), 10)
	}
	return "0"
}

// recordFailure records that Redis did not answer. Unless the command certainly did not reach Redis, the org's counters
// are in doubt: they may or may not contain the call. st may be nil.
func (l *Limiter) recordFailure(err error, st *orgState) {
	l.lastFailure.Store(l.deps.Now().UnixNano())
	if st != nil && !errors.Is(err, redis.ErrUnavailable) {
		st.addDoubt()
	}
}

// applyAnswer turns an answer of admit.lua into a decision. It counts an admitted call, holds a denial, and remembers
// the counters in case Redis is away at the next call.
func (l *Limiter) applyAnswer(st *orgState, c Call, a answer) Decision {
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
	case Free, Plain, Jobs:
	}
	now := l.deps.Now()
	st.rememberShared(a.month, a.used, bucket{a.orgLevel, now})
	if a.outcome == admitted {
		if c.countsToMonth() {
			st.countCall(a.month, a.incarnation) // the month in Redis, which may differ from this node's clock
		}
		l.metrics.decisions.WithLabelValues("admitted").Inc()
		return d
	}
	if c.usesNothing() {
		return d
	}
	d.Denied = denialFor(c, a)
	l.holdDenial(st, c, d, now)
	l.metrics.decisions.WithLabelValues("denied").Inc()
	return d
}

// denialFor returns the denial for an outcome that is not admitted.
func denialFor(c Call, a answer) *Denial {
	current := func(level float64) int { return int(ceil(level)) }
	switch a.outcome {
	case overMinute:
		return &Denial{Reason: OrgPerMinute, Wait: a.wait, Limit: c.Limits.CallsPerMinute, Current: current(a.orgLevel)}
	case overMonth:
		return &Denial{Reason: OrgPerMonth, Wait: nextMonth(a.now).Sub(a.now), Limit: c.Limits.CallsPerMonth, Current: int(a.used)}
	case overRead:
		return &Denial{Reason: AccountRead, Wait: a.wait, Limit: c.accountLimit(), Current: current(a.ownLevel)}
	case overWrite:
		return &Denial{Reason: AccountWrite, Wait: a.wait, Limit: c.accountLimit(), Current: current(a.ownLevel)}
	case overOwn:
		if c.Quota == Jobs {
			return &Denial{Reason: JobShare, Wait: a.wait, Limit: c.Most, Current: current(a.ownLevel)}
		}
		return &Denial{Reason: SafetyReason, Wait: a.wait, Limit: SafetyPerMinute, Current: current(a.ownLevel)}
	case admitted, staleEpoch, otherCounter, coolingDown:
	}
	return &Denial{CoolDown: true, Wait: a.wait}
}

// AccountWindows returns what is left of an account's limits, and uses nothing. While Redis is away it returns full
// windows.
func (l *Limiter) AccountWindows(ctx context.Context, owner id.Org, account id.Account, limits *org.Limits) (read, write Window, err error) {
	if err := ctx.Err(); err != nil {
		return Window{}, Window{}, err
	}
	st, now := l.touchState(owner), l.deps.Now()
	ask := func(q Quota) Window {
		c := Call{Org: owner, Account: account, Quota: q, Limits: limits, Started: now, ReadAt: now, peek: true}
		if d, ok := l.decideShared(context.WithoutCancel(ctx), st, c); ok {
			return d.Account
		}
		return window(now, 0, c.accountLimit(), time.Minute)
	}
	return ask(Read), ask(Write), nil
}

// Cool pauses an account on every node, because its platform asked for it. A shorter pause does not replace a longer
// one. If Redis is away, Cool returns an error and the pause applies, for up to an hour, to this node only.
func (l *Limiter) Cool(ctx context.Context, org id.Org, account id.Account, pause time.Duration) error {
	until := l.deps.Now().Add(pause)
	l.cooldowns.Change(account, func(old time.Time, found bool) (time.Time, cache.Outcome) {
		if found && old.After(until) {
			return old, cache.Keep // a pause only grows
		}
		return until, cache.Replace
	})
	l.ForgetAccount(account)
	err := l.recordOnAccount(ctx, org, account, pause, 0)
	l.publish(subjectAccount, string(account), "")
	return err
}

// SessionChanged makes every node see the new version of an account's session at the account's next call.
func (l *Limiter) SessionChanged(ctx context.Context, org id.Org, account id.Account, version uint32) error {
	return l.recordOnAccount(ctx, org, account, 0, version)
}

// recordOnAccount writes a pause or a session version, 0 for none, to the account's record in Redis.
func (l *Limiter) recordOnAccount(ctx context.Context, org id.Org, account id.Account, pause time.Duration, version uint32) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	_, err := l.deps.Redis.Run(ctx, l.scripts.cool, []string{accountKey(org, account)},
		[]string{itoa(int(pause.Milliseconds())), itoa(int(version)), l.sharedNow()})
	return err
}

// announceTimeout bounds writes to Redis that must reach every node. It is longer than a call's Patience because a
// confirmed revocation depends on it.
const announceTimeout = time.Second

// Messages between nodes. One carries an org's new epoch, the other says that a denial held for an account may be
// wrong. The id is the last token of the subject.
const (
	subjectOrg     = "org"
	subjectAccount = "acct"

	// EpochPattern and AccountPattern are the subjects that every node subscribes to.
	EpochPattern   = "inv." + subjectOrg + ".*"
	AccountPattern = "inv." + subjectAccount + ".*"
)

// publish sends a message to all nodes. It ignores errors, because the nodes find out without it, only later.
func (l *Limiter) publish(kind, name, payload string) {
	if subject, err := pubsub.Subject("inv", kind, name); err == nil {
		_ = l.deps.Bus.Publish(subject, []byte(payload))
	}
}

// Announce announces an org's new epoch to every node: in Redis, where the next call on any node finds it, and by a
// message, which is faster for streams and for nodes that cannot reach Redis. It returns an error if Redis did not
// confirm the epoch.
func (l *Limiter) Announce(ctx context.Context, org id.Org, epoch int64) error {
	l.Forget(org)
	_, err := l.runOrgScript(ctx, l.scripts.bump, org, epoch)
	if err != nil {
		l.recordFailure(err, nil)
	}
	l.publish(subjectOrg, string(org), itoa(int(epoch)))
	return err
}

// Forget drops the denial that this node holds for an org, because its limits may have changed. Denials held for single
// accounts of the org expire within five seconds.
func (l *Limiter) Forget(org id.Org) { l.state(org).dropHeldDenial() }

// ForgetAccount drops the denials that this node holds for an account.
func (l *Limiter) ForgetAccount(account id.Account) {
	l.denials.Drop(accountQuota{account, Read})
	l.denials.Drop(accountQuota{account, Write})
}
