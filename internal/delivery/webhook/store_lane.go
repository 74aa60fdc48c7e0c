package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

var errFenced = errors.New("a newer lease holds this bucket")

// firstCheckpoint is the checkpoint of a bucket that was never held.
func firstCheckpoint() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// claimBucket takes a bucket for a lease. It returns the bucket's checkpoint, and whether its last holder stopped
// cleanly. The error is errFenced if a newer lease holds the bucket.
func claimBucket(ctx context.Context, q db.DBTX, bucket int, epoch int64) (checkpoint time.Time, clean bool, err error) {
	row, err := db.New(q).Claim(ctx, db.ClaimParams{Bucket: int16(bucket), Epoch: epoch, FirstFloor: firstCheckpoint()})
	if errors.Is(err, postgres.ErrNoRows) {
		return time.Time{}, false, errFenced
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("claim webhooks of bucket %d: %w", bucket, err)
	}
	return row.FloorAt, row.WasClean, nil
}

func readLanes(ctx context.Context, q db.DBTX, bucket int) ([]lane.Row, error) {
	rows, err := db.New(q).Lanes(ctx, int16(bucket))
	if err != nil {
		return nil, fmt.Errorf("read lanes of bucket %d: %w", bucket, err)
	}
	list := make([]lane.Row, len(rows))
	for i := range rows {
		list[i] = rowOf(&rows[i])
	}
	return list, nil
}

// saveBatch writes a batch. It skips buckets that a newer lease holds and lanes whose webhook was changed in the
// meantime.
func saveBatch(ctx context.Context, tx postgres.Tx, b *lane.Batch, now time.Time) (written, error) {
	done := written{unsaved: map[string]bool{}}
	q := db.New(tx)
	ours, err := lockBuckets(ctx, q, b.Checkpoints, b.Feeds, &done)
	if err != nil {
		return done, err
	}
	holds, err := saveLanes(ctx, q, b.Save, ours, &done, now)
	if err != nil {
		return done, err
	}
	if err := removeLanes(ctx, q, b.Remove, ours); err != nil {
		return done, err
	}
	if err := saveFeeds(ctx, q, b.Feeds, ours, now); err != nil {
		return done, err
	}
	for i := range b.SideDeliveries {
		if b.SideDeliveries[i].Endpoint != "" {
			if err := addEndpointErrand(ctx, q, newEndpointRetry(&b.SideDeliveries[i])); err != nil {
				return done, err
			}
			continue
		}
		if err := insertSideDelivery(ctx, q, newRetry(&b.SideDeliveries[i])); err != nil {
			return done, err
		}
	}
	p := db.SetFloorsParams{}
	for _, c := range b.Checkpoints {
		if !ours[c.Bucket] {
			continue
		}
		if hold, ok := holds[c.Bucket]; ok && hold.Before(c.At) {
			c.At = hold
		}
		p.Buckets = append(p.Buckets, int16(c.Bucket))
		p.Floors = append(p.Floors, c.At)
		p.Cleans = append(p.Cleans, c.Clean)
	}
	if len(p.Buckets) > 0 {
		if err := q.SetFloors(ctx, p); err != nil {
			return done, fmt.Errorf("write checkpoints: %w", err)
		}
	}
	return done, nil
}

// lockBuckets locks the buckets that are still held under their epoch, until the end of the transaction, and adds the
// others to done.lost.
func lockBuckets(
	ctx context.Context, q *db.Queries, checkpoints []lane.Checkpoint, feeds []lane.FeedSave, done *written,
) (map[int]bool, error) {
	ours := map[int]bool{}
	checkpoints = slices.Clip(checkpoints)
	for i := range feeds {
		checkpoints = append(checkpoints, lane.Checkpoint{Bucket: feeds[i].Bucket, Epoch: feeds[i].Epoch})
	}
	if len(checkpoints) == 0 {
		return ours, nil
	}
	p := db.FenceParams{}
	for _, c := range checkpoints {
		p.Buckets = append(p.Buckets, int16(c.Bucket))
		p.Epochs = append(p.Epochs, c.Epoch)
	}
	held, err := q.Fence(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("lock buckets: %w", err)
	}
	for _, b := range held {
		ours[int(b)] = true
	}
	for _, c := range checkpoints {
		if !ours[c.Bucket] {
			done.lost = append(done.lost, c)
		}
	}
	return ours, nil
}

