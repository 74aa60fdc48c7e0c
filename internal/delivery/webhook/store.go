package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// record is a webhook's row.
type record struct {
	Org     id.Org
	Account string
	URL     string
	// Events is nil for all.
	Events      []string
	Ordering    Ordering
	MaxInFlight int

	SecretVersion, PreviousVersion int64
	Secret, Previous               []byte
	Last4                          string
	PreviousUntil                  time.Time

	StartSeq, Gen        int64
	CreatedAt, UpdatedAt time.Time
	TestLevel            float64
	TestAt               time.Time
	deleted              bool
	// lane is nil for one that is live, or was not read.
	lane *lane.Row
}

func recordOf(r *db.Webhook) record {
	return record{
		Org: r.OrgID, Account: r.AccountID, URL: r.Url, Events: r.Events, Ordering: Ordering(r.Ordering), MaxInFlight: int(r.MaxInFlight),
		SecretVersion: r.SecretVersion, PreviousVersion: r.PreviousVersion, Secret: r.Secret, Previous: r.Previous, Last4: r.SecretLast4,
		PreviousUntil: timeOf(r.PreviousUntil), StartSeq: r.StartSeq, Gen: r.Gen, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		TestLevel: r.TestLevel, TestAt: r.TestAt, deleted: r.DeletedAt != nil,
	}
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func errNoWebhook() error { return problem.WebhookNotFound.New("The account has no webhook.") }

func get(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (record, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{OrgID: org, AccountID: string(account)})
	return found(row, err, account)
}

func found(row db.Webhook, err error, account id.Account) (record, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return record{}, errNoWebhook()
	}
	if err != nil {
		return record{}, fmt.Errorf("webhook of %s: %w", account, err)
	}
	return recordOf(&row), nil
}

// lock reads a webhook for a change. Of one that does not exist only the name is locked.
func lock(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) (r record, exists bool, err error) {
	q := db.New(tx)
	if err := q.Serialize(ctx, string(account)); err != nil {
		return record{}, false, fmt.Errorf("lock the webhook of %s: %w", account, err)
	}
	row, err := q.Lock(ctx, db.LockParams{OrgID: org, AccountID: string(account)})
	if errors.Is(err, postgres.ErrNoRows) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("lock the webhook of %s: %w", account, err)
	}
	r = recordOf(&row)
	return r, !r.deleted, nil
}

func put(ctx context.Context, tx postgres.Tx, r *record, keepPrevious bool, now time.Time) (record, error) {
	row, err := db.New(tx).Put(ctx, db.PutParams{
		OrgID: r.Org, AccountID: r.Account, Bucket: int16(event.Bucket(r.Account)), Url: r.URL, Events: r.Events, Ordering: string(r.Ordering),
		MaxInFlight: int16(r.MaxInFlight), SecretVersion: r.SecretVersion, Secret: r.Secret, SecretLast4: r.Last4, StartSeq: r.StartSeq,
		KeepPrevious: keepPrevious, Now: now,
	})
	if err != nil {
		return record{}, fmt.Errorf("write the webhook of %s: %w", r.Account, err)
	}
	return recordOf(&row), nil
}

func rotate(ctx context.Context, tx postgres.Tx, r *record, until, now time.Time) (record, error) {
	row, err := db.New(tx).Rotate(ctx, db.RotateParams{
		OrgID: r.Org, AccountID: r.Account, PreviousUntil: &until, Secret: r.Secret, SecretVersion: r.SecretVersion, SecretLast4: r.Last4, Now: now,
	})
	return found(row, err, id.Account(r.Account))
}

func renew(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account, now time.Time) (record, error) {
	row, err := db.New(tx).Renew(ctx, db.RenewParams{OrgID: org, AccountID: string(account), Now: now})
	return found(row, err, account)
}

// laneChange is what an owner or an operator wants of a lane. A cursor below 0 leaves it where it is.
type laneChange struct {
	state  lane.State
	cursor int64
	reason string
}

// order writes a change of a lane. The new generation of the webhook makes the node that delivers it follow.
func order(ctx context.Context, tx postgres.Tx, r *record, c laneChange, now time.Time) error {
	moved := int64(0)
	if c.cursor >= 0 {
		moved = r.Gen
	}
	err := db.New(tx).SetLane(ctx, db.SetLaneParams{
		OrgID: r.Org, AccountID: r.Account, Bucket: int16(event.Bucket(r.Account)), Gen: r.Gen, State: string(c.state), Cursor: c.cursor,
		Moved: moved, Reason: c.reason, Now: now,
	})
	if err != nil {
		return fmt.Errorf("write the lane of %s: %w", r.Account, err)
	}
	return nil
}

func renewLane(ctx context.Context, tx postgres.Tx, r *record, now time.Time) error {
	err := db.New(tx).RenewLane(ctx, db.RenewLaneParams{OrgID: r.Org, AccountID: r.Account, Gen: r.Gen, Now: now})
	if err != nil {
		return fmt.Errorf("write the lane of %s: %w", r.Account, err)
	}
	return nil
}

// remove takes a webhook out with all that waits for it, and says whether there was one.
func remove(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account, now time.Time) (bool, error) {
	q := db.New(tx)
	n, err := q.Delete(ctx, db.DeleteParams{OrgID: org, AccountID: string(account), Now: now})
	if err == nil {
		err = q.DeleteLane(ctx, db.DeleteLaneParams{OrgID: org, AccountID: string(account)})
	}
	if err == nil {
		err = q.DeleteErrands(ctx, db.DeleteErrandsParams{OrgID: org, AccountID: string(account)})
	}
	if err != nil {
		return false, fmt.Errorf("delete the webhook of %s: %w", account, err)
	}
	return n > 0, nil
}

