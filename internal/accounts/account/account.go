// Package account owns connected accounts: their states, their sealed sessions and credentials, and how they end.
//
// The states are a table (machine.go); whatever changes one goes through it. A finished sign-in becomes an account in connect.go, a call
// gets its session from session.go, and disconnect.go destroys it all. What is due when is arithmetic without a clock (schedule.go).
// It does not sign in (package connect) and does not probe (package health).
package account

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Account is a connected account as it was when it was read. It is never changed in place.
type Account struct {
	Org         id.Org
	ID          id.Account
	Environment org.Environment
	// UpstreamID is the platform's id of the creator.
	UpstreamID     string
	Label          string
	State          State
	Reason         string
	StateChangedAt time.Time

	Username, DisplayName, AvatarURL string

	// Region is where the account's traffic leaves.
	Region              string
	ReferenceID         string
	Metadata            map[string]string
	RememberCredentials bool
	CreatedAt           time.Time
	// LastSeenAt is when the platform last accepted the session, LastCheckedAt when it was last probed.
	LastSeenAt, LastCheckedAt, SessionExpiresAt *time.Time
	// SessionVersion grows with everything that a node which remembers the account must notice.
	SessionVersion int64
	// PendingAttempt is the attempt under way; empty if there is none.
	PendingAttempt id.Attempt
	// Attempt connected the account last, in the way of AttemptKind.
	Attempt     id.Attempt
	AttemptKind string
	// Health is what the prober goes by.
	Health Health
	// Listener is how the live connection stands.
	Listener Listener

	inner
}

// inner is what nobody outside needs.
type inner struct {
	firstActiveAt, downSince *time.Time
	sealedVersion, signIn    int64
	sessionDead              bool
	warnAt                   *time.Time
	reauth                   lease
	// hungUp means that the listener is to be off when the account is saved.
	hungUp bool
}

// Health is how an account fared lately.
type Health struct {
	// ProbeAt is when the next probe is due; nil for none.
	ProbeAt *time.Time
	// Troubles counts failures in a row since TroubledAt, Goods successes in a row.
	Troubles   int
	TroubledAt *time.Time
	Goods      int
}

// Via is how the account's traffic leaves.
func (a Account) Via() driver.Via { return driver.Via{Region: a.Region, Account: string(a.ID)} }

// UserAction is what a person must do.
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

// Why an account is in its state. The set is open for callers.
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
	ReasonOperator            = "operator"
)

// sealer keeps secrets; *seal.Sealer does.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
	Shred(ctx context.Context, org id.Org, holder string) (seal.Shredded, error)
	SignReceipt(ctx context.Context, r seal.Receipt) ([]byte, error)
}

// limiter tells every node of a new version of a session; *admission.Limiter does.
type limiter interface {
	SessionChanged(ctx context.Context, org id.Org, account id.Account, version uint32) error
}

// Config are the settings.
type Config struct {
	// Regions are those that traffic can leave by.
	Regions []string
	// Listens means that nodes listen to accounts, so that one without a listener is not in order.
	Listens bool
	// SignOutTimeout is how long a platform may take to end a session when an account is disconnected.
	SignOutTimeout time.Duration
}

// Deps is what the service needs.
type Deps struct {
	Config Config
	DB     *postgres.DB
	Orgs   *org.Orgs
	Audit  *audit.Log
	Outbox *outbox.Outbox
	Seal   sealer
	Limits limiter
	Bus    *pubsub.Bus
	// Catalogs and Drivers are the platform of an environment; an org is of one environment.
	Catalogs map[org.Environment]*catalog.Catalog
	Drivers  func(org.Environment) (driver.Driver, bool)
	// ReconnectURL is where a key makes a link by which a person connects an account again.
	ReconnectURL func(id.Org, id.Account) string
	Log          *slog.Logger
	Now          func() time.Time
}

