package audit

import (
	"cmp"
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// Operators is the log for operators' changes to the service itself, which concern no org. No org has this id.
const Operators id.Org = "org_00000000000000000000000000"

// Of is an entry with the org whose log contains it.
type Of struct {
	Org id.Org
	Entry
}

// Choice filters the entries of all logs. A zero field does not filter.
type Choice struct {
	Org           id.Org
	Action, Actor string
	Kind          ActorKind
	Target        string
	Since, Until  time.Time
	// Before is the last entry of the previous page.
	Before id.Audit
}

// idSlack is the largest expected difference between the time in an entry's id and the entry's own time.
const idSlack = time.Minute

// All returns up to limit entries of all logs, newest first, for operators. It reads by id, whose order is that of time
// to within idSlack.
func (l *Log) All(ctx context.Context, c Choice, limit int) ([]Of, error) {
	p := db.PageOfAllParams{
		Before: cmp.Or(c.Before, "aud_~"), Since: c.Since, Until: c.Until, OnlyOrg: string(c.Org), Action: c.Action, ActorID: c.Actor,
		ActorKind: string(c.Kind), Target: c.Target, MaxRows: int32(limit),
	}
	if !c.Since.IsZero() {
		p.FromID = id.Earliest[id.Audit](c.Since.Add(-idSlack))
	}
	if c.Until.IsZero() {
		p.Until = l.now().Add(idSlack)
	}
	rows, err := db.New(l.db).PageOfAll(ctx, p)
	if err != nil {
		return nil, err
	}
	list := postgres.Convert(rows, func(r db.AuditEntry) Of { return Of{r.OrgID, fromRow(r)} })
	for i := range list {
		if err := list[i].hidePersonal(); err != nil {
			return nil, err
		}
	}
	return list, nil
}
