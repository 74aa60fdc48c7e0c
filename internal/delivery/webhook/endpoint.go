package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// This file has the endpoints of organisations, as their owners see and change them. An endpoint gets the events of many accounts,
// and those of the organisation itself. endpoint_feed.go sends them.

// PerAccount is the ordering of endpoints that send the events of an account one after the other. The other is Unordered.
const PerAccount Ordering = "account"

const (
	// MaxEndpoints is how many endpoints an organisation may have.
	MaxEndpoints = 20
	// MaxEndpointAccounts is how many accounts an endpoint may name.
	MaxEndpointAccounts = 1000
)

// Endpoint is an endpoint as callers see it.
type Endpoint struct {
	ID               id.Endpoint
	URL, Description string
	// Events, Accounts and Platforms select what is sent; nil means all.
	Events    []string
	Accounts  []id.Account
	Platforms []string
	Ordering  Ordering
	Enabled   bool
	// DisabledReason says why nothing is sent: paused, gone or failing. Empty while it is enabled.
	DisabledReason       string
	Last4                string
	CreatedAt, UpdatedAt time.Time
	// Secret is set only in the result of AddEndpoint and RotateEndpoint.
	Secret        secret.String
	PreviousUntil time.Time
	// Replaced is how many webhooks AddEndpoint has taken over.
	Replaced int
	Health   EndpointHealth
}

// EndpointHealth describes the delivery of events to an endpoint.
type EndpointHealth struct {
	State State
	// Backlog is how many events wait, those of accounts that do not keep up included. Late is how many such accounts there are, up to
	// 1,000; of the other events, 10,000 are counted.
	Backlog int64
	Late    int
	// Lag is the age of the oldest event that waits, in seconds.
	Lag                       int64
	LastStatus                int
	LastDelivery, LastSuccess time.Time
	LastError                 string
	FailingSince, NextAttempt time.Time
	// SuccessRate is the share of accepted attempts in the last 24 hours, of the last 10,000; nil if there were none.
	SuccessRate *float64
}

// NewEndpoint holds the settings of an endpoint to be created.
type NewEndpoint struct {
	URL, Description  string
	Events, Platforms []string
	Accounts          []id.Account
	// Ordering is PerAccount if it is empty.
	Ordering Ordering
	// Secret is generated if it is empty.
	Secret secret.String
	// Replace takes over the webhooks of accounts that have the same URL, except those that are paused.
	Replace bool
}

// EndpointChange holds what to change; nil leaves a setting as it is. Empty lists select everything.
type EndpointChange struct {
	URL, Description  *string
	Events, Platforms *[]string
	Accounts          *[]id.Account
	Ordering          *Ordering
	Enabled           *bool
}

// EndpointReader is who reads or changes endpoints. Accounts limits them to endpoints of these accounts; nil does not.
type EndpointReader struct {
	Org      id.Org
	Accounts []id.Account
	Days     int
}

// mayUse reports whether a caller that is limited to accounts may use an endpoint with a filter: it must not see events of others.
func (r EndpointReader) mayUse(filter []string) bool {
	return r.Accounts == nil || filter != nil && !slices.ContainsFunc(filter, func(one string) bool { return !slices.Contains(r.Accounts, id.Account(one)) })
}

// readAllowed reads an endpoint that the caller may use.
func (w *Webhooks) readAllowed(ctx context.Context, r EndpointReader, endpoint id.Endpoint) (endpointRecord, error) {
	found, err := readEndpoint(ctx, w.deps.DB, endpointRef{r.Org, endpoint})
	if err == nil && !r.mayUse(found.AccountIDs) {
		err = errNoEndpoint()
	}
	return found, err
}

// lockAllowed locks an endpoint for a change.
func lockAllowed(ctx context.Context, tx postgres.Tx, r EndpointReader, endpoint id.Endpoint) (endpointRecord, error) {
	found, err := lockEndpoint(ctx, tx, endpointRef{r.Org, endpoint})
	if err == nil && !r.mayUse(found.AccountIDs) {
		err = errNoEndpoint()
	}
	return found, err
}

