package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Ordering says whether events are delivered one after the other.
type Ordering string

// The orderings.
const (
	Strict    Ordering = "strict"
	Unordered Ordering = "none"
)

// Webhook is where an account's events are sent.
type Webhook struct {
	Account id.Account
	URL     string
	// Events is nil for all.
	Events               []string
	Ordering             Ordering
	MaxInFlight          int
	CreatedAt, UpdatedAt time.Time
	Last4                string
	// Secret is there when the webhook was written, and empty otherwise.
	Secret secret.String
	// PreviousUntil is how long the secret before signs as well; zero if it does not.
	PreviousUntil time.Time
	Health        Health
}

// Health is how its delivery goes.
type Health struct {
	// State is live for one that is up to date.
	State lane.State
	// Reason says why it is disabled.
	Reason                    string
	LastStatus                int
	LastDelivery, LastSuccess time.Time
	FailingSince, NextAttempt time.Time
	// LastError says why the last delivery had no answer.
	LastError             string
	Cursor, Head, Backlog int64
	// Lag is the age, in seconds, of the oldest event that is not delivered; 0 if all are.
	Lag int64
}

// Change is what a webhook is written with.
type Change struct {
	URL string
	// Events is nil for all.
	Events []string
	// Secret is empty to keep the one there is, or to have one made.
	Secret secret.String
	// Ordering and MaxInFlight are empty and 0 for the defaults.
	Ordering    Ordering
	MaxInFlight int
}

const (
	minSecret, maxSecret = 16, 128
	// MaxInFlight is how many deliveries of an unordered webhook can be under way.
	MaxInFlight     = 32
	defaultInFlight = 8
)

// Get shows an account's webhook.
func (w *Webhooks) Get(ctx context.Context, org id.Org, account id.Account) (Webhook, error) {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	return w.show(ctx, org, account)
}

// show reads one webhook and how its delivery goes.
func (w *Webhooks) show(ctx context.Context, org id.Org, account id.Account) (Webhook, error) {
	found, err := w.Describe(ctx, org, []id.Account{account})
	if err != nil {
		return Webhook{}, err
	}
	hook, ok := found[account]
	if !ok {
		return Webhook{}, errNoWebhook()
	}
	return hook, nil
}

// Describe reads webhooks of an org and how their deliveries go. Accounts without a webhook are left out.
func (w *Webhooks) Describe(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account]Webhook, error) {
	records, err := some(ctx, w.DB.Pool(), org, accounts)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	names := make([]string, len(records))
	for i := range records {
		names[i] = records[i].Account
	}
	heads, err := w.Events.HeadsAmong(ctx, org, names)
	if err != nil {
		return nil, err
	}
	now := w.Now()
	last, err := lastDeliveries(ctx, w.DB.Pool(), org, names, now.AddDate(0, 0, -MaxDays))
	if err != nil {
		return nil, err
	}
	found := make(map[id.Account]Webhook, len(records))
	waiting := map[string]int64{}
	for i := range records {
		r := &records[i]
		hook := r.describe(heads[r.Account].LastSeq, now)
		if hook.Health.Backlog > 0 {
			waiting[r.Account] = hook.Health.Cursor
		}
		if d, ok := last[r.Account]; ok {
			hook.Health.LastStatus, hook.Health.LastError, hook.Health.LastDelivery, hook.Health.LastSuccess = d.status, d.failure, d.tried, d.succeeded
		}
		found[hook.Account] = hook
	}
	oldest, err := w.Events.OldestBehind(ctx, org, waiting, event.Since(now, event.MaxDays))
	if err != nil {
		return nil, err
	}
	for account, at := range oldest {
		hook := found[id.Account(account)]
		hook.Health.Lag = max(int64(now.Sub(at).Seconds()), 0)
		found[hook.Account] = hook
	}
	return found, nil
}

// describe is what callers see of a webhook's row and its lane. head is the account's newest event.
func (r *record) describe(head int64, now time.Time) Webhook {
	hook := Webhook{
		Account: id.Account(r.Account), URL: r.URL, Events: r.Events, Ordering: r.Ordering, MaxInFlight: r.MaxInFlight, CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt, Last4: r.Last4, Health: Health{State: lane.Live, Cursor: head, Head: head},
	}
	if r.Previous != nil && now.Before(r.PreviousUntil) {
		hook.PreviousUntil = r.PreviousUntil
	}
	if r.lane == nil {
		return hook
	}
	h := &hook.Health
	h.State, h.Reason, h.FailingSince, h.NextAttempt = r.lane.State, r.lane.Reason, r.lane.FailSince, r.lane.NextAt
	if r.lane.Cursor >= 0 {
		h.Cursor = r.lane.Cursor
		h.Backlog = max(head-r.lane.Cursor, 0)
	}
	return hook
}

