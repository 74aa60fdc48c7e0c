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

// record is the row of a webhook.
type record struct {
	Org     id.Org
	Account string
	URL     string
	// Events are the kinds that the webhook wants; nil means all.
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
	// lane is nil if the lane is live or was not read.
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

func getRecord(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (record, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{OrgID: org, AccountID: string(account)})
	return recordOrNotFound(row, err, account)
}

func recordOrNotFound(row db.Webhook, err error, account id.Account) (record, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return record{}, errNoWebhook()
	}
	if err != nil {
		return record{}, fmt.Errorf("webhook of %s: %w", account, err)
	}
	return recordOf(&row), nil
}

// lockRecord locks a webhook for a change and reads it. The name is locked even if the webhook does not exist.
func lockRecord(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) (r record, exists bool, err error) {
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

// putRecord creates or replaces a webhook under a new generation. keepPrevious keeps the previous secret of a rotation.
func putRecord(ctx context.Context, tx postgres.Tx, r *record, keepPrevious bool, now time.Time) (record, error) {
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

// rotateSecret replaces the secret. The old one becomes the previous secret until a time.
func rotateSecret(ctx context.Context, tx postgres.Tx, r *record, until, now time.Time) (record, error) {
	row, err := db.New(tx).Rotate(ctx, db.RotateParams{
		OrgID: r.Org, AccountID: r.Account, PreviousUntil: &until, Secret: r.Secret, SecretVersion: r.SecretVersion, SecretLast4: r.Last4, Now: now,
	})
	return recordOrNotFound(row, err, id.Account(r.Account))
}

// bumpGen gives a webhook a new generation, so that the node that delivers it applies a change of its lane.
func bumpGen(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account, now time.Time) (record, error) {
	row, err := db.New(tx).Renew(ctx, db.RenewParams{OrgID: org, AccountID: string(account), Now: now})
	return recordOrNotFound(row, err, account)
}

// laneChange is a change of a lane by its owner or an operator. A negative cursor stays where it is.
type laneChange struct {
	state  lane.State
	cursor int64
	reason string
}

// setLane writes a change of a lane. The caller has called bumpGen or putRecord before.
func setLane(ctx context.Context, tx postgres.Tx, r *record, c laneChange, now time.Time) error {
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

// renewLane writes the generation of a webhook that was replaced. A failing lane retries immediately; a paused one
// stays paused.
func renewLane(ctx context.Context, tx postgres.Tx, r *record, now time.Time) error {
	err := db.New(tx).RenewLane(ctx, db.RenewLaneParams{OrgID: r.Org, AccountID: r.Account, Gen: r.Gen, Now: now})
	if err != nil {
		return fmt.Errorf("write the lane of %s: %w", r.Account, err)
	}
	return nil
}

// deleteRecord marks a webhook deleted, with its lane and its side deliveries, and reports whether there was one.
func deleteRecord(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account, now time.Time) (bool, error) {
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

// eraseRecord deletes the row of a webhook, with its lane and its side deliveries.
func eraseRecord(ctx context.Context, q db.DBTX, org id.Org, account id.Account) error {
	if err := db.New(q).Erase(ctx, db.EraseParams{OrgID: org, AccountID: string(account)}); err != nil {
		return fmt.Errorf("erase the webhook of %s: %w", account, err)
	}
	return nil
}

// forgetDeleted deletes the rows of webhooks that were deleted before a time.
func forgetDeleted(ctx context.Context, q db.DBTX, before time.Time) error {
	err := db.New(q).ForgetDeleted(ctx, &before)
	if err == nil {
		err = db.New(q).ForgetDeletedEndpoints(ctx, &before)
	}
	if err != nil {
		return fmt.Errorf("forget deleted webhooks: %w", err)
	}
	return nil
}

// setTest writes the level of the leaky bucket that limits tests.
func setTest(ctx context.Context, tx postgres.Tx, r *record, level float64, now time.Time) error {
	err := db.New(tx).SetTest(ctx, db.SetTestParams{OrgID: r.Org, AccountID: r.Account, TestAt: now, TestLevel: level})
	if err != nil {
		return fmt.Errorf("count a test of %s: %w", r.Account, err)
	}
	return nil
}

// getLane returns the row of a lane; nil if the lane is live.
func getLane(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (*lane.Row, error) {
	row, err := db.New(q).Lane(ctx, db.LaneParams{OrgID: org, AccountID: string(account)})
	if errors.Is(err, postgres.ErrNoRows) {
		return nil, nil //nolint:nilnil // most lanes have no row
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

// readHookRecords reads webhooks of any organisation by account, with their lanes.
func readHookRecords(ctx context.Context, q db.DBTX, accounts []string) ([]record, error) {
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

// readRecords reads webhooks of an organisation by account, with their lanes.
func readRecords(ctx context.Context, q db.DBTX, org id.Org, accounts []id.Account) ([]record, error) {
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

func withWebhook(ctx context.Context, q db.DBTX, accounts []string) ([]string, error) {
	list, err := db.New(q).Existing(ctx, accounts)
	if err != nil {
		return nil, fmt.Errorf("find webhooks among %d accounts: %w", len(accounts), err)
	}
	return list, nil
}

// ref identifies the webhook of an account.
type ref struct {
	Org     id.Org
	Account id.Account
}

// maxChanged limits the changes that one poll reads.
const maxChanged = 5000

// changedRef is a webhook and when it last changed.
type changedRef struct {
	ref
	at time.Time
}

// changedSince lists webhooks that changed after a time, oldest first. newest is the time of the last one.
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