// erase deletes a webhook without a trace, with all that waits for it.
func erase(ctx context.Context, q db.DBTX, org id.Org, account id.Account) error {
	if err := db.New(q).Erase(ctx, db.EraseParams{OrgID: org, AccountID: string(account)}); err != nil {
		return fmt.Errorf("erase the webhook of %s: %w", account, err)
	}
	return nil
}

func forgetDeleted(ctx context.Context, q db.DBTX, before time.Time) error {
	if err := db.New(q).ForgetDeleted(ctx, &before); err != nil {
		return fmt.Errorf("forget deleted webhooks: %w", err)
	}
	return nil
}

func setTest(ctx context.Context, tx postgres.Tx, r *record, level float64, now time.Time) error {
	err := db.New(tx).SetTest(ctx, db.SetTestParams{OrgID: r.Org, AccountID: r.Account, TestAt: now, TestLevel: level})
	if err != nil {
		return fmt.Errorf("count a test of %s: %w", r.Account, err)
	}
	return nil
}

// laneOf reads the row of a lane; nil if it is live.
func laneOf(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (*lane.Row, error) {
	row, err := db.New(q).Lane(ctx, db.LaneParams{OrgID: org, AccountID: string(account)})
	if errors.Is(err, postgres.ErrNoRows) {
		return nil, nil //nolint:nilnil // no row is what most lanes have
	}
	if err != nil {
		return nil, fmt.Errorf("lane of %s: %w", account, err)
	}
	r := rowOf(&row)
	return &r, nil
}

func rowOf(r *db.WebhookLane) lane.Row {
	return lane.Row{
		Org: r.OrgID, Source: r.AccountID, Bucket: int(r.Bucket), Gen: r.Gen, State: lane.State(r.State), Cursor: r.Cursor, Moved: r.Moved,
		FailSince: timeOf(r.FailSince), FailCount: int(r.FailCount), NextAt: timeOf(r.NextAt), LastStatus: int(r.LastStatus), LastError: r.LastError,
		Reason: r.Reason, HeadTries: int(r.HeadTries), HeadSince: timeOf(r.HeadSince),
	}
}

// loadHooks reads webhooks by their accounts, with their lanes.
func loadHooks(ctx context.Context, q db.DBTX, accounts []string) ([]record, error) {
	rows, err := db.New(q).Load(ctx, accounts)
	if err != nil {
		return nil, fmt.Errorf("read %d webhooks: %w", len(accounts), err)
	}
	list := make([]record, len(rows))
	for i := range rows {
		list[i] = withLane(&rows[i])
	}
	return list, nil
}

// some reads webhooks of an org by their accounts, with their lanes.
func some(ctx context.Context, q db.DBTX, org id.Org, accounts []id.Account) ([]record, error) {
	rows, err := db.New(q).Some(ctx, db.SomeParams{OrgID: org, Accounts: id.Texts(accounts)})
	if err != nil {
		return nil, fmt.Errorf("read %d webhooks of %s: %w", len(accounts), org, err)
	}
	list := make([]record, len(rows))
	for i := range rows {
		row := db.LoadRow(rows[i])
		list[i] = withLane(&row)
	}
	return list, nil
}

func withLane(r *db.LoadRow) record {
	one := recordOf(&r.Webhook)
	if r.State.Valid {
		one.lane = &lane.Row{
			Org: one.Org, Source: one.Account, Bucket: int(r.Webhook.Bucket), Gen: r.LaneGen.Int64, State: lane.State(r.State.String),
			Cursor: r.Cursor.Int64, Moved: r.Moved.Int64, FailSince: timeOf(r.FailSince), FailCount: int(r.FailCount.Int32), NextAt: timeOf(r.NextAt),
			LastStatus: int(r.LastStatus.Int16), LastError: r.LastError.String, Reason: r.Reason.String, HeadTries: int(r.HeadTries.Int32),
			HeadSince: timeOf(r.HeadSince),
		}
	}
	return one
}

// existing are those of the accounts that have a webhook.
func existing(ctx context.Context, q db.DBTX, accounts []string) ([]string, error) {
	list, err := db.New(q).Existing(ctx, accounts)
	if err != nil {
		return nil, fmt.Errorf("find webhooks among %d accounts: %w", len(accounts), err)
	}
	return list, nil
}

// ref names an account's webhook.
type ref struct {
	Org     id.Org
	Account id.Account
}

// maxChanged bounds one look for changes.
const maxChanged = 5000

// changedRef is a webhook that changed, and when.
type changedRef struct {
	ref
	at time.Time
}

func changedSince(ctx context.Context, q db.DBTX, since time.Time) (list []changedRef, newest time.Time, err error) {
	rows, err := db.New(q).Changed(ctx, db.ChangedParams{Since: since, MaxRows: maxChanged})
	if err != nil {
		return nil, since, fmt.Errorf("find changed webhooks: %w", err)
	}
	for _, r := range rows {
		list = append(list, changedRef{ref{r.OrgID, id.Account(r.AccountID)}, r.ChangedAt})
		newest = r.ChangedAt
	}
	return list, newest, nil
}
