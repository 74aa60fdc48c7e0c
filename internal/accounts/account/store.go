package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// getAccount reads an account without its environment.
func getAccount(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (Account, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{OrgID: org, ID: account})
	if err != nil {
		return Account{}, fmt.Errorf("read account %s: %w", account, orNotFound(err))
	}
	return fromRow(row.Account, row.AccountHealth), nil
}

// lockRow reads an account and locks its row until the transaction ends.
func lockRow(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) (Account, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: account})
	if err != nil {
		return Account{}, fmt.Errorf("lock account %s: %w", account, orNotFound(err))
	}
	return fromRow(row.Account, row.AccountHealth), nil
}

// getWithSession reads an account with its sealed session; sealed is nil if there is none.
func getWithSession(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (Account, []byte, error) {
	row, err := db.New(q).WithSession(ctx, db.WithSessionParams{OrgID: org, ID: account})
	if err != nil {
		return Account{}, nil, fmt.Errorf("read session of %s: %w", account, orNotFound(err))
	}
	return fromRow(row.Account, row.AccountHealth), row.Sealed, nil
}

// orNotFound makes an id of another org, an unknown id and a disconnected account indistinguishable.
func orNotFound(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return notFound()
	}
	return err
}

// findByUpstream returns the account of the creator who signed in; empty if the org has none.
func findByUpstream(ctx context.Context, q db.DBTX, c Connected) (id.Account, error) {
	account, err := db.New(q).ByUpstream(ctx, db.ByUpstreamParams{
		OrgID: c.Org, Platform: c.Place.Platform, SiteID: c.Place.SiteID, UpstreamID: c.Identity.ID,
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", nil
	}
	return account, err
}

func listPage(ctx context.Context, q db.DBTX, org id.Org, f Filter, rows int) ([]Account, error) {
	if f.Order != 0 {
		return listSorted(ctx, q, org, f, rows)
	}
	found, err := db.New(q).Page(ctx, db.PageParams{
		OrgID: org, After: f.After.ID, States: id.Texts(f.States), ReferenceID: f.ReferenceID, Label: f.Label, Platform: f.Platform, Query: f.Query, Among: id.Texts(f.Among),
		MaxRows: int32(rows),
	})
	return postgres.Convert(found, func(r db.PageRow) Account { return fromRow(r.Account, r.AccountHealth) }), err
}

// afterAllTimes sorts after every LastSeenAt; lists by last success start there.
var afterAllTimes = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func listSorted(ctx context.Context, q db.DBTX, org id.Org, f Filter, rows int) ([]Account, error) {
	p := db.SortedParams{
		OrgID: org, States: id.Texts(f.States), ReferenceID: f.ReferenceID, Label: f.Label, Platform: f.Platform, Query: f.Query, Among: id.Texts(f.Among),
		ByLabel: f.Order == ByLabel, AfterLabel: f.After.Label, AfterSeen: f.After.Seen, After: string(f.After.ID), MaxRows: int32(rows),
	}
	if f.After.ID == "" {
		p.AfterSeen = afterAllTimes
	}
	found, err := db.New(q).Sorted(ctx, p)
	return postgres.Convert(found, func(r db.SortedRow) Account { return fromRow(r.Account, r.AccountHealth) }), err
}

// checkAccountLimit fails with ErrLimit if the org cannot have another account.
func checkAccountLimit(ctx context.Context, q db.DBTX, c Connected) error {
	if c.MaxAccounts < 0 {
		return nil
	}
	n, err := db.New(q).Count(ctx, c.Org)
	if err != nil {
		return err
	}
	if int(n) >= c.MaxAccounts {
		return ErrLimit
	}
	return nil
}

// insertAccount fails with ErrRaced if another transaction has inserted an account of the same creator.
func insertAccount(ctx context.Context, tx postgres.Tx, a Account) error {
	q := db.New(tx)
	err := q.Insert(ctx, db.InsertParams{
		OrgID: a.Org, ID: a.ID, Platform: a.Place.Platform, Site: a.Place.Site, SiteRoot: a.Place.Root, SiteID: a.Place.SiteID,
		Credentials: string(a.Credentials), UpstreamID: a.UpstreamID, Label: a.Label, State: string(a.State), Now: a.CreatedAt, Username: a.Username,
		DisplayName: a.DisplayName, AvatarUrl: a.AvatarURL, Region: a.Region, ReferenceID: a.ReferenceID, Metadata: postgres.OrEmpty(a.Metadata),
		RememberCredentials: a.RememberCredentials, SessionExpiresAt: a.SessionExpiresAt, WarnAt: a.warnAt, AttemptID: a.Attempt,
		AttemptKind: a.AttemptKind,
	})
	if postgres.IsUnique(err, "account_upstream") {
		return ErrRaced
	}
	if err != nil {
		return fmt.Errorf("insert account of %s: %w", a.Org, err)
	}
	return q.InsertHealth(ctx, db.InsertHealthParams{
		OrgID: a.Org, AccountID: a.ID, Shard: shardOf(a.ID), ProbeAt: a.Health.ProbeAt, LastSeenAt: a.LastSeenAt,
		LastCheckedAt: a.LastCheckedAt, Goods: a.Health.Successes,
	})
}

// saveAccount writes all fields of an account and its health. The transaction must have locked the row, or it would
// overwrite other changes.
func saveAccount(ctx context.Context, tx postgres.Tx, a Account) error {
	tries := a.reauth.tries
	if tries == nil {
		tries = []time.Time{}
	}
	q := db.New(tx)
	err := q.Save(ctx, db.SaveParams{
		OrgID: a.Org, ID: a.ID, Label: a.Label, State: string(a.State), StateReason: a.Reason, StateChangedAt: a.StateChangedAt,
		Username: a.Username, DisplayName: a.DisplayName, AvatarUrl: a.AvatarURL, Region: a.Region, ReferenceID: a.ReferenceID,
		Metadata: postgres.OrEmpty(a.Metadata), RememberCredentials: a.RememberCredentials, FirstActiveAt: a.firstActiveAt, DownSince: a.downSince,
		SessionVersion: a.SessionVersion, SealedVersion: a.sealedVersion, SignIn: a.signIn, SessionDead: a.sessionDead,
		SessionExpiresAt: a.SessionExpiresAt, WarnAt: a.warnAt, AttemptID: a.Attempt, AttemptKind: a.AttemptKind,
		Site: a.Place.Site, SiteRoot: a.Place.Root, Credentials: string(a.Credentials), PendingAttemptID: a.PendingAttempt, ReauthOwner: a.reauth.owner, ReauthUntil: a.reauth.until, ReauthTries: tries,
	})
	if err != nil {
		return fmt.Errorf("save account %s: %w", a.ID, err)
	}
	return q.SaveHealth(ctx, db.SaveHealthParams{
		OrgID: a.Org, AccountID: a.ID, ProbeAt: a.Health.ProbeAt, SeenAt: a.LastSeenAt, CheckedAt: a.LastCheckedAt,
		Troubles: a.Health.Failures, TroubledAt: a.Health.FailingSince, Goods: a.Health.Successes,
		HungUp: a.resetListener, ChangedAt: &a.StateChangedAt,
	})
}

// setPendingAttempt sets the pending attempt if the stored one is seen; an empty seen matches any.
func setPendingAttempt(ctx context.Context, tx postgres.Tx, ref Ref, seen, attempt id.Attempt) error {
	return db.New(tx).Pending(ctx, db.PendingParams{OrgID: ref.Org, ID: ref.Account, Pending: attempt, Seen: string(seen)})
}

func putSecret(ctx context.Context, tx postgres.Tx, at seal.Address, sealed []byte) error {
	return db.New(tx).PutSecret(ctx, db.PutSecretParams{
		OrgID: at.Org, AccountID: id.Account(at.Holder), Purpose: string(at.Purpose), Version: at.Version, Sealed: sealed,
	})
}

// getSecret reads a sealed secret and the address that it was sealed for; sealed is nil if there is none.
func getSecret(ctx context.Context, q db.DBTX, a Account, purpose seal.Purpose) (at seal.Address, sealed []byte, err error) {
	row, err := db.New(q).Secret(ctx, db.SecretParams{OrgID: a.Org, AccountID: a.ID, Purpose: string(purpose)})
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return seal.Address{}, nil, fmt.Errorf("read %s of %s: %w", purpose, a.ID, err)
	}
	return seal.Address{Org: a.Org, Holder: string(a.ID), Purpose: purpose, Version: row.Version}, row.Sealed, nil
}

