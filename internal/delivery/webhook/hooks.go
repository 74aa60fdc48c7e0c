package webhook

import (
	"cmp"
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
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Ordering is the order in which a webhook gets events. Strict delivers one event after the other.
type Ordering string

// The orderings.
const (
	Strict    Ordering = "strict"
	Unordered Ordering = "none"
)

// Webhook is the webhook of an account, as callers see it.
type Webhook struct {
	Account id.Account
	URL     string
	// Events are the kinds that the webhook wants; nil means all.
	Events               []string
	Ordering             Ordering
	MaxInFlight          int
	CreatedAt, UpdatedAt time.Time
	Last4                string
	// Secret is set only in the result of Put and Rotate.
	Secret secret.String
	// PreviousUntil is until when the previous secret signs as well; zero if it does not.
	PreviousUntil time.Time
	Health        Health
}

// Health describes the delivery of a webhook's events.
type Health struct {
	// State is lane.Live for a webhook that keeps up.
	State lane.State
	// Reason explains why the webhook is disabled or paused.
	Reason                    string
	LastStatus                int
	LastDelivery, LastSuccess time.Time
	FailingSince, NextAttempt time.Time
	// LastError says why the last delivery got no response; empty if it got one.
	LastError string
	// Cursor is the last event that is done, Head the account's newest event, Backlog an upper bound on the events
	// between them that wait.
	Cursor, Head, Backlog int64
	// Lag is the age in seconds of the oldest event that is not delivered; 0 if all are.
	Lag int64
}

// Change holds the settings of a webhook for Put.
type Change struct {
	URL string
	// Events are the kinds that the webhook wants; nil means all.
	Events []string
	// Secret replaces the signing secret. If empty, the webhook keeps its secret, or gets a generated one.
	Secret secret.String
	// Ordering and MaxInFlight have defaults for their zero values: Strict, and 8 for Unordered.
	Ordering    Ordering
	MaxInFlight int
}

const (
	minSecret, maxSecret = 16, 128
	// MaxInFlight is the highest limit on concurrent deliveries of an unordered webhook.
	MaxInFlight     = 32
	defaultInFlight = 8
)

func (w *Webhooks) Get(ctx context.Context, org id.Org, account id.Account) (Webhook, error) {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	return w.describeOne(ctx, org, account)
}

// describeOne is Describe for one account. It is an error if the account has no webhook.
func (w *Webhooks) describeOne(ctx context.Context, org id.Org, account id.Account) (Webhook, error) {
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

// Describe returns the webhooks of accounts with their health. Accounts without a webhook are absent.
func (w *Webhooks) Describe(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]Webhook, error) {
	records, err := readRecords(ctx, w.deps.DB, owner, accounts)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	names := make([]string, len(records))
	for i := range records {
		names[i] = records[i].Account
	}
	heads, err := w.deps.Events.HeadsAmong(ctx, owner, names)
	if err != nil {
		return nil, err
	}
	now := w.deps.Now()
	since := org.ReadableSince(now, org.Unlimited)
	last, err := lastDeliveries(ctx, w.deps.DB, owner, names, since)
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
	oldest, err := w.deps.Events.OldestBehind(ctx, owner, waiting, since)
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

// describe returns a webhook from its row and that of its lane. head is the account's newest event.
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

func (w *Webhooks) sealAddress(org id.Org, account string, version int64) seal.Address {
	if isEndpoint(account) {
		account = string(org) // an endpoint outlives the accounts whose events it gets
	}
	return seal.Address{Org: org, Holder: account, Purpose: seal.PurposeWebhook, Version: version}
}

// openSecret decrypts the current secret of a webhook.
func (w *Webhooks) openSecret(ctx context.Context, r *record) (secret.String, error) {
	text, err := w.deps.Seal.Open(ctx, w.sealAddress(r.Org, r.Account, r.SecretVersion), r.Secret)
	return text, sealProblem(err)
}

func sealProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seal.ErrShredded): // the account is being deleted
		return problem.AccountNotFound.New("The organisation has no account with this id.")
	case errors.Is(err, seal.ErrUnavailable):
		return problem.ServiceUnavailable.New("The keys of this account cannot be read now.").After(5).Because(err)
	}
	return fmt.Errorf("seal of a webhook's secret: %w", err)
}