// Endpoints lists the endpoints of an organisation that the caller may use, oldest first.
func (w *Webhooks) Endpoints(ctx context.Context, r EndpointReader) ([]Endpoint, error) {
	records, err := readEndpoints(ctx, w.deps.DB, r.Org, "")
	if err != nil {
		return nil, err
	}
	records = slices.DeleteFunc(records, func(one endpointRecord) bool { return !r.mayUse(one.AccountIDs) })
	return w.describeEndpoints(ctx, r.Org, records)
}

// Endpoint returns one endpoint.
func (w *Webhooks) Endpoint(ctx context.Context, r EndpointReader, endpoint id.Endpoint) (Endpoint, error) {
	found, err := w.readAllowed(ctx, r, endpoint)
	if err != nil {
		return Endpoint{}, err
	}
	list, err := w.describeEndpoints(ctx, r.Org, []endpointRecord{found})
	if err != nil {
		return Endpoint{}, err
	}
	return list[0], nil
}

const (
	// countedEvents and countedAccounts limit what the health of an endpoint looks at.
	countedEvents   = 10_000
	countedAccounts = 1000
)

func (w *Webhooks) describeEndpoints(ctx context.Context, owner id.Org, records []endpointRecord) ([]Endpoint, error) {
	if len(records) == 0 {
		return nil, nil
	}
	w.flushLog(ctx)
	names := make([]string, len(records))
	for i := range records {
		names[i] = string(records[i].ID)
	}
	now := w.deps.Now()
	last, err := lastDeliveries(ctx, w.deps.DB, owner, names, org.ReadableSince(now, org.Unlimited))
	if err != nil {
		return nil, err
	}
	rates, err := successRates(ctx, w.deps.DB, owner, names, now.Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	failing, err := readFailingAccounts(ctx, w.deps.DB, owner, names)
	if err != nil {
		return nil, err
	}
	list := make([]Endpoint, len(records))
	for i := range records {
		r := &records[i]
		list[i] = r.describe(now)
		h := &list[i].Health
		if d, ok := last[names[i]]; ok {
			h.LastStatus, h.LastError, h.LastDelivery, h.LastSuccess = d.status, d.failure, d.tried, d.succeeded
		}
		if some, ok := failing[names[i]]; ok && h.State == Healthy && isFailing(some.since, h.LastSuccess) {
			h.State, h.FailingSince, h.NextAttempt = Failing, some.since, some.next
		}
		if rate, ok := rates[names[i]]; ok {
			h.SuccessRate = &rate
		}
		if err := w.addBacklog(ctx, r, h, now); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *endpointRecord) describe(now time.Time) Endpoint {
	e := Endpoint{
		ID: r.ID, URL: r.URL, Description: r.Description, Events: r.Events, Platforms: r.Platforms, Ordering: r.Ordering,
		Enabled: true, Last4: r.Last4, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Health: EndpointHealth{State: StateOf(r.progress.State), FailingSince: r.progress.FailSince, NextAttempt: r.progress.NextAt},
	}
	for _, account := range r.AccountIDs {
		e.Accounts = append(e.Accounts, id.Account(account))
	}
	if r.Previous != nil && now.Before(r.PreviousUntil) {
		e.PreviousUntil = r.PreviousUntil
	}
	switch {
	case !r.Enabled:
		e.Enabled, e.DisabledReason, e.Health.State = false, string(lane.Paused), Paused
	case r.progress.State == lane.Disabled:
		e.Enabled, e.DisabledReason = false, r.progress.Reason
	}
	return e
}

// addBacklog counts what waits for an endpoint: events after its position, and those of accounts that lag.
func (w *Webhooks) addBacklog(ctx context.Context, r *endpointRecord, h *EndpointHealth, now time.Time) error {
	since := org.ReadableSince(now, org.Unlimited)
	waiting, err := w.deps.Events.OrgWaiting(ctx, r.Org, r.progress.After, since, now.Add(skew), countedEvents)
	if err != nil {
		return err
	}
	behind, err := endpointCursors(ctx, w.deps.DB, endpointRef{r.Org, r.ID}, countedAccounts)
	if err != nil {
		return err
	}
	var oldest time.Time
	see := func(at time.Time) {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	filter := newFeedFilter(w, r)
	for i := range waiting {
		one := &waiting[i]
		if _, counted := behind[one.Source]; counted || !filter.kinds.Match(one.Kind) {
			continue
		}
		wanted, err := filter.wantsSource(ctx, one.Source)
		if err != nil {
			return err
		}
		if wanted {
			h.Backlog += one.Events
			see(one.FirstAt)
		}
	}
	if h.Late = len(behind); h.Late > 0 {
		sources := make([]string, 0, len(behind))
		for source := range behind {
			sources = append(sources, source)
		}
		heads, err := w.deps.Events.HeadsAmong(ctx, r.Org, sources)
		if err != nil {
			return err
		}
		for source, cursor := range behind {
			h.Backlog += max(heads[source].LastSeq-cursor, 0)
		}
		first, err := w.deps.Events.OldestBehind(ctx, r.Org, behind, since)
		if err != nil {
			return err
		}
		for _, at := range first {
			see(at)
		}
	}
	if !oldest.IsZero() {
		h.Lag = max(int64(now.Sub(oldest).Seconds()), 0)
	}
	return nil
}

// AddEndpoint creates an endpoint, which gets the events from now on.
func (w *Webhooks) AddEndpoint(ctx context.Context, by audit.By, reader EndpointReader, in NewEndpoint) (Endpoint, error) {
	next := endpointRecord{ID: id.New[id.Endpoint](), Description: in.Description, Enabled: true}
	next.Org, next.Account, next.URL, next.Events, next.Platforms = reader.Org, string(next.ID), in.URL, in.Events, in.Platforms
	next.Ordering, next.AccountIDs = cmp.Or(in.Ordering, PerAccount), id.Texts(in.Accounts)
	if err := w.validateEndpoint(ctx, reader, &next, true); err != nil {
		return Endpoint{}, err
	}
	text := in.Secret
	if text.Empty() {
		text = sign.NewSecret()
	} else if err := checkSecret(text); err != nil {
		return Endpoint{}, err
	}
	if err := w.deps.Seal.Prepare(ctx, reader.Org, string(reader.Org)); err != nil {
		return Endpoint{}, sealProblem(err)
	}
	if err := w.sealSecret(ctx, &next.record, text); err != nil {
		return Endpoint{}, err
	}
	after, err := w.deps.Events.OrgHead(ctx, reader.Org)
	if err != nil {
		return Endpoint{}, err
	}
	var taken []replaced
	err = w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := addEndpoint(ctx, tx, &next, after, MaxEndpoints, w.deps.Now()); err != nil {
			return err
		}
		changes := endpointChanges(&endpointRecord{}, &next)
		if in.Replace {
			var err error
			if taken, err = w.replaceWebhooks(ctx, tx, &next); err != nil {
				return err
			}
			changes["replacedWebhooks"] = audit.Change{To: len(taken)}
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(next.ID), changes)
	})
	if err != nil {
		return Endpoint{}, err
	}
	for i := range taken {
		w.publishChange(ctx, reader.Org, id.Account(taken[i].account))
	}
	w.publishEndpoint(ctx, endpointRef{reader.Org, next.ID})
	e, err := w.Endpoint(ctx, reader, next.ID)
	e.Secret, e.Replaced = text, len(taken)
	return e, err
}

// replaceWebhooks takes over the webhooks with the URL of an endpoint. Nothing is lost: what is under way, and what was delivered
// in the last seconds, is sent to the endpoint again.
func (w *Webhooks) replaceWebhooks(ctx context.Context, tx postgres.Tx, r *endpointRecord) ([]replaced, error) {
	list, err := webhooksToReplace(ctx, tx, r)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	for i := range list {
		one := &list[i]
		if one.cursor == lane.Unknown {
			if one.cursor, err = w.deps.Events.SeqAt(ctx, r.Org, one.account, one.floor.Add(-w.deps.Config.Margin)); err != nil {
				return nil, err
			}
		}
		one.cursor = max(one.cursor, one.startSeq)
	}
	return list, takeOver(ctx, tx, r, list, w.deps.Now())
}

func checkSecret(text secret.String) error {
	if isValidSecret(text.Reveal()) {
		return nil
	}
	return problem.ValidationFailed.New("The signing secret cannot be used.").
		At("/signingSecret", "format", "must be 16 to 128 printable ASCII characters without spaces")
}

// validateEndpoint checks the settings of an endpoint. An empty list becomes nil, which selects everything.
func (w *Webhooks) validateEndpoint(ctx context.Context, reader EndpointReader, r *endpointRecord, checksURL bool) error {
	owner, err := w.deps.Orgs.Get(ctx, reader.Org)
	if err != nil {
		return err
	}
	filter, err := w.deps.Kinds.Filter(owner.Environment, r.Events)
	if err != nil {
		return err
	}
	if r.Events = filter.Names(); len(r.Events) == 0 {
		r.Events = nil
	}
	if len(r.AccountIDs) == 0 {
		r.AccountIDs = nil
	}
	if len(r.Platforms) == 0 {
		r.Platforms = nil
	}
	if !reader.mayUse(r.AccountIDs) {
		return problem.AccountNotAllowedForKey.New("This key is limited to accounts: accountIds must be some of them.")
	}
	if err := w.checkAccounts(ctx, r); err != nil {
		return err
	}
	known := w.deps.Platforms(owner.Environment)
	for i, one := range r.Platforms {
		if !slices.Contains(known, one) {
			return problem.ValidationFailed.New("The endpoint names a platform that does not exist.").
				At(fmt.Sprintf("/platforms/%d", i), "unknown", "must be one of "+strings.Join(known, ", "))
		}
	}
	if !checksURL {
		return nil
	}
	return w.deps.Public.CheckURL(ctx, r.URL)
}

// checkAccounts checks that the accounts of an endpoint exist, and removes repeats.
func (w *Webhooks) checkAccounts(ctx context.Context, r *endpointRecord) error {
	if r.AccountIDs == nil {
		return nil
	}
	slices.Sort(r.AccountIDs)
	r.AccountIDs = slices.Compact(r.AccountIDs)
	accounts := make([]id.Account, len(r.AccountIDs))
	for i, one := range r.AccountIDs {
		accounts[i] = id.Account(one)
	}
	found, err := w.deps.Accounts.Labels(ctx, r.Org, accounts)
	if err != nil {
		return err
	}
	for _, one := range accounts {
		if _, exists := found[one]; !exists {
			return problem.ValidationFailed.New("The endpoint names an account that the organisation does not have.").
				At("/accountIds", "unknown", "must be ids of accounts of the organisation")
		}
	}
	return nil
}

// ChangeEndpoint changes the settings of an endpoint. Whatever failed is tried again immediately.
func (w *Webhooks) ChangeEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint, c EndpointChange) (Endpoint, error) {
	if _, err := w.readAllowed(ctx, reader, endpoint); err != nil {
		return Endpoint{}, err
	}
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := lockAllowed(ctx, tx, reader, endpoint)
		if err != nil {
			return err
		}
		next := before
		c.apply(&next)
		if err := w.validateEndpoint(ctx, reader, &next, next.URL != before.URL); err != nil {
			return err
		}
		if err := changeEndpoint(ctx, tx, &next, w.deps.Now()); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(endpoint), endpointChanges(&before, &next))
	})
	if err != nil {
		return Endpoint{}, err
	}
	w.publishEndpoint(ctx, endpointRef{reader.Org, endpoint})
	return w.Endpoint(ctx, reader, endpoint)
}