func (w *Webhooks) address(org id.Org, account string, version int64) seal.Address {
	return seal.Address{Org: org, Holder: account, Purpose: seal.PurposeWebhook, Version: version}
}

// open opens the current secret of a webhook.
func (w *Webhooks) open(ctx context.Context, r *record) (secret.String, error) {
	text, err := w.Seal.Open(ctx, w.address(r.Org, r.Account, r.SecretVersion), r.Secret)
	return text, sealProblem(err)
}

func sealProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seal.ErrShredded): // it is being disconnected
		return problem.AccountNotFound.New("The organisation has no account with this id.")
	case errors.Is(err, seal.ErrUnavailable):
		return problem.ServiceUnavailable.New("The keys of this account cannot be read now.").After(5).Because(err)
	}
	return fmt.Errorf("seal of a webhook's secret: %w", err)
}

// hook makes what a lane needs of a row. gone means that the account's key is destroyed.
func (w *Webhooks) hook(ctx context.Context, r *record, days int) (hook *lane.Hook, gone bool, err error) {
	text, err := w.Seal.Open(ctx, w.address(r.Org, r.Account, r.SecretVersion), r.Secret)
	if err != nil {
		return nil, errors.Is(err, seal.ErrShredded), err
	}
	// One that was saved under other rules has an empty target, to which nothing can be sent.
	target, _ := w.Public.Target(r.URL)
	e := &endpoint{
		org: r.Org, account: id.Account(r.Account), url: r.URL, target: target, current: sign.New(text), days: days,
	}
	if r.Previous != nil && w.Now().Before(r.PreviousUntil) {
		before, err := w.Seal.Open(ctx, w.address(r.Org, r.Account, r.PreviousVersion), r.Previous)
		if err != nil {
			return nil, errors.Is(err, seal.ErrShredded), err
		}
		e.previous, e.until = sign.New(before), r.PreviousUntil
	}
	hook = &lane.Hook{Gen: r.Gen, StartSeq: r.StartSeq, Host: target.Host(), AtOnce: 1, Row: r.lane, More: e}
	if r.Ordering == Unordered {
		hook.AtOnce = r.MaxInFlight
	}
	if filter := event.StoredFilter(r.Events); !filter.Everything() {
		hook.Match = filter.Match
	}
	return hook, false, nil
}

// Put registers an account's webhook, or replaces it. What failed is tried again at once.
func (w *Webhooks) Put(ctx context.Context, by audit.By, org id.Org, account id.Account, c Change) (Webhook, error) {
	if err := w.check(ctx, org, account, &c); err != nil {
		return Webhook{}, err
	}
	head, err := w.begin(ctx, org, account)
	if err != nil {
		return Webhook{}, err
	}
	next := record{
		Org: org, Account: string(account), URL: c.URL, Events: c.Events, Ordering: c.Ordering, MaxInFlight: c.MaxInFlight, StartSeq: head.LastSeq,
	}
	text, fresh, err := w.secretFor(ctx, &next, c.Secret)
	if err != nil {
		return Webhook{}, err
	}
	now := w.Now()
	err = w.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lock(ctx, tx, org, account)
		if err != nil {
			return err
		}
		next := next
		if !exists && !fresh {
			return problem.ServiceUnavailable.New("The webhook was deleted just now. Repeat the request.").After(1)
		}
		keep := exists && !fresh
		if keep {
			next.Secret, next.SecretVersion, next.Last4 = before.Secret, before.SecretVersion, before.Last4
		}
		written, err := put(ctx, tx, &next, keep, now)
		if err != nil {
			return err
		}
		if exists {
			err = renewLane(ctx, tx, &written, now)
		} else {
			// Whoever has the account's bucket may not have noticed when the first events come.
			err = order(ctx, tx, &written, laneChange{state: lane.Draining, cursor: written.StartSeq}, now)
		}
		if err != nil {
			return err
		}
		return w.Audit.Record(ctx, tx, org, by, string(account), putChanges(&before, &written, exists))
	})
	if err != nil {
		return Webhook{}, err
	}
	w.tell(ctx, org, account)
	return w.answer(ctx, org, account, text)
}

