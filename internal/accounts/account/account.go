// Package account owns connected accounts: their state, their sealed session and credentials, and their deletion. It
// does not sign in (package connect), does not probe (package health) and opens no sockets (package events/listen).
//
// Start with machine.go, the table of states and edges. Every change of state goes through Trigger or TriggerIn
// (trigger.go). connect.go turns a finished sign-in into an account. session.go and ready.go open its session for
// calls, and disconnect.go deletes it. schedule.go computes when probes, new sign-ins and warnings are due.
package account

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Account is a snapshot of a connected account. It does not change after it was read.
type Account struct {
	Org         id.Org
	ID          id.Account
	Environment environment.Environment
	// Place is the platform, and the creator's site on it.
	Place driver.Place
	// Credentials is what the account is signed in with.
	Credentials catalog.Credentials
	// UpstreamID is the platform's id of the creator.
	UpstreamID     string
	Label          string
	State          State
	Reason         string
	StateChangedAt time.Time

	Username, DisplayName, AvatarURL string

	// Region names the proxies that the account's traffic to the platform goes through.
	Region              string
	ReferenceID         string
	Metadata            map[string]string
	RememberCredentials bool
	CreatedAt           time.Time
	// LastSeenAt is when the platform last accepted the session, LastCheckedAt when it was last probed.
	LastSeenAt, LastCheckedAt, SessionExpiresAt *time.Time
	// SessionVersion increases with every change that a node with a cached copy of the account must notice.
	SessionVersion int64
	// PendingAttempt is the sign-in attempt in progress; empty if there is none.
	PendingAttempt id.Attempt
	// Attempt is the sign-in attempt that last connected the account, and AttemptKind its flow.
	Attempt     id.Attempt
	AttemptKind string
	// Health holds what the prober has recorded.
	Health Health
	// Listener is the state of the account's socket.
	Listener Listener

	inner
}

// inner holds the fields that only this package uses.
type inner struct {
	firstActiveAt, downSince *time.Time
	// sealedVersion is the version that the stored session is sealed for; every rotation and every sign-in increases it.
	// signIn counts sign-ins, so it stays the same when cookies rotate.
	sealedVersion, signIn int64
	// sessionDead means that the session is known to be dead. A paused account stays paused, so its state cannot tell.
	sessionDead bool
	// warnAt is when to warn next that the session ends; nil for no warning.
	warnAt *time.Time
	reauth lease
	// resetListener makes saveAccount write the listener as off.
	resetListener bool
}

// Health is the recent probe history of an account.
type Health struct {
	// ProbeAt is when the next probe is due; nil for none.
	ProbeAt *time.Time
	// Failures counts consecutive failures since FailingSince, Successes consecutive good probes.
	Failures     int
	FailingSince *time.Time
	Successes    int
}

// Via returns the route that requests for the account take to the platform.
func (a Account) Via() driver.Via {
	return driver.Via{Region: a.Region, Account: string(a.ID), Site: a.Place.Root, Public: a.Place.Site}
}

// UserAction returns what a person must do in this state, as the API reports it.
func (a Account) UserAction() string {
	switch a.State {
	case Degraded:
		return "wait"
	case Reauthenticating:
		if a.Reason == ReasonChallengePending {
			return "solve_challenge"
		}
	case ReconnectRequired:
		return "reconnect"
	case Restricted:
		return "open_native"
	case Paused:
		if a.Reason == ReasonPlanLimit {
			return "upgrade"
		}
		return "resume"
	case Connecting, Active, Disconnected, Unborn:
	}
	return "none"
}

// Reasons why an account is in its state. The API documents the set as open, so it may grow.
const (
	ReasonSessionExpired      = "session_expired"
	ReasonLoggedOut           = "logged_out"
	ReasonCredentialsChanged  = "credentials_changed"
	ReasonChallengePending    = "challenge_pending"
	ReasonUpstreamUnavailable = "upstream_unavailable"
	ReasonUpstreamRateLimited = "upstream_rate_limited"
	ReasonEgressDown          = "egress_down"
	ReasonListenerDown        = "listener_down"
	ReasonLocked              = "locked"
	ReasonBanned              = "banned"
	ReasonTermsRequired       = "terms_required"
	ReasonPausedByCaller      = "paused_by_caller"
	ReasonPlanLimit           = "plan_limit"
)

