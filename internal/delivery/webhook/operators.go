package webhook

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// LaneStatus is what operators see of a lane: where it delivers and how that goes, and nothing of what it delivers. Of
// the address they see the host alone, because the rest may hold a secret.
type LaneStatus struct {
	Org     id.Org
	Account id.Account
	Host    string
	State   lane.State
	// Reason explains why the lane is disabled or paused.
	Reason                string
	FailingSince, NextAt  time.Time
	FailCount, LastStatus int
	LastError             string
	// Backlog is an upper bound on the events that wait.
	Backlog int64
}

// LaneFilter selects lanes of all organisations. Empty fields select every lane with a row, which live lanes have not.
type LaneFilter struct {
	State lane.State
	Org   id.Org
	// AfterOrg and AfterAccount are those of the last lane on the previous page.
	AfterOrg     id.Org
	AfterAccount id.Account
}

// storedStates are the states in which a lane has a row.
var storedStates = []lane.State{lane.Lagging, lane.Backoff, lane.Draining, lane.Paused, lane.Disabled}

// ListLanes lists lanes by organisation and account.
func (w *Webhooks) ListLanes(ctx context.Context, f LaneFilter, limit int) ([]LaneStatus, error) {
	q := laneQuery{states: storedStates, org: f.Org, afterOrg: f.AfterOrg, afterAccount: f.AfterAccount}
	if f.State != "" {
		q.states = []lane.State{f.State}
	}
	rows, err := findLanes(ctx, w.deps.DB, q, limit)
	if err != nil {
		return nil, err
	}
	list := make([]LaneStatus, len(rows))
	for i := range rows {
		list[i] = rows[i].LaneStatus
		list[i].Host = hostOf(rows[i].url)
		if rows[i].cursor < 0 {
			continue
		}
		head, err := w.deps.Events.Head(ctx, list[i].Org, string(list[i].Account))
		if err != nil {
			return nil, err
		}
		list[i].Backlog = max(head.LastSeq-rows[i].cursor, 0)
	}
	return list, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// CountLanes counts webhooks by the state of their lane, of all organisations or of one.
func (w *Webhooks) CountLanes(ctx context.Context, org id.Org) (map[lane.State]int, error) {
	return countLanes(ctx, w.deps.DB, org)
}

// LaneAction is something that operators do with many lanes.
type LaneAction string

// The actions.
const (
	// RetryLanes retries failing and disabled endpoints immediately.
	RetryLanes LaneAction = "retry"
	// PauseLanes stops lanes that do not keep up.
	PauseLanes LaneAction = "pause"
	// ResumeLanes resumes lanes that an operator has paused. Lanes that their owner has paused stay paused.
	ResumeLanes LaneAction = "resume"
)

// laneEffect is what an action does: lanes in the state from, paused for a reason if one is given, become to.
type laneEffect struct {
	from     []lane.State
	reason   string
	to       lane.State
	toReason string
}

var laneEffects = map[LaneAction]laneEffect{
	RetryLanes:  {from: []lane.State{lane.Backoff, lane.Disabled}, to: lane.Draining},
	PauseLanes:  {from: []lane.State{lane.Lagging, lane.Backoff, lane.Draining}, to: lane.Paused, toReason: lane.ReasonOperator},
	ResumeLanes: {from: []lane.State{lane.Paused}, reason: lane.ReasonOperator, to: lane.Draining},
}

func (a LaneAction) States() []lane.State { return laneEffects[a].from }

// LaneOrder is an action and the lanes it is for. Empty fields select every lane that it applies to.
type LaneOrder struct {
	Do       LaneAction
	State    lane.State
	Org      id.Org
	Accounts []id.Account
	// Limit bounds how many lanes are changed.
	Limit int
}

// LaneResult is the outcome of an order.
type LaneResult struct {
	// Changed is the number of lanes that changed, Orgs of how many organisations. More means that the order applies
	// to further lanes.
	Changed, Orgs int
	More          bool
}

// laneBatch is how many lanes are changed in one transaction.
const laneBatch = 100

// OrderLanes applies an action to many lanes. The audit log of each organisation names its lanes. An order can be
// repeated: lanes that have changed already no longer match.
func (w *Webhooks) OrderLanes(ctx context.Context, by audit.By, o LaneOrder) (LaneResult, error) {
	e := laneEffects[o.Do]
	q := laneQuery{states: e.from, reason: e.reason, org: o.Org, accounts: o.Accounts}
	if o.State != "" {
		q.states = []lane.State{o.State}
	}
	rows, err := findLanes(ctx, w.deps.DB, q, o.Limit+1)
	if err != nil {
		return LaneResult{}, err
	}
	result := LaneResult{More: len(rows) > o.Limit}
	rows = rows[:min(len(rows), o.Limit)]
	var last id.Org
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && n < laneBatch && rows[n].Org == rows[0].Org {
			n++
		}
		changed, err := w.orderBatch(ctx, by, e, q, rows[:n])
		if err != nil {
			return result, err
		}
		if result.Changed += changed; changed > 0 && rows[0].Org != last {
			result.Orgs++
			last = rows[0].Org
		}
		rows = rows[n:]
	}
	return result, nil
}

// orderBatch changes lanes of one organisation, by account. It skips those that no longer match.
func (w *Webhooks) orderBatch(ctx context.Context, by audit.By, e laneEffect, q laneQuery, rows []laneRow) (int, error) {
	org, now := rows[0].Org, w.deps.Now()
	var changed []id.Account
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		changed = nil
		for i := range rows {
			account := rows[i].Account
			_, exists, err := lockRecord(ctx, tx, org, account)
			if err != nil {
				return err
			}
			row, err := getLane(ctx, tx, org, account)
			if err != nil {
				return err
			}
			if !exists || !q.matches(row) {
				continue
			}
			written, err := bumpGen(ctx, tx, org, account, now)
			if err != nil {
				return err
			}
			change := laneChange{state: e.to, cursor: lane.Unknown, reason: cmp.Or(e.toReason, reasonAfter(row, e.to))}
			if err := setLane(ctx, tx, &written, change, now); err != nil {
				return err
			}
			changed = append(changed, account)
		}
		if len(changed) == 0 {
			return nil
		}
		return w.deps.Audit.Record(ctx, tx, org, by, string(org), audit.Changes{"accounts": {To: changed}, "state": {To: string(e.to)}})
	})
	if err != nil {
		return 0, err
	}
	for _, account := range changed {
		w.publishChange(ctx, org, account)
	}
	return len(changed), nil
}

func (q *laneQuery) matches(row *lane.Row) bool {
	return row != nil && slices.Contains(q.states, row.State) && (q.reason == "" || q.reason == row.Reason)
}