// How long a new webhook waits for what happened before it, and how often it looks.
const (
	beginWithin = time.Second
	beginEvery  = 20 * time.Millisecond
)

// begin is where a new webhook of an account begins: behind everything that has happened to it. An event of our own may have happened
// and not be stored yet, such as that the account was connected.
func (w *Webhooks) begin(ctx context.Context, org id.Org, account id.Account) (event.Head, error) {
	tick := time.NewTicker(beginEvery)
	defer tick.Stop()
	over := time.NewTimer(beginWithin)
	defer over.Stop()
	for waiting := true; waiting; {
		var err error
		if waiting, err = w.Outbox.Pending(ctx, org, account); err != nil {
			return event.Head{}, err
		}
		if !waiting {
			break
		}
		select {
		case <-ctx.Done():
			return event.Head{}, context.Cause(ctx)
		case <-over.C:
			waiting = false
		case <-tick.C:
		}
	}
	return w.Events.Head(ctx, org, string(account))
}

// answer is a webhook that was written, with its secret.
func (w *Webhooks) answer(ctx context.Context, org id.Org, account id.Account, text secret.String) (Webhook, error) {
	hook, err := w.show(ctx, org, account)
	hook.Secret = text
	return hook, err
}

// check says what is wrong with a webhook, and fills in what was left out.
func (w *Webhooks) check(ctx context.Context, org id.Org, account id.Account, c *Change) error {
	a, err := w.Accounts.Get(ctx, org, account)
	if err != nil {
		return err
	}
	filter, err := w.Kinds.Filter(a.Environment, c.Events)
	if err != nil {
		return err
	}
	c.Events = filter.Names()
	if len(c.Events) == 0 {
		c.Events = nil
	}
	if !c.Secret.Empty() && !soundSecret(c.Secret.Reveal()) {
		return problem.ValidationFailed.New("The signing secret cannot be used.").
			At("/signingSecret", "format", "must be 16 to 128 printable ASCII characters without spaces")
	}
	if c.Ordering == "" {
		c.Ordering = Strict
	}
	switch {
	case c.Ordering == Strict:
		c.MaxInFlight = 1
	case c.MaxInFlight == 0:
		c.MaxInFlight = defaultInFlight
	}
	return w.Public.CheckURL(ctx, c.URL)
}

func soundSecret(text string) bool {
	return len(text) >= minSecret && len(text) <= maxSecret && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// secretFor is the secret that a webhook will have. A fresh one is sealed into the record.
func (w *Webhooks) secretFor(ctx context.Context, next *record, given secret.String) (text secret.String, fresh bool, err error) {
	if given.Empty() {
		before, err := get(ctx, w.DB.Pool(), next.Org, id.Account(next.Account))
		if err == nil {
			text, err = w.open(ctx, &before)
			return text, false, err
		}
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.WebhookNotFound.Code {
			return text, false, err
		}
		given = sign.NewSecret()
	}
	return given, true, w.seal(ctx, next, given)
}

const lastShown = 4

func (w *Webhooks) seal(ctx context.Context, r *record, text secret.String) error {
	r.SecretVersion = w.Now().UnixMicro() // no two of one account are sealed within a microsecond
	sealed, err := w.Seal.Seal(ctx, w.address(r.Org, r.Account, r.SecretVersion), text)
	if err != nil {
		return sealProblem(err)
	}
	plain := text.Reveal()
	r.Secret, r.Last4 = sealed, plain[len(plain)-lastShown:]
	return nil
}

func putChanges(before, after *record, existed bool) audit.Changes {
	changes := audit.Changes{}
	if !existed {
		before = &record{}
	}
	changes.Note("url", before.URL, after.URL)
	changes.Note("ordering", string(before.Ordering), string(after.Ordering))
	changes.Note("maxInFlight", before.MaxInFlight, after.MaxInFlight)
	changes.Note("signingSecretLast4", before.Last4, after.Last4)
	if !slices.Equal(before.Events, after.Events) {
		changes["events"] = audit.Change{From: before.Events, To: after.Events}
	}
	return changes
}

// Delete removes an account's webhook and drops what waits for it.
func (w *Webhooks) Delete(ctx context.Context, by audit.By, org id.Org, account id.Account) error {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return err
	}
	err := w.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lock(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if _, err := remove(ctx, tx, org, account, w.Now()); err != nil {
			return err
		}
		return w.Audit.Record(ctx, tx, org, by, string(account), audit.Changes{"url": {From: before.URL}})
	})
	if err != nil {
		return err
	}
	w.tell(ctx, org, account)
	return nil
}