// sealer encrypts an account's secrets; implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
	Shred(ctx context.Context, org id.Org, holder string) (seal.Shredded, error)
	SignReceipt(ctx context.Context, r seal.Receipt) ([]byte, error)
	Warm(ctx context.Context, org id.Org, holders []string) error
}

// Config holds the settings.
type Config struct {
	// Regions lists the regions that an account can have.
	Regions func() []string
	// Listens means that nodes listen for events: an account whose platform has events is healthy only with a listener.
	Listens bool
	// SignOutTimeout bounds the request that ends the session on the platform when an account is disconnected.
	SignOutTimeout time.Duration
}

// Deps holds the dependencies of Accounts.
type Deps struct {
	Config Config
	DB     *postgres.DB
	Orgs   *org.Orgs
	Audit  *audit.Log
	Outbox *outbox.Outbox
	Seal   sealer
	Limits *admission.Limiter
	Bus    *pubsub.Bus
	// Platforms returns a platform by its id.
	Platforms func(id string) (registry.Platform, bool)
	// ReconnectURL returns the URL at which an API key creates a link to connect the account again.
	ReconnectURL func(id.Org, id.Account) string
	Log          *slog.Logger
	Now          func() time.Time
}

// Accounts stores accounts and applies their changes of state. It is safe for concurrent use.
type Accounts struct {
	deps Deps
	// environments caches the environment of orgs, which never changes.
	environments cache.Cache[id.Org, environment.Environment]
	// platforms caches the platform of accounts, which never changes.
	platforms cache.Cache[id.Account, placedAccount]
	// seenWritten holds when RecordSeen last took a success of an account, by this node's clock.
	seenWritten cache.Cache[id.Account, time.Time]
	seen        seenAccounts
	// cached holds accounts with their sealed sessions, for calls.
	cached cache.Cache[id.Account, *cachedAccount]
	// watchedAt is when WatchVersions last began to read all changes, by this node's clock in Unix nanoseconds.
	watchedAt atomic.Int64
	// reads merges concurrent reads of the same account.
	reads singleflight.Group
	// refreshes merges concurrent refreshes of the same account on this node.
	refreshes    singleflight.Group
	rotations    rotations
	onDisconnect func(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error
	// purge deletes an account's data in other packages.
	purge func(ctx context.Context, a Account, most int) (done bool, err error)
}

// maxCached bounds the caches of environments, platforms and written successes, in entries.
const maxCached = 100_000

// New returns the service. Hooks, if any, are set right afterwards with OnDisconnect and OnPurge.
func New(d Deps) *Accounts {
	return &Accounts{
		deps:         d,
		environments: cache.New[id.Org, environment.Environment](maxCached),
		platforms:    cache.New[id.Account, placedAccount](maxCached),
		seenWritten:  cache.New[id.Account, time.Time](maxCached),
		cached:       newAccountCache(),
		onDisconnect: func(context.Context, postgres.Tx, id.Org, id.Account) error { return nil },
		purge:        func(context.Context, Account, int) (bool, error) { return true, nil },
	}
}

// OnDisconnect sets a hook that runs in the transaction that takes an account out of use, such as cancelling its
// attempts. Call it before any other method; it is not safe for concurrent use.
func (s *Accounts) OnDisconnect(do func(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error) {
	s.onDisconnect = do
}

// OnPurge sets the hook that deletes an account's data in other packages. do deletes about most rows and reports whether
// none are left; it is called again until it does. Call OnPurge before any other method; it is not safe for concurrent
// use.
func (s *Accounts) OnPurge(do func(ctx context.Context, a Account, most int) (done bool, err error)) {
	s.purge = do
}

// Get reads an account. An account of another org, or one that is being disconnected, is not found.
func (s *Accounts) Get(ctx context.Context, owner id.Org, account id.Account) (Account, error) {
	a, err := getAccount(ctx, s.deps.DB, owner, account)
	if err != nil {
		return Account{}, err
	}
	return s.withEnvironment(ctx, a)
}

// Filter selects accounts. Empty fields do not filter.
type Filter struct {
	States      []State
	ReferenceID string
	Label       string
	Platform    string
	// Query is a substring of a label, name or id; case is ignored.
	Query string
	// Among restricts the result to these accounts; nil for all.
	Among []id.Account
	Order Order
	// After is the key of the last account of the previous page.
	After PageKey
	// Limit bounds the number of accounts; 0 for no limit.
	Limit int
}

// Order is the sort order of a list. The zero value sorts by id, which is the order of creation.
type Order int

// The other orders: by label, ignoring case, and by last success, newest first.
const (
	ByLabel Order = iota + 1
	ByLastSeen
)

// PageKey is a position in a list: after the account that had these values when it was listed.
type PageKey struct {
	ID    id.Account
	Label string
	Seen  time.Time
}

// PageKey returns the position after the account, in any order.
func (a Account) PageKey() PageKey {
	k := PageKey{ID: a.ID, Label: a.Label}
	if a.LastSeenAt != nil {
		k.Seen = *a.LastSeenAt
	}
	return k
}

// pageRows is how many accounts List reads per query, so that a slow reader holds neither a snapshot nor a connection.
const pageRows = 500

// List calls each for every account that matches. It stops at the first error and returns it. It reads in pages, so an
// account that changes during the call may appear with either value.
func (s *Accounts) List(ctx context.Context, owner id.Org, f Filter, each func(Account) error) error {
	env, err := s.environment(ctx, owner)
	if err != nil {
		return err
	}
	for left := f.Limit; f.Limit == 0 || left > 0; {
		rows := pageRows
		if f.Limit > 0 {
			rows = min(rows, left)
		}
		list, err := listPage(ctx, s.deps.DB, owner, f, rows)
		if err != nil {
			return err
		}
		for _, a := range list {
			a.Environment = env
			if err := each(a); err != nil {
				return err
			}
			f.After = a.PageKey()
		}
		if len(list) < rows {
			break
		}
		left -= len(list)
	}
	return nil
}

func (s *Accounts) withEnvironment(ctx context.Context, a Account) (Account, error) {
	env, err := s.environment(ctx, a.Org)
	a.Environment = env
	return a, err
}

func (s *Accounts) environment(ctx context.Context, owner id.Org) (environment.Environment, error) {
	if env, ok := s.environments.Get(owner); ok {
		return env, nil
	}
	o, err := s.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return "", fmt.Errorf("read the environment of %s: %w", owner, err)
	}
	s.environments.Put(owner, o.Environment)
	return o.Environment, nil
}

// placedAccount is the platform of an org's account.
type placedAccount struct {
	org      id.Org
	platform string
}

// PlatformOf returns the id of the platform that an account is on. It reads the database once per account and node.
func (s *Accounts) PlatformOf(ctx context.Context, owner id.Org, account id.Account) (string, error) {
	if known, ok := s.platforms.Get(account); ok && known.org == owner {
		return known.platform, nil
	}
	platform, err := db.New(s.deps.DB).Platform(ctx, db.PlatformParams{OrgID: owner, ID: account})
	if err != nil {
		return "", fmt.Errorf("read the platform of %s: %w", account, orNotFound(err))
	}
	s.platforms.Put(account, placedAccount{owner, platform})
	return platform, nil
}

// listens reports whether the account should have a listener, without which it is not healthy.
func (s *Accounts) listens(a Account) bool {
	if !s.deps.Config.Listens {
		return false
	}
	p, ok := s.deps.Platforms(a.Place.Platform)
	return ok && p.Listens()
}

// Time returns the time of the database's clock, which all nodes use for due times and leases of accounts.
func (s *Accounts) Time(ctx context.Context) (time.Time, error) { return s.deps.DB.Now(ctx, s.deps.DB) }

// publishVersion makes every node notice that its cached copy of an account is out of date. Call it after the commit.
// It ignores the cancellation of ctx, because the change is there whether or not its caller waits. Every admission
// reads the version from Redis; the NATS message only makes nodes drop their copy sooner. If both fail, WatchVersions
// finds the change.
func (s *Accounts) publishVersion(ctx context.Context, a Account) {
	ctx = context.WithoutCancel(ctx)
	if err := s.deps.Limits.SessionChanged(ctx, a.Org, a.ID, uint32(a.SessionVersion)); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot publish session version",
			slog.String(logkey.Account, string(a.ID)), slog.Any(logkey.Error, err))
	}
	if subject, err := pubsub.Subject("inv", sessionSubject, string(a.ID)); err == nil {
		_ = s.deps.Bus.Publish(subject, fmt.Append(nil, a.SessionVersion)) // best effort: nodes only notice sooner
	}
}

const sessionSubject = "session"

// SessionPattern is the subject pattern of the messages that publishVersion sends: the last token is the account's id,
// the payload its newest session version in decimal. Heard handles them.
const SessionPattern = "inv." + sessionSubject + ".*"

func notFound() error {
	return problem.AccountNotFound.New("The organisation has no account with this id.")
}