func (c *EndpointChange) apply(r *endpointRecord) {
	if c.URL != nil {
		r.URL = *c.URL
	}
	if c.Description != nil {
		r.Description = *c.Description
	}
	if c.Events != nil {
		r.Events = *c.Events
	}
	if c.Platforms != nil {
		r.Platforms = *c.Platforms
	}
	if c.Accounts != nil {
		r.AccountIDs = id.Texts(*c.Accounts)
	}
	if c.Ordering != nil {
		r.Ordering = *c.Ordering
	}
	if c.Enabled != nil {
		r.Enabled = *c.Enabled
	}
}

func endpointChanges(before, after *endpointRecord) audit.Changes {
	changes := audit.Changes{}
	changes.Note("url", before.URL, after.URL)
	changes.Note("description", before.Description, after.Description)
	changes.Note("ordering", string(before.Ordering), string(after.Ordering))
	changes.Note("enabled", before.Enabled, after.Enabled)
	changes.Note("signingSecretLast4", before.Last4, after.Last4)
	for name, lists := range map[string][2][]string{
		"events": {before.Events, after.Events}, "accountIds": {before.AccountIDs, after.AccountIDs}, "platforms": {before.Platforms, after.Platforms},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			changes[name] = audit.Change{From: lists[0], To: lists[1]}
		}
	}
	return changes
}