// buildHook converts a row to the hook of a lane. days is how many days of events the organisation can read. gone means
// that the account's key has been destroyed, so the webhook no longer exists.
func (w *Webhooks) buildHook(ctx context.Context, r *record, days int) (hook *lane.Hook, gone bool, err error) {
	text, err := w.deps.Seal.Open(ctx, w.sealAddress(r.Org, r.Account, r.SecretVersion), r.Secret)
	if err != nil {
		return nil, errors.Is(err, seal.ErrShredded), err
	}
	// A URL that the current rules refuse has an empty target, to which nothing can be sent.
	target, _ := w.deps.Public.Target(r.URL)
	e := &endpoint{
		org: r.Org, url: r.URL, target: target, current: sign.New(text), days: days,
	}
	if isEndpoint(r.Account) {
		e.id = id.Endpoint(r.Account)
	}
	if r.Previous != nil && w.deps.Now().Before(r.PreviousUntil) {
		before, err := w.deps.Seal.Open(ctx, w.sealAddress(r.Org, r.Account, r.PreviousVersion), r.Previous)
		if err != nil {
			return nil, errors.Is(err, seal.ErrShredded), err
		}
		e.previous, e.until = sign.New(before), r.PreviousUntil
	}
	hook = &lane.Hook{Gen: r.Gen, StartSeq: r.StartSeq, Host: target.Host(), MaxInFlight: 1, Row: r.lane, Endpoint: e}
	if r.Ordering == Unordered {
		hook.MaxInFlight = r.MaxInFlight
	}
	if filter := event.StoredFilter(r.Events); !filter.Everything() {
		hook.Match = filter.Match
	}
	return hook, false, nil
}

// Put creates or replaces the webhook of an account. A lane that failed retries immediately.
func (w *Webhooks) Put(ctx context.Context, by audit.By, org id.Org, account id.Account, c Change) (Webhook, error) {
	if err := w.validate(ctx, org, account, &c); err != nil {
		return Webhook{}, err
	}
	head, err := w.startingHead(ctx, org, account)
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
	now := w.deps.Now()
	err = w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lockRecord(ctx, tx, org, account)
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
		written, err := putRecord(ctx, tx, &next, keep, now)
		if err != nil {
			return err
		}
		if exists {
			err = renewLane(ctx, tx, &written, now)
		} else {
			// The first events may be stored before the node that holds the account's bucket knows of the webhook. The
			// row says where to start.
			err = setLane(ctx, tx, &written, laneChange{state: lane.Draining, cursor: written.StartSeq}, now)
		}
		if err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, org, by, string(account), putChanges(&before, &written, exists))
	})
	if err != nil {
		return Webhook{}, err
	}
	w.publishChange(ctx, org, account)
	return w.describeWithSecret(ctx, org, account, text)
}

const (
	// outboxWait is how long a new webhook waits for earlier events of the service, outboxPoll how often it checks.
	outboxWait = time.Second
	outboxPoll = 20 * time.Millisecond
)