// Leave removes the webhook of an account that is deleted, in the transaction of that.
func (w *Webhooks) Leave(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error {
	return erase(ctx, tx, org, account)
}

// Purge removes what was sent to and answered by the webhook of a deleted account: what is left of its deliveries are ids, kinds, times
// and statuses. It purges about as many as most says and reports whether all are.
func (w *Webhooks) Purge(ctx context.Context, org id.Org, account id.Account, most int) (done bool, err error) {
	// A webhook that was being written when the account was taken out of use may have come back.
	if err := erase(ctx, w.DB.Pool(), org, account); err != nil {
		return false, err
	}
	w.tell(ctx, org, account)
	return purgeDeliveries(ctx, w.DB.Pool(), ref{org, account}, most)
}

// Rotate makes a new secret. The old one signs as well for a while.
func (w *Webhooks) Rotate(ctx context.Context, by audit.By, org id.Org, account id.Account, overlap time.Duration) (Webhook, error) {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	next := record{Org: org, Account: string(account)}
	text := sign.NewSecret()
	if err := w.seal(ctx, &next, text); err != nil {
		return Webhook{}, err
	}
	now := w.Now()
	err := w.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lock(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if _, err := rotate(ctx, tx, &next, now.Add(overlap), now); err != nil {
			return err
		}
		return w.Audit.Record(ctx, tx, org, by, string(account), audit.Changes{
			"signingSecretLast4": {From: before.Last4, To: next.Last4}, "overlapSec": {To: int(overlap.Seconds())},
		})
	})
	if err != nil {
		return Webhook{}, err
	}
	w.tell(ctx, org, account)
	return w.answer(ctx, org, account, text)
}

// Pause stops delivery. Events gather in the log meanwhile.
func (w *Webhooks) Pause(ctx context.Context, by audit.By, org id.Org, account id.Account) (Webhook, error) {
	return w.direct(ctx, by, org, account, func(row *lane.Row) (lane.State, int64, bool) {
		return lane.Paused, lane.Unknown, row == nil || row.State != lane.Paused
	})
}

// Resume goes on delivering: from where it stopped, or behind a place of the caller's choice. Now is behind everything there is.
type Resume struct {
	// Moved means that After is where to go on.
	Moved bool
	After int64
	Now   bool
}

// Resume starts delivery again that was paused or disabled, or has it go on from another place.
func (w *Webhooks) Resume(ctx context.Context, by audit.By, org id.Org, account id.Account, from Resume) (Webhook, error) {
	head, err := w.Events.Head(ctx, org, string(account))
	if err != nil {
		return Webhook{}, err
	}
	return w.direct(ctx, by, org, account, func(row *lane.Row) (lane.State, int64, bool) {
		switch {
		case from.Now:
			return lane.Draining, head.LastSeq, true
		case from.Moved:
			return lane.Draining, min(from.After, head.LastSeq), true
		}
		return lane.Draining, lane.Unknown, row != nil && !row.NextAt.IsZero() || stopped(row)
	})
}

// direct gives a lane an order, unless it would change nothing.
func (w *Webhooks) direct(ctx context.Context, by audit.By, org id.Org, account id.Account, decide func(*lane.Row) (lane.State, int64, bool)) (Webhook, error) {
	if _, err := w.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	now := w.Now()
	err := w.DB.Tx(ctx, func(tx postgres.Tx) error {
		_, exists, err := lock(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		row, err := laneOf(ctx, tx, org, account)
		if err != nil {
			return err
		}
		state, cursor, changes := decide(row)
		if !changes {
			return nil
		}
		written, err := renew(ctx, tx, org, account, now)
		if err != nil {
			return err
		}
		if err := order(ctx, tx, &written, laneChange{state: state, cursor: cursor}, now); err != nil {
			return err
		}
		noted := audit.Changes{}
		from := string(lane.Live)
		if row != nil {
			from = string(row.State)
		}
		noted.Note("state", from, string(state))
		if cursor >= 0 {
			noted["after"] = audit.Change{To: event.FormatCursor(cursor)}
		}
		return w.Audit.Record(ctx, tx, org, by, string(account), noted)
	})
	if err != nil {
		return Webhook{}, err
	}
	w.tell(ctx, org, account)
	return w.show(ctx, org, account)
}