// DeleteEndpoint deletes an endpoint. Events that wait for it are not delivered.
func (w *Webhooks) DeleteEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint) error {
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := lockAllowed(ctx, tx, reader, endpoint)
		if err != nil {
			return err
		}
		if err := deleteEndpoint(ctx, tx, endpointRef{reader.Org, endpoint}, w.deps.Now()); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(endpoint), audit.Changes{"url": {From: before.URL}})
	})
	if err != nil {
		return err
	}
	w.publishEndpoint(ctx, endpointRef{reader.Org, endpoint})
	return nil
}

// publishEndpoint makes the node that runs an endpoint read it again.
func (w *Webhooks) publishEndpoint(ctx context.Context, at endpointRef) {
	w.publish(ctx, string(at.ID), at.Org)
	w.reloadEndpoint(at)
	signal(w.sideDue)
}

// RotateEndpoint generates a new signing secret. For the time of overlap, deliveries are signed with the old one as well.
func (w *Webhooks) RotateEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint, overlap time.Duration) (Endpoint, error) {
	next := endpointRecord{ID: endpoint}
	next.Org, next.Account = reader.Org, string(endpoint)
	text := sign.NewSecret()
	if _, err := w.readAllowed(ctx, reader, endpoint); err != nil {
		return Endpoint{}, err
	}
	if err := w.sealSecret(ctx, &next.record, text); err != nil {
		return Endpoint{}, err
	}
	now := w.deps.Now()
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := lockAllowed(ctx, tx, reader, endpoint)
		if err != nil {
			return err
		}
		if err := rotateEndpoint(ctx, tx, &next, now.Add(overlap), now); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(endpoint), audit.Changes{
			"signingSecretLast4": {From: before.Last4, To: next.Last4}, "overlapSec": {To: int(overlap.Seconds())},
		})
	})
	if err != nil {
		return Endpoint{}, err
	}
	w.publishEndpoint(ctx, endpointRef{reader.Org, endpoint})
	e, err := w.Endpoint(ctx, reader, endpoint)
	e.Secret = text
	return e, err
}