// startingHead returns the head of an account's log, after which a new webhook starts. It waits a moment for the
// service's own events that are not stored yet, such as that the account was connected: the webhook must not get them.
func (w *Webhooks) startingHead(ctx context.Context, org id.Org, account id.Account) (event.Head, error) {
	tick := time.NewTicker(outboxPoll)
	defer tick.Stop()
	over := time.NewTimer(outboxWait)
	defer over.Stop()
	for waiting := true; waiting; {
		var err error
		if waiting, err = w.deps.Outbox.Pending(ctx, org, account); err != nil {
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
	return w.deps.Events.Head(ctx, org, string(account))
}

// describeWithSecret returns a webhook that was just written.
func (w *Webhooks) describeWithSecret(
	ctx context.Context, org id.Org, account id.Account, text secret.String,
) (Webhook, error) {
	hook, err := w.describeOne(ctx, org, account)
	hook.Secret = text
	return hook, err
}

// validate checks the settings of a webhook and sets the defaults.
func (w *Webhooks) validate(ctx context.Context, org id.Org, account id.Account, c *Change) error {
	a, err := w.deps.Accounts.Get(ctx, org, account)
	if err != nil {
		return err
	}
	filter, err := w.deps.Kinds.Filter(a.Environment, c.Events)
	if err != nil {
		return err
	}
	c.Events = filter.Names()
	if len(c.Events) == 0 {
		c.Events = nil
	}
	if !c.Secret.Empty() && !isValidSecret(c.Secret.Reveal()) {
		return problem.ValidationFailed.New("The signing secret cannot be used.").
			At("/signingSecret", "format", "must be 16 to 128 printable ASCII characters without spaces")
	}
	c.Ordering = cmp.Or(c.Ordering, Strict)
	switch {
	case c.Ordering == Strict:
		c.MaxInFlight = 1
	case c.MaxInFlight == 0:
		c.MaxInFlight = defaultInFlight
	}
	return w.deps.Public.CheckURL(ctx, c.URL)
}

func isValidSecret(text string) bool {
	return len(text) >= minSecret && len(text) <= maxSecret && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// secretFor returns the secret that a webhook will have: the given one, its current one, or a generated one. A fresh
// secret is sealed into the record.
func (w *Webhooks) secretFor(ctx context.Context, next *record, given secret.String) (text secret.String, fresh bool, err error) {
	if given.Empty() {
		before, err := getRecord(ctx, w.deps.DB, next.Org, id.Account(next.Account))
		if err == nil {
			text, err = w.openSecret(ctx, &before)
			return text, false, err
		}
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.WebhookNotFound.Code {
			return text, false, err
		}
		given = sign.NewSecret()
	}
	return given, true, w.sealSecret(ctx, next, given)
}

// lastShown is how many characters of a secret are shown.
const lastShown = 4

func (w *Webhooks) sealSecret(ctx context.Context, r *record, text secret.String) error {
	r.SecretVersion = w.deps.Now().UnixMicro() // unique: no two secrets of one account are sealed within a microsecond
	sealed, err := w.deps.Seal.Seal(ctx, w.sealAddress(r.Org, r.Account, r.SecretVersion), text)
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

// Delete deletes the webhook of an account. Events that wait for it are not delivered.
func (w *Webhooks) Delete(ctx context.Context, by audit.By, org id.Org, account id.Account) error {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return err
	}
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lockRecord(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if _, err := deleteRecord(ctx, tx, org, account, w.deps.Now()); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, org, by, string(account), audit.Changes{"url": {From: before.URL}})
	})
	if err != nil {
		return err
	}
	w.publishChange(ctx, org, account)
	return nil
}

// Leave deletes the webhook of an account in the transaction that deletes the account.
func (w *Webhooks) Leave(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error {
	if err := eraseRecord(ctx, tx, org, account); err != nil {
		return err
	}
	return eraseFromEndpoints(ctx, tx, org, account)
}

// Purge removes the URL and the logged responses of a deleted account's webhook. Its deliveries keep ids, kinds, times
// and statuses. It purges about most deliveries and reports whether that was all.
func (w *Webhooks) Purge(ctx context.Context, org id.Org, account id.Account, most int) (done bool, err error) {
	// A Put that ran while the account was being deleted may have created the webhook again.
	if err := eraseRecord(ctx, w.deps.DB, org, account); err != nil {
		return false, err
	}
	if err := eraseFromEndpoints(ctx, w.deps.DB, org, account); err != nil {
		return false, err
	}
	w.publishChange(ctx, org, account)
	return purgeDeliveries(ctx, w.deps.DB, ref{org, account}, most)
}

// Rotate generates a new signing secret. For the time of overlap, deliveries are signed with the old one as well.
func (w *Webhooks) Rotate(ctx context.Context, by audit.By, org id.Org, account id.Account, overlap time.Duration) (Webhook, error) {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	next := record{Org: org, Account: string(account)}
	text := sign.NewSecret()
	if err := w.sealSecret(ctx, &next, text); err != nil {
		return Webhook{}, err
	}
	now := w.deps.Now()
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, exists, err := lockRecord(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		if _, err := rotateSecret(ctx, tx, &next, now.Add(overlap), now); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, org, by, string(account), audit.Changes{
			"signingSecretLast4": {From: before.Last4, To: next.Last4}, "overlapSec": {To: int(overlap.Seconds())},
		})
	})
	if err != nil {
		return Webhook{}, err
	}
	w.publishChange(ctx, org, account)
	return w.describeWithSecret(ctx, org, account, text)
}