func dropSecret(ctx context.Context, tx postgres.Tx, a Account, purpose seal.Purpose) error {
	return db.New(tx).DropSecret(ctx, db.DropSecretParams{OrgID: a.Org, AccountID: a.ID, Purpose: string(purpose)})
}

// storeRotation is a compare-and-set: it stores a.sealedVersion if the account still has the version before it, and
// sets a.SessionVersion. changed is false if the account has another version or sign-in.
func storeRotation(ctx context.Context, tx postgres.Tx, a *Account, sealed []byte) (changed bool, err error) {
	version, err := db.New(tx).Rotate(ctx, db.RotateParams{
		OrgID: a.Org, ID: a.ID, Seen: a.sealedVersion - 1, SignIn: a.signIn, SessionExpiresAt: a.SessionExpiresAt, WarnAt: a.warnAt,
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("rotate session of %s: %w", a.ID, err)
	}
	a.SessionVersion = version
	return true, putSecret(ctx, tx, sessionAddress(*a), sealed)
}

// recordSeen writes successes of accounts, except of those of which another node has written one within half of seenEvery.
// It also postpones the probes of active accounts.
func recordSeen(ctx context.Context, q db.DBTX, list []Account, now time.Time) error {
	before := now.Add(-seenEvery / 2)
	p := db.SeenParams{Now: &now, Before: &before}
	for i := range list {
		a := &list[i]
		next := now
		if at := probeAt(Active, now); a.State == Active && at != nil {
			next = *at
		}
		p.Orgs, p.Accounts = append(p.Orgs, string(a.Org)), append(p.Accounts, string(a.ID))
		p.Calm, p.ProbeAts = append(p.Calm, a.State == Active), append(p.ProbeAts, next)
	}
	return db.New(q).Seen(ctx, p)
}

func recordProbe(ctx context.Context, q db.DBTX, a Account, now time.Time, good bool) error {
	p := db.CheckedParams{
		OrgID: a.Org, AccountID: a.ID, ProbeAt: a.Health.ProbeAt, CheckedAt: &now, Troubles: a.Health.Failures,
		TroubledAt: a.Health.FailingSince, Goods: a.Health.Successes,
	}
	if good {
		p.SeenAt = &now
	}
	return db.New(q).Checked(ctx, p)
}

func scheduleProbe(ctx context.Context, q db.DBTX, ref Ref, at *time.Time) error {
	return db.New(q).ProbeAt(ctx, db.ProbeAtParams{OrgID: ref.Org, AccountID: ref.Account, ProbeAt: at})
}

func shards() []int32 {
	list := make([]int32, Shards)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// claimProbes leases due probes of a shard until until. InOrder forces an index scan in the order of the due time; the
// planner would otherwise sort all overdue rows for every claim.
func claimProbes(ctx context.Context, tx postgres.Tx, shard, rows int, now, until time.Time) ([]Ref, error) {
	q := db.New(tx)
	if err := q.InOrder(ctx); err != nil {
		return nil, err
	}
	found, err := q.Claim(ctx, db.ClaimParams{LeasedUntil: &until, Shard: int16(shard), Now: &now, MaxRows: int32(rows)})
	return postgres.Convert(found, func(r db.ClaimRow) Ref { return Ref(r) }), err
}

func fromRow(row db.Account, health db.AccountHealth) Account {
	return Account{
		Org: row.OrgID, ID: row.ID, Credentials: catalog.Credentials(row.Credentials),
		Place:      driver.Place{Platform: row.Platform, Site: row.Site, Root: row.SiteRoot, SiteID: row.SiteID},
		UpstreamID: row.UpstreamID, Label: row.Label, State: State(row.State), Reason: row.StateReason,
		StateChangedAt: row.StateChangedAt, Username: row.Username, DisplayName: row.DisplayName, AvatarURL: row.AvatarUrl,
		Region: row.Region, ReferenceID: row.ReferenceID, Metadata: row.Metadata, RememberCredentials: row.RememberCredentials,
		CreatedAt: row.CreatedAt, LastSeenAt: health.LastSeenAt, LastCheckedAt: health.LastCheckedAt,
		SessionExpiresAt: row.SessionExpiresAt, SessionVersion: row.SessionVersion, PendingAttempt: row.PendingAttemptID,
		Attempt: row.AttemptID, AttemptKind: row.AttemptKind,
		Health: Health{
			ProbeAt: health.ProbeAt, Failures: health.Troubles, FailingSince: health.TroubledAt, Successes: health.Goods,
		},
		Listener: Listener{ListenerState(health.ListenerState), health.ListenerSince, health.LastEventAt},
		inner: inner{
			firstActiveAt: row.FirstActiveAt, downSince: row.DownSince, sealedVersion: row.SealedVersion, signIn: row.SignIn,
			sessionDead: row.SessionDead, warnAt: row.WarnAt,
			reauth: lease{row.ReauthOwner, row.ReauthUntil, row.ReauthTries},
		},
	}
}