// TestEndpoint sends a test event to an endpoint and returns the response.
func (w *Webhooks) TestEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint) (Tested, error) {
	if err := w.maySendTest(ctx, reader.Org); err != nil {
		return Tested{}, err
	}
	owner, err := w.deps.Orgs.Get(ctx, reader.Org)
	if err != nil {
		return Tested{}, err
	}
	var r endpointRecord
	err = w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if r, err = lockAllowed(ctx, tx, reader, endpoint); err != nil {
			return err
		}
		now := w.deps.Now()
		level, err := r.addTest(now)
		if err != nil {
			return err
		}
		if err := setEndpointTest(ctx, tx, endpointRef{reader.Org, endpoint}, level, now); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(endpoint), audit.Changes{})
	})
	if err != nil {
		return Tested{}, err
	}
	return w.sendTest(ctx, by, &r.record, event.Envelope{Meta: event.Meta{Sandbox: owner.Environment.IsTest()}})
}

// EndpointRange selects the events of a replay to an endpoint.
type EndpointRange struct {
	FromTime, ToTime time.Time
	// Accounts and Events select events; nil means all that the endpoint gets, and all kinds.
	Accounts []id.Account
	Events   []string
	// DryRun only counts the events.
	DryRun bool
}

// EndpointReplay is a replay to an endpoint.
type EndpointReplay struct {
	// ID is empty after a dry run.
	ID string
	// Events is how many events it sends, counted among the first countedEvents of the period.
	Events int64
}