// Pause stops delivery. Events wait in the log until Resume. A lane that an operator has paused becomes paused by its
// owner, so that an operator does not resume it.
func (w *Webhooks) Pause(ctx context.Context, by audit.By, org id.Org, account id.Account) (Webhook, error) {
	return w.orderLane(ctx, by, org, account, func(row *lane.Row) (lane.State, int64, bool) {
		paused := row != nil && row.State == lane.Paused && row.Reason != lane.ReasonOperator
		return lane.Paused, lane.Unknown, !paused
	})
}

// Resume says where delivery continues. The zero value continues where it stopped.
type Resume struct {
	// Moved continues after the event After.
	Moved bool
	After int64
	// Now skips the backlog.
	Now bool
}

// Resume restarts delivery that was paused or disabled, or continues it from another event.
func (w *Webhooks) Resume(ctx context.Context, by audit.By, org id.Org, account id.Account, from Resume) (Webhook, error) {
	head, err := w.deps.Events.Head(ctx, org, string(account))
	if err != nil {
		return Webhook{}, err
	}
	return w.orderLane(ctx, by, org, account, func(row *lane.Row) (lane.State, int64, bool) {
		switch {
		case from.Now:
			return lane.Draining, head.LastSeq, true
		case from.Moved:
			return lane.Draining, min(from.After, head.LastSeq), true
		}
		return lane.Draining, lane.Unknown, row != nil && !row.NextAt.IsZero() || isStopped(row)
	})
}

// reasonAfter returns the reason of a lane that is set to a state. A disabled lane that is started again keeps its
// reason until it works: it then reports its recovery.
func reasonAfter(row *lane.Row, to lane.State) string {
	if to == lane.Draining && row != nil && row.Reason != lane.ReasonOperator {
		return row.Reason
	}
	return ""
}

// orderLane changes the state of a lane, and its cursor unless that is lane.Unknown. decide gets the lane's row and
// returns the new state, the new cursor, and whether anything changes.
func (w *Webhooks) orderLane(
	ctx context.Context, by audit.By, org id.Org, account id.Account, decide func(*lane.Row) (lane.State, int64, bool),
) (Webhook, error) {
	if _, err := w.deps.Accounts.Get(ctx, org, account); err != nil {
		return Webhook{}, err
	}
	now := w.deps.Now()
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		_, exists, err := lockRecord(ctx, tx, org, account)
		if err != nil {
			return err
		}
		if !exists {
			return errNoWebhook()
		}
		row, err := getLane(ctx, tx, org, account)
		if err != nil {
			return err
		}
		state, cursor, changes := decide(row)
		if !changes {
			return nil
		}
		written, err := bumpGen(ctx, tx, org, account, now)
		if err != nil {
			return err
		}
		change := laneChange{state: state, cursor: cursor, reason: reasonAfter(row, state)}
		if err := setLane(ctx, tx, &written, change, now); err != nil {
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
		return w.deps.Audit.Record(ctx, tx, org, by, string(account), noted)
	})
	if err != nil {
		return Webhook{}, err
	}
	w.publishChange(ctx, org, account)
	return w.describeOne(ctx, org, account)
}
