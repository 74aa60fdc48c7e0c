package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
)

func addCalls(ctx context.Context, q db.DBTX, keys []sumKey, sums map[sumKey]*int64) error {
	var p db.AddParams
	for _, k := range keys {
		p.OrgIds = append(p.OrgIds, string(k.call.Org))
		p.Hours = append(p.Hours, k.hour)
		p.AccountIds = append(p.AccountIds, string(k.call.Account))
		p.Operations = append(p.Operations, k.call.Operation)
		p.Accesses = append(p.Accesses, string(k.call.Access))
		p.Outcomes = append(p.Outcomes, string(k.call.Outcome))
		p.Calls = append(p.Calls, *sums[k])
	}
	if err := db.New(q).Add(ctx, p); err != nil {
		return fmt.Errorf("add usage: %w", err)
	}
	return nil
}

type row struct {
	operation string
	access    Access
	outcome   Outcome
	calls     int64
}

func sumCalls(ctx context.Context, q db.DBTX, org id.Org, since, until time.Time) ([]row, error) {
	found, err := db.New(q).Sum(ctx, db.SumParams{OrgID: org, Since: since, Until: until})
	if err != nil {
		return nil, fmt.Errorf("sum usage of %s: %w", org, err)
	}
	rows := make([]row, len(found))
	for i, f := range found {
		rows[i] = row{f.Operation, Access(f.Access), Outcome(f.Outcome), f.Calls}
	}
	return rows, nil
}

func addBytes(ctx context.Context, q db.DBTX, keys []trafficKey, sums map[trafficKey]*traffic) error {
	var p db.AddBytesParams
	for _, k := range keys {
		p.OrgIds = append(p.OrgIds, string(k.org))
		p.Hours = append(p.Hours, k.hour)
		p.Regions = append(p.Regions, k.region)
		p.SentSums = append(p.SentSums, sums[k].sent)
		p.ReceivedSums = append(p.ReceivedSums, sums[k].received)
	}
	if err := db.New(q).AddBytes(ctx, p); err != nil {
		return fmt.Errorf("add bytes: %w", err)
	}
	return nil
}

func sumBytes(ctx context.Context, q db.DBTX, org id.Org, since, until time.Time) (map[string]int64, error) {
	found, err := db.New(q).SumBytes(ctx, db.SumBytesParams{OrgID: org, Since: since, Until: until})
	if err != nil {
		return nil, fmt.Errorf("sum bytes of %s: %w", org, err)
	}
	both := make(map[string]int64, len(found))
	for _, f := range found {
		both[f.Region] = f.Sent + f.Received
	}
	return both, nil
}

func addEvents(ctx context.Context, q db.DBTX, keys []eventKey, sums map[eventKey]*Events) error {
	if err := db.New(q).AddEvents(ctx, eventRows(keys, sums)); err != nil {
		return fmt.Errorf("add event counts: %w", err)
	}
	return nil
}

func addEventMinutes(ctx context.Context, q db.DBTX, keys []eventKey, sums map[eventKey]*Events) error {
	p := eventRows(keys, sums)
	err := db.New(q).AddEventMinutes(ctx, db.AddEventMinutesParams{
		OrgIds: p.OrgIds, Minutes: p.Hours, Received: p.Received, Streamed: p.Streamed, Delivered: p.Delivered, Failed: p.Failed, SlowestUs: p.SlowestUs,
	})
	if err != nil {
		return fmt.Errorf("add event counts by minute: %w", err)
	}
	return nil
}

func eventRows(keys []eventKey, sums map[eventKey]*Events) (p db.AddEventsParams) {
	for _, k := range keys {
		e := sums[k]
		p.OrgIds, p.Hours = append(p.OrgIds, string(k.org)), append(p.Hours, k.at)
		p.Received, p.Streamed = append(p.Received, e.Received), append(p.Streamed, e.Streamed)
		p.Delivered, p.Failed = append(p.Delivered, e.Delivered), append(p.Failed, e.DeliveryFailed)
		p.SlowestUs = append(p.SlowestUs, e.Slowest.Microseconds())
	}
	return p
}

func sumEvents(ctx context.Context, q db.DBTX, org id.Org, since, until time.Time) (Events, error) {
	row, err := db.New(q).SumEvents(ctx, db.SumEventsParams{OrgID: org, Since: since, Until: until})
	if err != nil {
		return Events{}, fmt.Errorf("sum events of %s: %w", org, err)
	}
	return Events{Received: row.Received, Streamed: row.Streamed, Delivered: row.Delivered, DeliveryFailed: row.Failed}, nil
}
