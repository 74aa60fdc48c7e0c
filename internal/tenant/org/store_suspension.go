package org

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// readSuspended returns the suspended orgs and a time of the database's clock. The set includes every suspension that
// was committed before that time, because the time is taken before the orgs are read.
func readSuspended(ctx context.Context, q db.DBTX) (map[id.Org]struct{}, time.Time, error) {
	at, err := db.New(q).StatementTime(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	rows, err := db.New(q).Suspended(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	orgs := make(map[id.Org]struct{}, len(rows))
	for _, one := range rows {
		orgs[one] = struct{}{}
	}
	return orgs, at, nil
}
