package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
)

func addSeries(ctx context.Context, q db.DBTX, keys []seriesKey, series map[seriesKey]*tally) error {
	p := db.AddSeriesParams{}
	for _, k := range keys {
		t := series[k]
		p.OrgIds, p.AccountIds, p.Hours = append(p.OrgIds, string(k.org)), append(p.AccountIds, string(k.account)), append(p.Hours, k.hour)
		p.Calls, p.Limited = append(p.Calls, t.calls), append(p.Limited, t.limited)
		p.ClientErrors, p.Failed = append(p.ClientErrors, t.clientErrors), append(p.Failed, t.failed)
		p.Took = append(p.Took, t.took.text())
	}
	if err := db.New(q).AddSeries(ctx, p); err != nil {
		return fmt.Errorf("add to usage series: %w", err)
	}
	return nil
}

func addSlices(ctx context.Context, q db.DBTX, keys []sliceKey, slices map[sliceKey]*tally) error {
	p := db.AddSlicesParams{}
	for _, k := range keys {
		t := slices[k]
		p.OrgIds, p.Steps, p.Times = append(p.OrgIds, string(k.org)), append(p.Steps, int32(k.step/time.Second)), append(p.Times, k.at)
		p.Dimensions, p.Names = append(p.Dimensions, string(k.dimension)), append(p.Names, k.name)
		p.Calls, p.Limited = append(p.Calls, t.calls), append(p.Limited, t.limited)
		p.ClientErrors, p.Failed = append(p.ClientErrors, t.clientErrors), append(p.Failed, t.failed)
		p.Took = append(p.Took, t.took.text())
	}
	if err := db.New(q).AddSlices(ctx, p); err != nil {
		return fmt.Errorf("add to usage slices: %w", err)
	}
	return nil
}

// readSeries reads from usage_series what it has: the hours of orgs and accounts.
func readSeries(ctx context.Context, q db.DBTX, w Want, each func(at time.Time, t *tally)) error {
	see := func(at time.Time, calls, limited, clientErrors, failed int64, took []int64) {
		t := tally{calls: calls, limited: limited, clientErrors: clientErrors, failed: failed}
		t.took.plus(took)
		each(at, &t)
	}
	if w.Step != time.Minute && (w.Dimension == ByAll || w.Dimension == ByAccount) {
		rows, err := db.New(q).Series(ctx, db.SeriesParams{OrgID: w.Org, AccountIds: w.Names, Since: w.Since, Until: w.Until})
		if err != nil {
			return fmt.Errorf("read usage series of %s: %w", w.Org, err)
		}
		for _, r := range rows {
			see(r.Hour, r.Calls, r.Limited, r.ClientErrors, r.Failed, r.Took)
		}
		return nil
	}
	rows, err := db.New(q).Slices(ctx, db.SlicesParams{
		OrgID: w.Org, Step: int32(min(w.Step, time.Hour) / time.Second), Dimension: string(w.Dimension), Names: w.Names, Since: w.Since, Until: w.Until,
	})
	if err != nil {
		return fmt.Errorf("read usage slices of %s: %w", w.Org, err)
	}
	for _, r := range rows {
		see(r.At, r.Calls, r.Limited, r.ClientErrors, r.Failed, r.Took)
	}
	return nil
}

func readEvents(ctx context.Context, q db.DBTX, w Want, each func(at time.Time, e Events)) error {
	if w.Step == time.Minute {
		rows, err := db.New(q).EventsByMinute(ctx, db.EventsByMinuteParams{OrgID: w.Org, Since: w.Since, Until: w.Until})
		if err != nil {
			return fmt.Errorf("read events by minute of %s: %w", w.Org, err)
		}
		for _, r := range rows {
			each(r.Minute, Events{r.Received, r.Streamed, r.Delivered, r.Failed, time.Duration(r.SlowestUs) * time.Microsecond})
		}
		return nil
	}
	rows, err := db.New(q).EventsByHour(ctx, db.EventsByHourParams{OrgID: w.Org, Since: w.Since, Until: w.Until})
	if err != nil {
		return fmt.Errorf("read events by hour of %s: %w", w.Org, err)
	}
	for _, r := range rows {
		each(r.Hour, Events{r.Received, r.Streamed, r.Delivered, r.Failed, time.Duration(r.SlowestUs) * time.Microsecond})
	}
	return nil
}

func readActivity(ctx context.Context, q db.DBTX, org id.Org, accounts []id.Account, since time.Time, each func(id.Account, time.Time, int64)) error {
	rows, err := db.New(q).Activity(ctx, db.ActivityParams{OrgID: org, AccountIds: id.Texts(accounts), Since: since})
	if err != nil {
		return fmt.Errorf("read account activity of %s: %w", org, err)
	}
	for _, r := range rows {
		each(id.Account(r.AccountID), r.Hour, r.Calls)
	}
	return nil
}
