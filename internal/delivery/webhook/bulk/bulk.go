// Package bulk is what operators see of webhooks, and do with many of them at once.
//
// They see where a webhook delivers and how that goes, and nothing of what it delivers; of its address they see the host alone, because the
// rest may hold a secret. What one owner does with one webhook is package webhook's.
package bulk

import (
	"context"
	"net/url"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Deps is what the service needs.
type Deps struct {
	DB     *postgres.DB
	Events *event.Store
	Audit  *audit.Log
	// Tell has whoever delivers an account's events look at its webhook; *webhook.Webhooks does.
	Tell func(ctx context.Context, org id.Org, account id.Account)
	Now  func() time.Time
}

// Lanes is the service.
type Lanes struct{ Deps }

// New makes the service.
func New(d Deps) *Lanes { return &Lanes{d} }

// Standing is how a lane stands.
type Standing struct {
	Org     id.Org
	Account id.Account
	Host    string
	State   lane.State
	// Reason says why it is disabled or paused.
	Reason                string
	FailingSince, NextAt  time.Time
	FailCount, LastStatus int
	LastError             string
	// Backlog is how many events wait at most.
	Backlog int64
}

// Choice chooses lanes of all orgs. Empty fields choose all that are not live: those have no row.
type Choice struct {
	State lane.State
	Org   id.Org
	// After are org and account of the last one on the page before.
	AfterOrg     id.Org
	AfterAccount id.Account
}

// stuck are the states that have a row.
var stuck = []lane.State{lane.Lagging, lane.Backoff, lane.Draining, lane.Paused, lane.Disabled}

// List lists lanes in the order of orgs and accounts.
func (l *Lanes) List(ctx context.Context, c Choice, most int) ([]Standing, error) {
	f := filter{states: stuck, org: c.Org, afterOrg: c.AfterOrg, afterAccount: c.AfterAccount}
	if c.State != "" {
		f.states = []lane.State{c.State}
	}
	rows, err := find(ctx, l.DB.Pool(), f, most)
	if err != nil {
		return nil, err
	}
	list := make([]Standing, len(rows))
	for i := range rows {
		list[i] = rows[i].Standing
		list[i].Host = hostOf(rows[i].url)
		if rows[i].cursor < 0 {
			continue
		}
		head, err := l.Events.Head(ctx, list[i].Org, string(list[i].Account))
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

// Count counts webhooks by the state of their lane, of all orgs or of one.
func (l *Lanes) Count(ctx context.Context, org id.Org) (map[lane.State]int, error) {
	return count(ctx, l.DB.Pool(), org)
}

// Action is something that is done with many lanes.
type Action string

// What can be done.
const (
	// Retry tries failing and disabled endpoints at once.
	Retry Action = "retry"
	// Pause stops lanes that do not keep up.
	Pause Action = "pause"
	// Resume lets lanes go on that an operator has paused. What its owner has paused stays so.
	Resume Action = "resume"
)

// effect is what an action does: to lanes in which states, paused for which reason if that matters, and what they are afterwards.
type effect struct {
	from       []lane.State
	reason     string
	to         lane.State
	setsReason bool
	afterwards string
}

var effects = map[Action]effect{
	Retry:  {from: []lane.State{lane.Backoff, lane.Disabled}, to: lane.Draining},
	Pause:  {from: []lane.State{lane.Lagging, lane.Backoff, lane.Draining}, to: lane.Paused, setsReason: true, afterwards: lane.ReasonOperator},
	Resume: {from: []lane.State{lane.Paused}, reason: lane.ReasonOperator, to: lane.Draining, setsReason: true},
}

// States are those of lanes that it can be done with.
func (a Action) States() []lane.State { return effects[a].from }

// Order is what is to be done, and with which lanes. Empty fields choose all that it can be done with.
type Order struct {
	Do       Action
	State    lane.State
	Org      id.Org
	Accounts []id.Account
	// Most is how many at most.
	Most int
}

// Done is what became of it.
type Done struct {
	// Changed lanes are those of Orgs orgs. More means that there are others for which it could be done.
	Changed, Orgs int
	More          bool
}

// inOne is how many lanes are changed in one transaction.
const inOne = 100

// Operate does something with many lanes. Each org finds in its log which of its lanes it was. What was done already is not done again.
func (l *Lanes) Operate(ctx context.Context, by audit.By, o Order) (Done, error) {
	e := effects[o.Do]
	f := filter{states: e.from, reason: e.reason, org: o.Org, accounts: o.Accounts}
	if o.State != "" {
		f.states = []lane.State{o.State}
	}
	rows, err := find(ctx, l.DB.Pool(), f, o.Most+1)
	if err != nil {
		return Done{}, err
	}
	done := Done{More: len(rows) > o.Most}
	rows = rows[:min(len(rows), o.Most)]
	var last id.Org
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && n < inOne && rows[n].Org == rows[0].Org {
			n++
		}
		changed, err := l.operate(ctx, by, e, f, rows[:n])
		if err != nil {
			return done, err
		}
		if done.Changed += changed; changed > 0 && rows[0].Org != last {
			done.Orgs++
			last = rows[0].Org
		}
		rows = rows[n:]
	}
	return done, nil
}

// operate changes some lanes of one org, in the order of their accounts.
func (l *Lanes) operate(ctx context.Context, by audit.By, e effect, f filter, rows []row) (int, error) {
	org, now := rows[0].Org, l.Now()
	var changed []id.Account
	err := l.DB.Tx(ctx, func(tx postgres.Tx) error {
		changed = nil
		for i := range rows {
			// One that is another by now than it was when it was found is left alone.
			held, err := hold(ctx, tx, f, org, rows[i].Account)
			if err != nil {
				return err
			}
			if !held {
				continue
			}
			if err := order(ctx, tx, e, org, rows[i].Account, now); err != nil {
				return err
			}
			changed = append(changed, rows[i].Account)
		}
		if len(changed) == 0 {
			return nil
		}
		return l.Audit.Record(ctx, tx, org, by, string(org), audit.Changes{"accounts": {To: changed}, "state": {To: string(e.to)}})
	})
	if err != nil {
		return 0, err
	}
	for _, account := range changed {
		l.Tell(ctx, org, account)
	}
	return len(changed), nil
}
