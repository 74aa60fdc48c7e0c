package webhook

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// State is the state of a webhook's delivery as its owner sees it.
type State string

// The states of a webhook.
const (
	Healthy  State = "healthy"
	Failing  State = "failing"
	Paused   State = "paused"
	Disabled State = "disabled"
	// Lagging and Attention are for filters and counts; StateOf never returns them. Lagging webhooks are Healthy but do
	// not keep up. Webhooks that need Attention are Failing, Disabled or Lagging.
	Lagging   State = "lagging"
	Attention State = "attention"
)

// StateOf maps the state of a lane to that of its webhook.
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

// lanes returns the states of lanes that a state stands for; the empty one is a webhook without a lane.
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

// Reader limits what a caller sees of an organisation. Accounts is nil for all of them. Days is how many days back the
// caller may read deliveries.
type Reader struct {
	Org      id.Org
	Accounts []id.Account
	Days     int
}

// ListRow is a webhook in a list.
type ListRow struct {
	Webhook
	// Label is the account's label, or its name on the platform if it has none.
	Label string
}

// ListFilter selects webhooks. Its zero value selects all of them.
type ListFilter struct {
	State State
	URL   string
	// Query is a part of the URL, ignoring case. Webhooks of the accounts in Named match it as well.
	Query string
	Named []id.Account
}

// URLCount says how many webhooks have a URL, and how many of them need attention.
type URLCount struct {
	URL                 string
	Webhooks, Attention int
}

// List lists an organisation's webhooks by account, starting after one. next is where the next page starts; empty after the
// last page.
func (w *Webhooks) List(ctx context.Context, r Reader, f ListFilter, after id.Account, limit int) (rows []ListRow, next id.Account, err error) {
	w.flushLog(ctx)
	found, err := listAccounts(ctx, w.deps.DB, r, f, after, limit+1) // One more shows whether there is another page.
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1]
	}
	labels, err := w.deps.Accounts.Labels(ctx, r.Org, found)
	if err != nil {
		return nil, "", err
	}
	hooks, err := w.Describe(ctx, r.Org, found)
	if err != nil {
		return nil, "", err
	}
	for _, account := range found {
		if hook, ok := hooks[account]; ok { // Otherwise it was deleted a moment ago.
			rows = append(rows, ListRow{Webhook: hook, Label: labels[account]})
		}
	}
	return rows, next, nil
}

func (w *Webhooks) CountByState(ctx context.Context, r Reader) (map[State]int, error) {
	return countByState(ctx, w.deps.DB, r)
}

// CountByURL counts an organisation's webhooks by URL, those of the most webhooks first. Query is a part of the URL.
func (w *Webhooks) CountByURL(ctx context.Context, r Reader, query string, limit int) ([]URLCount, error) {
	return countByURL(ctx, w.deps.DB, r, query, limit)
}

// Backlog is what an organisation's receivers have not accepted yet.
type Backlog struct {
	// Events is the number of deliveries that are due. It is an upper bound for webhooks of accounts: one that subscribes
	// to some kinds skips the others.
	Events int64
	// Lag is the age of the oldest of these events, in seconds.
	Lag int64
}

// Backlog returns what waits for the webhooks of an organisation and for its endpoints, without those that are paused.
// Events that were set aside because their receiver refuses them wait as well.
func (w *Webhooks) Backlog(ctx context.Context, owner id.Org) (b Backlog, err error) {
	now := w.deps.Now()
	cursors, err := laggingCursors(ctx, w.deps.DB, owner)
	if err != nil {
		return b, err
	}
	var oldest time.Time
	see := func(at time.Time) {
		if !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	if len(cursors) > 0 {
		heads, err := w.deps.Events.HeadsAmong(ctx, owner, slices.Collect(maps.Keys(cursors)))
		if err != nil {
			return b, err
		}
		for account, cursor := range cursors {
			b.Events += max(heads[account].LastSeq-cursor, 0)
		}
		first, err := w.deps.Events.OldestBehind(ctx, owner, cursors, org.ReadableSince(now, org.Unlimited))
		if err != nil {
			return b, err
		}
		for _, at := range first {
			see(at)
		}
	}
	retries, since, err := countRetries(ctx, w.deps.DB, owner)
	if err != nil {
		return b, err
	}
	b.Events += retries
	see(since)
	if !oldest.IsZero() {
		b.Lag = max(int64(now.Sub(oldest).Seconds()), 0)
	}
	endpoints, err := readEndpoints(ctx, w.deps.DB, owner, "")
	if err != nil {
		return b, err
	}
	for i := range endpoints {
		if !endpoints[i].Enabled {
			continue
		}
		var h EndpointHealth
		if err := w.addBacklog(ctx, &endpoints[i], &h, now); err != nil {
			return b, err
		}
		b.Events += h.Backlog
		b.Lag = max(b.Lag, h.Lag)
	}
	return b, nil
}

// States returns the state of each account's webhook; accounts without one are absent.
func (w *Webhooks) States(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account]string, error) {
	return statesOf(ctx, w.deps.DB, org, accounts)
}

// FindDelivery finds a delivery by its id alone.
func (w *Webhooks) FindDelivery(ctx context.Context, r Reader, one id.Delivery) (Delivery, error) {
	w.flushLog(ctx)
	found, err := findDelivery(ctx, w.deps.DB, r.Org, one, w.readableSince(r.Days))
	if err != nil {
		return found, err
	}
	if !r.canSee(found.Account) {
		return found, errNoDelivery()
	}
	if r.Accounts != nil && found.Endpoint != "" {
		if _, err := w.readAllowed(ctx, EndpointReader(r), found.Endpoint); isNoEndpoint(err) {
			return found, errNoDelivery()
		} else if err != nil {
			return found, err
		}
	}
	return found, nil
}

// DeliveriesOf lists the deliveries of events, newest first, starting after a position. next is where the next page
// starts; zero after the last page. Unknown events and those that are not stored have no deliveries.
func (w *Webhooks) DeliveriesOf(
	ctx context.Context, r Reader, wanted []id.Event, after Position, limit int,
) (list []Delivery, next Position, err error) {
	found, err := w.deps.Events.FindAny(ctx, r.Org, wanted)
	if err != nil {
		return nil, next, err
	}
	q := eventDeliveries{since: w.readableSince(r.Days), after: after}
	var first time.Time
	for _, e := range found {
		if !r.canSee(id.Account(e.Source)) {
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
	endpoints, err := readEndpoints(ctx, w.deps.DB, r.Org, "")
	if err != nil {
		return nil, next, err
	}
	for i := range endpoints {
		if EndpointReader(r).mayUse(endpoints[i].AccountIDs) {
			q.accounts = append(q.accounts, string(endpoints[i].ID))
		}
	}
	// Nothing is delivered before it has happened, but clocks differ a little.
	if first = first.Add(-time.Minute); first.After(q.since) {
		q.since = first
	}
	if q.after.At.IsZero() {
		q.after.At = w.deps.Now().Add(skew)
	}
	w.flushLog(ctx)
	list, err = listDeliveriesOfEvents(ctx, w.deps.DB, r.Org, q, limit+1) // One more shows whether there is another page.
	if err == nil {
		err = w.openSnippets(ctx, list)
	}
	if err != nil || len(list) <= limit {
		return list, next, err
	}
	list = list[:limit]
	return list, Position{At: list[limit-1].At, ID: list[limit-1].ID}, nil
}

func (r Reader) canSee(account id.Account) bool {
	return r.Accounts == nil || slices.Contains(r.Accounts, account)
}

func errNoDelivery() error {
	return problem.DeliveryNotFound.New("The organisation has no delivery with this id.")
}