// Accounts is the service.
type Accounts struct {
	Deps
	// environments of orgs, which never change.
	environments cache.Cache[id.Org, org.Environment]
	// seen are the accounts whose last success was written down within the minute.
	seen cache.Cache[id.Account, time.Time]
	// kept are the accounts that were called lately.
	kept    cache.Cache[id.Account, *kept]
	reading singleflight.Group
	left    func(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error
	// purge destroys what others have of an account, covers is what a receipt calls that.
	purge  func(ctx context.Context, a Account, most int) (done bool, err error)
	covers []string
}

// remembered bounds what a node remembers of orgs and of accounts.
const remembered = 100_000

// New makes the service.
func New(d Deps) *Accounts {
	return &Accounts{
		Deps:         d,
		environments: cache.New[id.Org, org.Environment](remembered),
		seen:         cache.New[id.Account, time.Time](remembered),
		kept:         newKept(),
		left:         func(context.Context, postgres.Tx, id.Org, id.Account) error { return nil },
		purge:        func(context.Context, Account, int) (bool, error) { return true, nil },
	}
}

// OnDisconnect sets what else is done in the transaction that takes an account out of use, such as cancelling its attempts. It is
// called while the process is wired, before anything else.
func (s *Accounts) OnDisconnect(do func(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error) {
	s.left = do
}

// OnPurge sets what else is destroyed with an account, and what its receipt calls that. do destroys about as many rows as most says, and
// reports whether all are gone; it is called again until they are. It is set while the process is wired, before anything else.
func (s *Accounts) OnPurge(covers []string, do func(ctx context.Context, a Account, most int) (done bool, err error)) {
	s.covers, s.purge = covers, do
}

// Get reads an account.
func (s *Accounts) Get(ctx context.Context, owner id.Org, account id.Account) (Account, error) {
	a, err := get(ctx, s.DB.Pool(), owner, account)
	if err != nil {
		return Account{}, err
	}
	return s.placed(ctx, a)
}

// Filter chooses accounts. Empty fields choose all.
type Filter struct {
	// States are those that an account may be in; empty for all.
	States      []State
	ReferenceID string
	Label       string
	// Query is looked for in labels, names and ids, whatever its case.
	Query string
	// Among are the accounts to choose from; nil for all.
	Among []id.Account
	Order Order
	// After is the last account of the page before.
	After Mark
	// Limit is how many at most; 0 for all.
	Limit int
}

// Order is how accounts are listed. The zero value is that of their ids, which is the order in which they were connected first.
type Order int

// The other orders: by label whatever its case, and the last seen first.
const (
	ByLabel Order = iota + 1
	ByLastSeen
)

// Mark is a place in a list: behind an account as it was listed.
type Mark struct {
	ID    id.Account
	Label string
	Seen  time.Time
}

// Mark is the place behind the account.
func (a Account) Mark() Mark {
	m := Mark{ID: a.ID, Label: a.Label}
	if a.LastSeenAt != nil {
		m.Seen = *a.LastSeenAt
	}
	return m
}

// pageRows is how many accounts are read at a time: a slow reader holds no snapshot and no connection.
const pageRows = 500

// List gives accounts one by one. It ends when each fails.
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
		list, err := page(ctx, s.DB.Pool(), owner, f, rows)
		if err != nil {
			return err
		}
		for _, a := range list {
			a.Environment = env
			if err := each(a); err != nil {
				return err
			}
			f.After = a.Mark()
		}
		if len(list) < rows {
			break
		}
		left -= len(list)
	}
	return nil
}

// placed adds the environment of the account's org.
func (s *Accounts) placed(ctx context.Context, a Account) (Account, error) {
	env, err := s.environment(ctx, a.Org)
	a.Environment = env
	return a, err
}

func (s *Accounts) environment(ctx context.Context, owner id.Org) (org.Environment, error) {
	if env, ok := s.environments.Get(owner); ok {
		return env, nil
	}
	o, err := s.Orgs.Get(ctx, owner)
	if err != nil {
		return "", fmt.Errorf("read the environment of %s: %w", owner, err)
	}
	s.environments.Put(owner, o.Environment)
	return o.Environment, nil
}

// Time is what the database's clock says. When accounts are due, and how long leases on them hold, goes by it on all nodes.
func (s *Accounts) Time(ctx context.Context) (time.Time, error) { return s.DB.Now(ctx, s.DB.Pool()) }

// tell makes every node notice that an account is another than it remembers. The change is committed: that its caller has gone must
// not keep it from the others. A node that is not reached reads the row before it calls.
func (s *Accounts) tell(ctx context.Context, a Account) {
	ctx = context.WithoutCancel(ctx)
	if err := s.Limits.SessionChanged(ctx, a.Org, a.ID, uint32(a.SessionVersion)); err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "session version not told", slog.String("account", string(a.ID)), slog.Any("error", err))
	}
	if subject, err := pubsub.Subject("inv", pokeSession, string(a.ID)); err == nil {
		_ = s.Bus.Poke(subject, fmt.Append(nil, a.SessionVersion)) // it only makes them notice sooner
	}
}

const pokeSession = "session"

// SessionPattern is what a node listens on that remembers accounts: the account's id, and its newest session version as text.
const SessionPattern = "inv." + pokeSession + ".*"

func notFound() error {
	return problem.AccountNotFound.New("The organisation has no account with this id.")
}
