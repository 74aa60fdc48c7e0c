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

func readSeries(ctx context.Context, q db.DBTX, w Want, accounts []string, each func(hour time.Time, t *tally)) error {
	rows, err := db.New(q).Series(ctx, db.SeriesParams{OrgID: w.Org, AccountIds: accounts, Since: w.Since, Until: w.Until})
	if err != nil {
		return fmt.Errorf("read usage series of %s: %w", w.Org, err)
	}
	for _, r := range rows {
		t := tally{calls: r.Calls, limited: r.Limited, clientErrors: r.ClientErrors, failed: r.Failed}
		t.took.plus(r.Took)
		each(r.Hour, &t)
	}
	return nil
}

func readEvents(ctx context.Context, q db.DBTX, w Want, each func(hour time.Time, e Events)) error {
	rows, err := db.New(q).EventsByHour(ctx, db.EventsByHourParams{OrgID: w.Org, Since: w.Since, Until: w.Until})
	if err != nil {
		return fmt.Errorf("read events by hour of %s: %w", w.Org, err)
	}
	for _, r := range rows {
		each(r.Hour, Events{r.Received, r.Streamed, r.Delivered, r.Failed})
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
