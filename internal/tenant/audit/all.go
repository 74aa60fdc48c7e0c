package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// Operators is where an entry goes that concerns no org: what operators do to the service itself. No org has this id.
const Operators id.Org = "org_00000000000000000000000000"

// Of is an entry and whose log it is in.
type Of struct {
	Org id.Org
	Entry
}

// Choice chooses entries of all logs. Empty fields choose all.
type Choice struct {
	Org           id.Org
	Action, Actor string
	Kind          ActorKind
	Target        string
	Since, Until  time.Time
	// Before is the last entry of the page before.
	Before id.Audit
}

// idSlack is how far the time in an id and that of its entry may be apart.
const idSlack = time.Minute

// All lists entries of all logs from the newest, for operators.
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
	rows, err := db.New(l.db.Pool()).PageOfAll(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the audit logs: %w", err)
	}
	list := make([]Of, len(rows))
	for i, e := range fromRows(rows) {
		list[i] = Of{rows[i].OrgID, e}
	}
	return list, nil
}
