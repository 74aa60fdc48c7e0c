// Package survey looks at the webhooks of a whole org: how each stands, one delivery by its id, those of an event, and why a signature
// does not match (check.go). It changes nothing.
package survey

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// State is how delivery to a webhook goes, as its owner sees it.
type State string

// The states.
const (
	Healthy  State = "healthy"
	Failing  State = "failing"
	Paused   State = "paused"
	Disabled State = "disabled"
	// Lagging and Attention choose and count webhooks; StateOf never returns them. Lagging webhooks are Healthy and do not keep up. Those
	// that need Attention are Failing, Disabled or Lagging.
	Lagging   State = "lagging"
	Attention State = "attention"
)

// StateOf is what a lane's state means; a webhook that is up to date has none.
func StateOf(of lane.State) State {
	switch of {
	case lane.Backoff:
		return Failing
	case lane.Paused:
		return Paused
	case lane.Disabled:
		return Disabled
	case lane.Live, lane.Lagging, lane.Draining:
	}
	return Healthy
}

// lanes are the states of lanes that a state stands for.
func (s State) lanes() []string {
	switch s {
	case Failing:
		return []string{string(lane.Backoff)}
	case Paused:
		return []string{string(lane.Paused)}
	case Disabled:
		return []string{string(lane.Disabled)}
	case Lagging:
		return []string{string(lane.Lagging)}
	case Attention:
		return []string{string(lane.Backoff), string(lane.Disabled), string(lane.Lagging)}
	case Healthy:
	}
	return []string{"", string(lane.Live), string(lane.Lagging), string(lane.Draining)}
}

// accounts is implemented by *account.Accounts.
type accounts interface {
	Labels(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]string, error)
}

// events finds events; *event.Store does.
type events interface {
	FindAny(ctx context.Context, org id.Org, events []id.Event) ([]event.Stored, error)
	HeadsAmong(ctx context.Context, org id.Org, sources []string) (map[string]event.Head, error)
}

// sealer opens secrets; *seal.Sealer does.
type sealer interface {
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
}

// Deps is what the service needs.
type Deps struct {
	DB       *postgres.DB
	Accounts accounts
	Events   events
	Seal     sealer
	// Describe reads webhooks with their health; *webhook.Webhooks does.
	Describe func(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account]webhook.Webhook, error)
	// Settle writes what this node has of the log in memory; *webhook.Webhooks does.
	Settle func(ctx context.Context)
	Now    func() time.Time
}

// Survey is the service.
type Survey struct{ Deps }

// New makes the service.
func New(d Deps) *Survey { return &Survey{d} }

// Reader is who looks. Accounts are those that they may see; nil for all. Days is how long they may read deliveries.
type Reader struct {
	Org      id.Org
	Accounts []id.Account
	Days     int
}

// Row is a webhook in a list.
type Row struct {
	webhook.Webhook
	// Label is the account's, or its name on the platform.
	Label string
}

// List lists webhooks in the order of their accounts, behind one of them. state is empty for all. next is where to go on; empty if that
// was all.
func (s *Survey) List(ctx context.Context, r Reader, state State, after id.Account, limit int) (rows []Row, next id.Account, err error) {
	s.Settle(ctx)
	found, err := list(ctx, s.DB.Pool(), r, state, after, limit+1) // one more tells whether there is another page
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1]
	}
	labels, err := s.Accounts.Labels(ctx, r.Org, found)
	if err != nil {
		return nil, "", err
	}
	hooks, err := s.Describe(ctx, r.Org, found)
	if err != nil {
		return nil, "", err
	}
	for _, account := range found {
		if hook, ok := hooks[account]; ok { // otherwise it was deleted just now
			rows = append(rows, Row{Webhook: hook, Label: labels[account]})
		}
	}
	return rows, next, nil
}

// Counts is how many webhooks are in each state.
func (s *Survey) Counts(ctx context.Context, r Reader) (map[State]int, error) {
	return counts(ctx, s.DB.Pool(), r)
}

// Waiting is how many events an org's webhooks should have delivered and have not: at most, because a webhook that wants only some kinds
// leaves out others. Events of paused webhooks do not count.
func (s *Survey) Waiting(ctx context.Context, org id.Org) (int64, error) {
	cursors, err := behind(ctx, s.DB.Pool(), org)
	if err != nil || len(cursors) == 0 {
		return 0, err
	}
	heads, err := s.Events.HeadsAmong(ctx, org, slices.Collect(maps.Keys(cursors)))
	if err != nil {
		return 0, err
	}
	var waiting int64
	for account, cursor := range cursors {
		waiting += max(heads[account].LastSeq-cursor, 0)
	}
	return waiting, nil
}

// States are those of the accounts that have a webhook.
func (s *Survey) States(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account]string, error) {
	return states(ctx, s.DB.Pool(), org, accounts)
}

// Delivery finds a delivery by its id alone.
func (s *Survey) Delivery(ctx context.Context, r Reader, one id.Delivery) (webhook.Delivery, error) {
	s.Settle(ctx)
	found, err := delivery(ctx, s.DB.Pool(), r.Org, one, s.since(r))
	if err == nil && !r.sees(found.Account) {
		err = errNoDelivery()
	}
	return found, err
}

// OfEvents lists the deliveries of events, newest first, behind a position. next is where to go on; zero if that was all. Events that
// are not there, and those that are not stored, have none.
func (s *Survey) OfEvents(ctx context.Context, r Reader, wanted []id.Event, behind webhook.Position, limit int) (list []webhook.Delivery, next webhook.Position, err error) {
	found, err := s.Events.FindAny(ctx, r.Org, wanted)
	if err != nil {
		return nil, next, err
	}
	q := ofEvents{since: s.since(r), behind: behind}
	var first time.Time
	for _, e := range found {
		if !r.sees(id.Account(e.Source)) {
			continue
		}
		q.accounts, q.events = append(q.accounts, e.Source), append(q.events, string(e.ID))
		if first.IsZero() || e.At.Before(first) {
			first = e.At
		}
	}
	if len(q.events) == 0 {
		return nil, next, nil
	}
	// Nothing is delivered before it has happened; clocks differ a little.
	if first = first.Add(-time.Minute); first.After(q.since) {
		q.since = first
	}
	if q.behind.At.IsZero() {
		q.behind.At = s.Now().Add(time.Hour)
	}
	s.Settle(ctx)
	list, err = deliveries(ctx, s.DB.Pool(), r.Org, q, limit+1) // one more tells whether there is another page
	if err != nil || len(list) <= limit {
		return list, next, err
	}
	list = list[:limit]
	return list, webhook.Position{At: list[limit-1].At, ID: list[limit-1].ID}, nil
}

func (r Reader) sees(account id.Account) bool {
	if r.Accounts == nil {
		return true
	}
	for _, one := range r.Accounts {
		if one == account {
			return true
		}
	}
	return false
}

func (s *Survey) since(r Reader) time.Time {
	days := r.Days
	if days < 0 || days > webhook.MaxDays {
		days = webhook.MaxDays
	}
	return s.Now().AddDate(0, 0, -days)
}

func errNoDelivery() error {
	return problem.DeliveryNotFound.New("The organisation has no delivery with this id.")
}