// ReplayEndpoint delivers stored events again that the endpoint's accounts and platforms select.
func (w *Webhooks) ReplayEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint, in EndpointRange) (EndpointReplay, error) {
	r, err := w.readAllowed(ctx, reader, endpoint)
	if err != nil {
		return EndpointReplay{}, err
	}
	owner, err := w.deps.Orgs.Get(ctx, reader.Org)
	if err != nil {
		return EndpointReplay{}, err
	}
	filter, err := w.deps.Kinds.Filter(owner.Environment, in.Events)
	if err != nil {
		return EndpointReplay{}, err
	}
	end, err := w.deps.Events.OrgHead(ctx, reader.Org)
	if err != nil {
		return EndpointReplay{}, err
	}
	e := endpointErrand{
		at: endpointRef{reader.Org, endpoint}, kind: sideReplay, untilTx: end.Tx, from: in.FromTime, until: in.ToTime, accounts: id.Texts(in.Accounts),
	}
	if e.events = r.Events; len(filter.Names()) > 0 {
		e.events = filter.Names()
	}
	out := EndpointReplay{}
	if out.Events, err = w.countReplay(ctx, &r, &e, owner.Limits.EventRetentionDays); err != nil || in.DryRun {
		return out, err
	}
	out.ID, err = w.orderErrand(ctx, by, reader, e, audit.Changes{
		"fromTime": {To: stamp.Text(in.FromTime)}, "accountIds": {To: e.accounts}, "events": {To: e.events},
	})
	return out, err
}

// countReplay counts the events that a replay sends, among the first countedEvents of its period.
func (w *Webhooks) countReplay(ctx context.Context, r *endpointRecord, e *endpointErrand, days int) (n int64, err error) {
	since, until := w.readableSince(days), w.deps.Now().Add(skew)
	if e.from.After(since) {
		since = e.from
	}
	if !e.until.IsZero() {
		until = e.until
	}
	found, err := w.deps.Events.OrgWaiting(ctx, r.Org, event.Position{}, since, until, countedEvents)
	if err != nil {
		return 0, err
	}
	filter := newFeedFilter(w, r)
	filter.kinds = event.StoredFilter(e.events)
	for i := range found {
		one := event.Stored{Source: found[i].Source, Kind: found[i].Kind}
		if e.accounts != nil && !slices.Contains(e.accounts, one.Source) {
			continue
		}
		wanted, err := filter.wants(ctx, &one)
		if err != nil {
			return 0, err
		}
		if wanted {
			n += found[i].Events
		}
	}
	return n, nil
}

func (w *Webhooks) orderErrand(ctx context.Context, by audit.By, reader EndpointReader, e endpointErrand, changes audit.Changes) (string, error) {
	e.id, e.since = newSideID(), w.deps.Now()
	e.nextAt = e.since
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if _, err := lockAllowed(ctx, tx, reader, e.at.ID); err != nil {
			return err
		}
		if err := addErrand(ctx, tx, e); err != nil {
			return err
		}
		return w.deps.Audit.Record(ctx, tx, reader.Org, by, string(e.at.ID), changes)
	})
	if err != nil {
		return "", err
	}
	w.publish(ctx, string(e.at.ID)+sideSuffix, reader.Org)
	signal(w.sideDue)
	return e.id, nil
}