// saveLanes writes rows. For those that it could not write, it returns the time that the checkpoint of each bucket must
// not pass.
func saveLanes(ctx context.Context, q *db.Queries, list []lane.Save, ours map[int]bool, done *written, now time.Time) (map[int]time.Time, error) {
	p := db.SaveLanesParams{Now: now}
	for i := range list {
		s := &list[i]
		if !ours[s.Bucket] {
			continue
		}
		p.OrgIds = append(p.OrgIds, string(s.Org))
		p.AccountIds = append(p.AccountIds, s.Source)
		p.Buckets = append(p.Buckets, int16(s.Bucket))
		p.Gens = append(p.Gens, s.Gen)
		p.States = append(p.States, string(s.State))
		p.Cursors = append(p.Cursors, s.Cursor)
		p.FailSinces = append(p.FailSinces, s.FailSince)
		p.FailCounts = append(p.FailCounts, int32(s.FailCount))
		p.NextAts = append(p.NextAts, s.NextAt)
		p.LastStatuses = append(p.LastStatuses, int16(s.LastStatus))
		p.LastErrors = append(p.LastErrors, s.LastError)
		p.Reasons = append(p.Reasons, s.Reason)
		p.HeadTries = append(p.HeadTries, int32(s.HeadTries))
		p.HeadSinces = append(p.HeadSinces, s.HeadSince)
	}
	holds := map[int]time.Time{}
	if len(p.OrgIds) == 0 {
		return holds, nil
	}
	saved, err := q.SaveLanes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("write %d lanes: %w", len(p.OrgIds), err)
	}
	written := make(map[string]bool, len(saved))
	for _, source := range saved {
		written[source] = true
	}
	for i := range list {
		s := &list[i]
		if !ours[s.Bucket] || written[s.Source] {
			continue
		}
		done.unsaved[s.Source] = true
		if at, ok := holds[s.Bucket]; s.Pending && (!ok || s.Hold.Before(at)) {
			holds[s.Bucket] = s.Hold
		}
	}
	return holds, nil
}

func removeLanes(ctx context.Context, q *db.Queries, list []lane.Row, ours map[int]bool) error {
	p := db.RemoveLanesParams{}
	for i := range list {
		if r := &list[i]; ours[r.Bucket] {
			p.OrgIds = append(p.OrgIds, string(r.Org))
			p.AccountIds = append(p.AccountIds, r.Source)
			p.Gens = append(p.Gens, r.Gen)
		}
	}
	if len(p.OrgIds) == 0 {
		return nil
	}
	if err := q.RemoveLanes(ctx, p); err != nil {
		return fmt.Errorf("remove %d lanes: %w", len(p.OrgIds), err)
	}
	return nil
}

func insertSideDelivery(ctx context.Context, q *db.Queries, e sideDelivery) error {
	err := q.AddErrand(ctx, db.AddErrandParams{
		OrgID: e.org, AccountID: e.account, ID: e.id, Bucket: int16(event.Bucket(e.account)), Kind: string(e.kind), FromSeq: e.from, ToSeq: e.to,
		Cursor: e.cursor, Events: e.events, OnlyFailed: e.onlyFailed, Tries: int32(e.attempt), Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return fmt.Errorf("write a side delivery of %s: %w", e.account, err)
	}
	return nil
}

func addSideDeliveryTx(ctx context.Context, tx postgres.Tx, e sideDelivery) error {
	return insertSideDelivery(ctx, db.New(tx), e)
}

func dueSideDeliveries(ctx context.Context, q db.DBTX, buckets []int16, now time.Time, most int) ([]sideDelivery, error) {
	rows, err := db.New(q).DueErrands(ctx, db.DueErrandsParams{Buckets: buckets, Now: now, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("find due side deliveries: %w", err)
	}
	list := make([]sideDelivery, len(rows))
	for i, r := range rows {
		list[i] = sideDelivery{
			org: r.OrgID, account: r.AccountID, id: r.ID, kind: sideKind(r.Kind), from: r.FromSeq, to: r.ToSeq, cursor: r.Cursor, events: r.Events,
			onlyFailed: r.OnlyFailed, attempt: int(r.Tries), since: r.Since, nextAt: r.NextAt,
		}
	}
	return list, nil
}

// saveSideProgress writes the progress of a side delivery and reports whether it still exists. It is deleted with its
// webhook.
func saveSideProgress(ctx context.Context, q db.DBTX, e *sideDelivery) (bool, error) {
	n, err := db.New(q).MoveErrand(ctx, db.MoveErrandParams{
		OrgID: e.org, AccountID: e.account, ID: e.id, Cursor: e.cursor, Tries: int32(e.attempt), Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return false, fmt.Errorf("write the progress of a side delivery of %s: %w", e.account, err)
	}
	return n > 0, nil
}

func deleteSideDelivery(ctx context.Context, q db.DBTX, e *sideDelivery) error {
	err := db.New(q).EndErrand(ctx, db.EndErrandParams{OrgID: e.org, AccountID: e.account, ID: e.id})
	if err != nil {
		return fmt.Errorf("delete a side delivery of %s: %w", e.account, err)
	}
	return nil
}

// deliveredAmong returns the events of a range that were delivered successfully.
func deliveredAmong(ctx context.Context, q db.DBTX, e *sideDelivery, since time.Time, from, to int64) ([]int64, error) {
	list, err := db.New(q).DeliveredSeqs(ctx, db.DeliveredSeqsParams{OrgID: e.org, AccountID: e.account, Since: since, FromSeq: from, ToSeq: to})
	if err != nil {
		return nil, fmt.Errorf("read what was delivered of %s: %w", e.account, err)
	}
	return list, nil
}
