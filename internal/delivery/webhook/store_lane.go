package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// errFenced means that a newer lease has a bucket.
var errFenced = errors.New("another node delivers this bucket by now")

// firstFloor is that of a bucket that was never delivered.
func firstFloor() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// claim takes a bucket for a lease, and says up to when it is done and whether it was left in order.
func claim(ctx context.Context, q db.DBTX, bucket int, epoch int64) (floor time.Time, clean bool, err error) {
	row, err := db.New(q).Claim(ctx, db.ClaimParams{Bucket: int16(bucket), Epoch: epoch, FirstFloor: firstFloor()})
	if errors.Is(err, postgres.ErrNoRows) {
		return time.Time{}, false, errFenced
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("claim webhooks of bucket %d: %w", bucket, err)
	}
	return row.FloorAt, row.WasClean, nil
}

func lanes(ctx context.Context, q db.DBTX, bucket int) ([]lane.Row, error) {
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

// saveBatch writes a batch as far as its buckets are ours and its owners have ordered nothing else.
func saveBatch(ctx context.Context, tx postgres.Tx, b *lane.Batch, now time.Time) (written, error) {
	done := written{unsaved: map[string]bool{}}
	q := db.New(tx)
	ours, err := fence(ctx, q, b.Floors, &done)
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
	for i := range b.Errands {
		if err := addErrand(ctx, q, retryErrand(&b.Errands[i])); err != nil {
			return done, err
		}
	}
	p := db.SetFloorsParams{}
	for _, f := range b.Floors {
		if !ours[f.Bucket] {
			continue
		}
		if hold, ok := holds[f.Bucket]; ok && hold.Before(f.At) {
			f.At = hold
		}
		p.Buckets = append(p.Buckets, int16(f.Bucket))
		p.Floors = append(p.Floors, f.At)
		p.Cleans = append(p.Cleans, f.Clean)
	}
	if len(p.Buckets) > 0 {
		if err := q.SetFloors(ctx, p); err != nil {
			return done, fmt.Errorf("write floors: %w", err)
		}
	}
	return done, nil
}

// fence locks the buckets that are still ours.
func fence(ctx context.Context, q *db.Queries, floors []lane.Floor, done *written) (map[int]bool, error) {
	ours := map[int]bool{}
	if len(floors) == 0 {
		return ours, nil
	}
	p := db.FenceParams{}
	for _, f := range floors {
		p.Buckets = append(p.Buckets, int16(f.Bucket))
		p.Epochs = append(p.Epochs, f.Epoch)
	}
	held, err := q.Fence(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("lock buckets: %w", err)
	}
	for _, b := range held {
		ours[int(b)] = true
	}
	for _, f := range floors {
		if !ours[f.Bucket] {
			done.lost = append(done.lost, f)
		}
	}
	return ours, nil
}

// saveLanes writes rows. For each that could not be written it says where the floor of its bucket must stay.
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

func addErrand(ctx context.Context, q *db.Queries, e errand) error {
	err := q.AddErrand(ctx, db.AddErrandParams{
		OrgID: e.org, AccountID: e.account, ID: e.id, Bucket: int16(event.Bucket(e.account)), Kind: string(e.kind), FromSeq: e.from, ToSeq: e.to,
		Cursor: e.cursor, Events: e.events, OnlyFailed: e.onlyFailed, Tries: int32(e.attempt), Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return fmt.Errorf("write an errand of %s: %w", e.account, err)
	}
	return nil
}

func addErrandTo(ctx context.Context, tx postgres.Tx, e errand) error {
	return addErrand(ctx, db.New(tx), e)
}

func dueErrands(ctx context.Context, q db.DBTX, buckets []int16, now time.Time, most int) ([]errand, error) {
	rows, err := db.New(q).DueErrands(ctx, db.DueErrandsParams{Buckets: buckets, Now: now, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("find due errands: %w", err)
	}
	list := make([]errand, len(rows))
	for i, r := range rows {
		list[i] = errand{
			org: r.OrgID, account: r.AccountID, id: r.ID, kind: errandKind(r.Kind), from: r.FromSeq, to: r.ToSeq, cursor: r.Cursor, events: r.Events,
			onlyFailed: r.OnlyFailed, attempt: int(r.Tries), since: r.Since, nextAt: r.NextAt,
		}
	}
	return list, nil
}

// moveErrand writes how far an errand is, and says whether it is still wanted.
func moveErrand(ctx context.Context, q db.DBTX, e *errand) (bool, error) {
	n, err := db.New(q).MoveErrand(ctx, db.MoveErrandParams{
		OrgID: e.org, AccountID: e.account, ID: e.id, Cursor: e.cursor, Tries: int32(e.attempt), Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return false, fmt.Errorf("move an errand of %s: %w", e.account, err)
	}
	return n > 0, nil
}

func endErrand(ctx context.Context, q db.DBTX, e *errand) error {
	err := db.New(q).EndErrand(ctx, db.EndErrandParams{OrgID: e.org, AccountID: e.account, ID: e.id})
	if err != nil {
		return fmt.Errorf("end an errand of %s: %w", e.account, err)
	}
	return nil
}

// deliveredAmong are those of a range of events that some delivery got through.
func deliveredAmong(ctx context.Context, q db.DBTX, e *errand, since time.Time, from, to int64) ([]int64, error) {
	list, err := db.New(q).DeliveredSeqs(ctx, db.DeliveredSeqsParams{OrgID: e.org, AccountID: e.account, Since: since, FromSeq: from, ToSeq: to})
	if err != nil {
		return nil, fmt.Errorf("read what was delivered of %s: %w", e.account, err)
	}
	return list, nil
}