// EndpointDeliveries lists deliveries to an endpoint, newest first. next is where the next page starts; zero after the last page.
func (w *Webhooks) EndpointDeliveries(ctx context.Context, reader EndpointReader, endpoint id.Endpoint, f LogFilter, limit int) ([]Delivery, Position, error) {
	if _, err := w.readAllowed(ctx, reader, endpoint); err != nil {
		return nil, Position{}, err
	}
	return w.deliveriesOf(ctx, ref{reader.Org, id.Account(endpoint)}, f, reader.Days, limit)
}

// EndpointDelivery returns one delivery to an endpoint.
func (w *Webhooks) EndpointDelivery(ctx context.Context, reader EndpointReader, endpoint id.Endpoint, one id.Delivery) (Delivery, error) {
	if _, err := w.readAllowed(ctx, reader, endpoint); err != nil {
		return Delivery{}, err
	}
	w.flushLog(ctx)
	d, err := getDelivery(ctx, w.deps.DB, ref{reader.Org, id.Account(endpoint)}, one, w.readableSince(reader.Days))
	if err != nil {
		return Delivery{}, err
	}
	return w.OpenSnippet(ctx, d)
}

// Sent is a request as it was sent, without what is secret in it: the signatures.
type Sent struct {
	URL    string
	Header http.Header
	// Body is nil if the event is no longer stored, or never was.
	Body []byte
}

// Request returns the request of a delivery to an endpoint, with the endpoint's current URL.
func (w *Webhooks) Request(ctx context.Context, reader EndpointReader, d *Delivery) (Sent, error) {
	r, err := w.readAllowed(ctx, reader, d.Endpoint)
	if err != nil {
		return Sent{}, err
	}
	ev := event.Stored{Org: reader.Org, ID: d.Event, Kind: d.Kind, Seq: d.Seq}
	if d.Seq > 0 {
		found, err := w.deps.Events.Find(ctx, reader.Org, d.source(), d.Event)
		if p, ok := errors.AsType[*problem.Error](err); ok && p.Kind.Code == problem.EventNotFound.Code {
			err = nil
		}
		if err != nil {
			return Sent{}, err
		}
		ev.Body = found.Body
	}
	e := endpoint{current: sign.New(secret.New("")), url: r.URL}
	meta := deliveryMeta{attempt: d.Attempt, cause: d.Cause, late: d.Cause == CauseRetry}
	header := e.header(&ev, meta, d.At.Add(-d.Took))
	header.Del("X-Webhook-Signature")
	header.Del("Webhook-Signature")
	return Sent{URL: r.URL, Header: header, Body: ev.Body}, nil
}

// RedeliverToEndpoint sends the event of a delivery once more. It returns the original delivery.
func (w *Webhooks) RedeliverToEndpoint(ctx context.Context, by audit.By, reader EndpointReader, endpoint id.Endpoint, one id.Delivery) (Delivery, error) {
	d, err := w.EndpointDelivery(ctx, reader, endpoint, one)
	if err != nil {
		return Delivery{}, err
	}
	if d.Seq == 0 {
		return Delivery{}, problem.EventNotFound.New("The event is not stored, as tests and ephemeral events are not, so it cannot be sent again.")
	}
	if _, err := w.deps.Events.Find(ctx, reader.Org, d.source(), d.Event); err != nil {
		return Delivery{}, err
	}
	again := endpointErrand{at: endpointRef{reader.Org, endpoint}, kind: sideRedeliver, source: d.source(), seq: d.Seq}
	_, err = w.orderErrand(ctx, by, reader, again, audit.Changes{"eventId": {To: d.Event}, "deliveryId": {To: d.ID}})
	return d, err
}
