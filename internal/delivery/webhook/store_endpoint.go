package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// isEndpoint reports whether the owner of a webhook is an endpoint and not an account.
func isEndpoint(name string) bool { return strings.HasPrefix(name, "whe_") }

// endpointRef identifies an endpoint.
type endpointRef struct {
	Org id.Org
	ID  id.Endpoint
}

// endpointRecord is the row of an endpoint. The id is in record.Account.
type endpointRecord struct {
	record
	ID          id.Endpoint
	Description string
	AccountIDs  []string
	Platforms   []string
	Enabled     bool
	progress    lane.FeedRow
}

func endpointRecordOf(r *db.WebhookEndpoint) endpointRecord {
	return endpointRecord{
		record: record{
			Org: r.OrgID, Account: r.ID, URL: r.Url, Events: r.Events, Ordering: Ordering(r.Ordering), SecretVersion: r.SecretVersion,
			PreviousVersion: r.PreviousVersion, Secret: r.Secret, Previous: r.Previous, Last4: r.SecretLast4, PreviousUntil: timeOf(r.PreviousUntil),
			Gen: r.Gen, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, TestLevel: r.TestLevel, TestAt: r.TestAt,
		},
		ID: id.Endpoint(r.ID), Description: r.Description, AccountIDs: r.AccountIds, Platforms: r.Platforms, Enabled: r.Enabled,
	}
}

func (r *endpointRecord) addProgress(p *db.WebhookEndpointProgress) {
	r.progress = lane.FeedRow{
		Org: r.Org, Endpoint: r.ID, Gen: r.Gen, After: event.Position{Tx: p.AfterTx, ID: id.Event(p.AfterID)}, State: lane.State(p.State),
		FailSince: timeOf(p.FailSince), FailCount: int(p.FailCount), NextAt: timeOf(p.NextAt), LastStatus: int(p.LastStatus), LastError: p.LastError,
		Reason: p.Reason,
	}
}

func errNoEndpoint() error {
	return problem.EndpointNotFound.New("The organisation has no endpoint with this id.")
}

// readEndpoints reads the endpoints of an organisation with their progress; only one of them unless its id is empty.
func readEndpoints(ctx context.Context, q db.DBTX, org id.Org, only id.Endpoint) ([]endpointRecord, error) {
	rows, err := db.New(q).Endpoints(ctx, db.EndpointsParams{OrgID: org, ID: string(only)})
	if err != nil {
		return nil, fmt.Errorf("read the endpoints of %s: %w", org, err)
	}
	list := make([]endpointRecord, len(rows))
	for i := range rows {
		list[i] = endpointRecordOf(&rows[i].WebhookEndpoint)
		list[i].addProgress(&rows[i].WebhookEndpointProgress)
	}
	return list, nil
}

func readEndpoint(ctx context.Context, q db.DBTX, at endpointRef) (endpointRecord, error) {
	if at.ID == "" {
		return endpointRecord{}, errNoEndpoint()
	}
	list, err := readEndpoints(ctx, q, at.Org, at.ID)
	if err == nil && len(list) == 0 {
		err = errNoEndpoint()
	}
	if err != nil {
		return endpointRecord{}, err
	}
	return list[0], nil
}

func endpointOrNotFound(row db.WebhookEndpoint, err error, at endpointRef) (endpointRecord, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return endpointRecord{}, errNoEndpoint()
	}
	if err != nil {
		return endpointRecord{}, fmt.Errorf("endpoint %s: %w", at.ID, err)
	}
	return endpointRecordOf(&row), nil
}

func lockEndpoint(ctx context.Context, tx postgres.Tx, at endpointRef) (endpointRecord, error) {
	row, err := db.New(tx).LockEndpoint(ctx, db.LockEndpointParams{OrgID: at.Org, ID: string(at.ID)})
	return endpointOrNotFound(row, err, at)
}

// addEndpoint writes a new endpoint, which gets the events after a position. It fails if the organisation has most of them.
func addEndpoint(ctx context.Context, tx postgres.Tx, r *endpointRecord, after event.Position, most int, now time.Time) error {
	q := db.New(tx)
	if err := q.SerializeEndpoints(ctx, string(r.Org)); err != nil {
		return fmt.Errorf("lock the endpoints of %s: %w", r.Org, err)
	}
	n, err := q.CountEndpoints(ctx, r.Org)
	if err != nil {
		return fmt.Errorf("count the endpoints of %s: %w", r.Org, err)
	}
	if n >= int64(most) {
		return problem.LimitReached.Newf("The organisation has %d webhook endpoints, which is the maximum.", n).With("limit", most)
	}
	_, err = q.AddEndpoint(ctx, db.AddEndpointParams{
		OrgID: r.Org, ID: string(r.ID), Bucket: int16(id.Bucket(string(r.ID))), Url: r.URL, Description: r.Description, Events: r.Events,
		AccountIds: r.AccountIDs, Platforms: r.Platforms, Ordering: string(r.Ordering), SecretVersion: r.SecretVersion, Secret: r.Secret,
		SecretLast4: r.Last4, Now: now,
	})
	if err == nil {
		err = q.AddEndpointProgress(ctx, db.AddEndpointProgressParams{
			OrgID: r.Org, EndpointID: string(r.ID), AfterTx: after.Tx, AfterID: string(after.ID), Now: now,
		})
	}
	if err != nil {
		return fmt.Errorf("write the endpoint %s: %w", r.ID, err)
	}
	return nil
}

// changeEndpoint writes the settings of an endpoint. Whatever of it fails is tried again immediately.
func changeEndpoint(ctx context.Context, tx postgres.Tx, r *endpointRecord, now time.Time) error {
	q := db.New(tx)
	_, err := q.ChangeEndpoint(ctx, db.ChangeEndpointParams{
		OrgID: r.Org, ID: string(r.ID), Url: r.URL, Description: r.Description, Events: r.Events, AccountIds: r.AccountIDs, Platforms: r.Platforms,
		Ordering: string(r.Ordering), Enabled: r.Enabled, Now: now,
	})
	if err == nil {
		err = q.RenewEndpointProgress(ctx, db.RenewEndpointProgressParams{OrgID: r.Org, EndpointID: string(r.ID), Now: now})
	}
	if err == nil {
		err = q.RenewEndpointLanes(ctx, db.RenewEndpointLanesParams{OrgID: r.Org, EndpointID: string(r.ID), Now: now})
	}
	if err != nil {
		return fmt.Errorf("write the endpoint %s: %w", r.ID, err)
	}
	return nil
}

// replaced is the webhook of an account that an endpoint takes over. Everything up to cursor is done; Unknown means everything
// stored up to floor.
type replaced struct {
	account          string
	startSeq, cursor int64
	floor            time.Time
}

// webhooksToReplace locks and reads the webhooks with the URL of an endpoint.
func webhooksToReplace(ctx context.Context, tx postgres.Tx, r *endpointRecord) ([]replaced, error) {
	rows, err := db.New(tx).WebhooksToReplace(ctx, db.WebhooksToReplaceParams{OrgID: r.Org, Url: r.URL, Among: r.AccountIDs})
	if err != nil {
		return nil, fmt.Errorf("read the webhooks that %s replaces: %w", r.ID, err)
	}
	return postgres.Convert(rows, func(row db.WebhooksToReplaceRow) replaced {
		return replaced{row.AccountID, row.StartSeq, row.Cursor, row.FloorAt}
	}), nil
}

// takeOver makes an endpoint continue where webhooks have stopped, and deletes them.
func takeOver(ctx context.Context, tx postgres.Tx, r *endpointRecord, list []replaced, now time.Time) error {
	sources, cursors := make([]string, len(list)), make([]int64, len(list))
	for i := range list {
		sources[i], cursors[i] = list[i].account, list[i].cursor
	}
	q := db.New(tx)
	err := q.TakeOverLanes(ctx, db.TakeOverLanesParams{OrgID: r.Org, EndpointID: string(r.ID), Sources: sources, Cursors: cursors, Now: now})
	if err == nil {
		err = q.TakeOverRetries(ctx, db.TakeOverRetriesParams{EndpointID: string(r.ID), Bucket: int16(id.Bucket(string(r.ID))), OrgID: r.Org, Sources: sources})
	}
	if err == nil {
		err = q.DeleteReplaced(ctx, db.DeleteReplacedParams{Now: now, OrgID: r.Org, Sources: sources})
	}
	if err == nil {
		err = q.DeleteReplacedLanes(ctx, db.DeleteReplacedLanesParams{OrgID: r.Org, Sources: sources})
	}
	if err == nil {
		err = q.DeleteReplacedErrands(ctx, db.DeleteReplacedErrandsParams{OrgID: r.Org, Sources: sources})
	}
	if err != nil {
		return fmt.Errorf("take over webhooks by %s: %w", r.ID, err)
	}
	return nil
}

func rotateEndpoint(ctx context.Context, tx postgres.Tx, r *endpointRecord, until, now time.Time) error {
	_, err := db.New(tx).RotateEndpoint(ctx, db.RotateEndpointParams{
		OrgID: r.Org, ID: string(r.ID), PreviousUntil: &until, Secret: r.Secret, SecretVersion: r.SecretVersion, SecretLast4: r.Last4, Now: now,
	})
	if err != nil {
		return fmt.Errorf("write the endpoint %s: %w", r.ID, err)
	}
	return nil
}

// deleteEndpoint marks an endpoint deleted and deletes everything that belongs to it.
func deleteEndpoint(ctx context.Context, tx postgres.Tx, at endpointRef, now time.Time) error {
	q := db.New(tx)
	n, err := q.DeleteEndpoint(ctx, db.DeleteEndpointParams{OrgID: at.Org, ID: string(at.ID), Now: now})
	if err == nil && n == 0 {
		return errNoEndpoint()
	}
	if err == nil {
		err = q.DeleteEndpointProgress(ctx, db.DeleteEndpointProgressParams{OrgID: at.Org, EndpointID: string(at.ID)})
	}
	if err == nil {
		err = q.DeleteEndpointLanes(ctx, db.DeleteEndpointLanesParams{OrgID: at.Org, EndpointID: string(at.ID)})
	}
	if err == nil {
		err = q.DeleteEndpointErrands(ctx, db.DeleteEndpointErrandsParams{OrgID: at.Org, EndpointID: string(at.ID)})
	}
	if err != nil {
		return fmt.Errorf("delete the endpoint %s: %w", at.ID, err)
	}
	return nil
}

// eraseFromEndpoints deletes what waits of a deleted account for the organisation's endpoints.
func eraseFromEndpoints(ctx context.Context, q db.DBTX, org id.Org, account id.Account) error {
	err := db.New(q).DeleteSourceLanes(ctx, db.DeleteSourceLanesParams{OrgID: org, Source: string(account)})
	if err == nil {
		err = db.New(q).DeleteSourceErrands(ctx, db.DeleteSourceErrandsParams{OrgID: org, Source: string(account)})
	}
	if err != nil {
		return fmt.Errorf("erase %s from endpoints: %w", account, err)
	}
	return nil
}

func setEndpointTest(ctx context.Context, tx postgres.Tx, at endpointRef, level float64, now time.Time) error {
	err := db.New(tx).SetEndpointTest(ctx, db.SetEndpointTestParams{OrgID: at.Org, ID: string(at.ID), TestAt: now, TestLevel: level})
	if err != nil {
		return fmt.Errorf("count a test of %s: %w", at.ID, err)
	}
	return nil
}

func endpointsOfBucket(ctx context.Context, q db.DBTX, bucket int) ([]endpointRef, error) {
	rows, err := db.New(q).EndpointsOfBucket(ctx, int16(bucket))
	if err != nil {
		return nil, fmt.Errorf("read the endpoints of bucket %d: %w", bucket, err)
	}
	list := make([]endpointRef, len(rows))
	for i, r := range rows {
		list[i] = endpointRef{r.OrgID, id.Endpoint(r.ID)}
	}
	return list, nil
}

// changedEndpoint is an endpoint and when it last changed.
type changedEndpoint struct {
	endpointRef
	at time.Time
}

func changedEndpoints(ctx context.Context, q db.DBTX, since time.Time) (list []changedEndpoint, newest time.Time, err error) {
	rows, err := db.New(q).ChangedEndpoints(ctx, db.ChangedEndpointsParams{Since: since, MaxRows: maxChanged})
	if err != nil {
		return nil, since, fmt.Errorf("find changed endpoints: %w", err)
	}
	for _, r := range rows {
		list = append(list, changedEndpoint{endpointRef{r.OrgID, id.Endpoint(r.ID)}, r.ChangedAt})
		newest = r.ChangedAt
	}
	return list, newest, nil
}

func endpointLanes(ctx context.Context, q db.DBTX, at endpointRef) ([]lane.Row, error) {
	rows, err := db.New(q).EndpointLanes(ctx, db.EndpointLanesParams{OrgID: at.Org, EndpointID: string(at.ID)})
	if err != nil {
		return nil, fmt.Errorf("read the lanes of %s: %w", at.ID, err)
	}
	list := make([]lane.Row, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = lane.Row{
			Org: r.OrgID, Source: r.Source, State: lane.State(r.State), Cursor: r.Cursor, FailSince: timeOf(r.FailSince), FailCount: int(r.FailCount),
			NextAt: timeOf(r.NextAt), LastStatus: int(r.LastStatus), LastError: r.LastError, Reason: r.Reason, HeadTries: int(r.HeadTries),
			HeadSince: timeOf(r.HeadSince),
		}
	}
	return list, nil
}

// endpointCursors returns how far the accounts with a row have got, of at most most accounts.
func endpointCursors(ctx context.Context, q db.DBTX, at endpointRef, most int) (map[string]int64, error) {
	rows, err := db.New(q).EndpointCursors(ctx, db.EndpointCursorsParams{OrgID: at.Org, EndpointID: string(at.ID), MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("read the lanes of %s: %w", at.ID, err)
	}
	cursors := make(map[string]int64, len(rows))
	for _, r := range rows {
		cursors[r.Source] = r.Cursor
	}
	return cursors, nil
}

// saveFeeds writes the progress of endpoints and the rows of their lanes. It skips those that a newer lease holds. Of those that
// were changed in the meantime, only positions are written.
func saveFeeds(ctx context.Context, q *db.Queries, list []lane.FeedSave, ours map[int]bool, now time.Time) error {
	p := db.SaveProgressParams{Now: now}
	for i := range list {
		s := &list[i]
		if !ours[s.Bucket] {
			continue
		}
		p.OrgIds = append(p.OrgIds, string(s.Org))
		p.EndpointIds = append(p.EndpointIds, string(s.Endpoint))
		p.Gens = append(p.Gens, s.Gen)
		p.AfterTxs = append(p.AfterTxs, s.After.Tx)
		p.AfterIds = append(p.AfterIds, string(s.After.ID))
		p.States = append(p.States, string(s.State))
		p.FailSinces = append(p.FailSinces, s.FailSince)
		p.FailCounts = append(p.FailCounts, int32(s.FailCount))
		p.NextAts = append(p.NextAts, s.NextAt)
		p.LastStatuses = append(p.LastStatuses, int16(s.LastStatus))
		p.LastErrors = append(p.LastErrors, s.LastError)
		p.Reasons = append(p.Reasons, s.Reason)
	}
	if len(p.OrgIds) == 0 {
		return nil
	}
	saved, err := q.SaveProgress(ctx, p)
	if err != nil {
		return fmt.Errorf("write the progress of %d endpoints: %w", len(p.OrgIds), err)
	}
	isCurrent := make(map[id.Endpoint]bool, len(saved))
	for _, one := range saved {
		isCurrent[id.Endpoint(one.EndpointID)] = one.IsCurrent
	}
	rows, gone := db.SaveEndpointLanesParams{Now: now}, db.RemoveEndpointLanesParams{}
	for i := range list {
		s := &list[i]
		current, saved := isCurrent[s.Endpoint]
		if !saved {
			continue
		}
		for j := range s.Rows {
			r := &s.Rows[j]
			if !current { // the change of the endpoint lets every account start afresh
				r = &lane.Row{Source: r.Source, State: lane.Draining, Cursor: r.Cursor}
			}
			rows.OrgIds = append(rows.OrgIds, string(s.Org))
			rows.EndpointIds = append(rows.EndpointIds, string(s.Endpoint))
			rows.Sources = append(rows.Sources, r.Source)
			rows.States = append(rows.States, string(r.State))
			rows.Cursors = append(rows.Cursors, r.Cursor)
			rows.FailSinces = append(rows.FailSinces, r.FailSince)
			rows.FailCounts = append(rows.FailCounts, int32(r.FailCount))
			rows.NextAts = append(rows.NextAts, r.NextAt)
			rows.LastStatuses = append(rows.LastStatuses, int16(r.LastStatus))
			rows.LastErrors = append(rows.LastErrors, r.LastError)
			rows.Reasons = append(rows.Reasons, r.Reason)
			rows.HeadTries = append(rows.HeadTries, int32(r.HeadTries))
			rows.HeadSinces = append(rows.HeadSinces, r.HeadSince)
		}
		for _, source := range s.Removed {
			gone.OrgIds = append(gone.OrgIds, string(s.Org))
			gone.EndpointIds = append(gone.EndpointIds, string(s.Endpoint))
			gone.Sources = append(gone.Sources, source)
		}
	}
	if len(rows.OrgIds) > 0 {
		err = q.SaveEndpointLanes(ctx, rows)
	}
	if err == nil && len(gone.OrgIds) > 0 {
		err = q.RemoveEndpointLanes(ctx, gone)
	}
	if err != nil {
		return fmt.Errorf("write lanes of endpoints: %w", err)
	}
	return nil
}

func addEndpointErrand(ctx context.Context, q *db.Queries, e endpointErrand) error {
	err := q.AddEndpointErrand(ctx, db.AddEndpointErrandParams{
		OrgID: e.at.Org, EndpointID: string(e.at.ID), ID: e.id, Kind: string(e.kind), Source: e.source, Seq: e.seq, AfterTx: e.after.Tx,
		AfterID: string(e.after.ID), UntilTx: e.untilTx, FromAt: optionalTime(e.from), UntilAt: optionalTime(e.until), AccountIds: e.accounts,
		Events: e.events, Tries: int32(e.attempt), Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return fmt.Errorf("write a side delivery of %s: %w", e.at.ID, err)
	}
	return nil
}

func addErrand(ctx context.Context, q db.DBTX, e endpointErrand) error {
	return addEndpointErrand(ctx, db.New(q), e)
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func dueEndpointErrands(ctx context.Context, q db.DBTX, buckets []int16, now time.Time, most int) ([]endpointErrand, error) {
	rows, err := db.New(q).DueEndpointErrands(ctx, db.DueEndpointErrandsParams{Buckets: buckets, Now: now, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("find due side deliveries of endpoints: %w", err)
	}
	list := make([]endpointErrand, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = endpointErrand{
			at: endpointRef{r.OrgID, id.Endpoint(r.EndpointID)}, id: r.ID, kind: sideKind(r.Kind), source: r.Source, seq: r.Seq,
			after: event.Position{Tx: r.AfterTx, ID: id.Event(r.AfterID)}, untilTx: r.UntilTx, from: timeOf(r.FromAt), until: timeOf(r.UntilAt),
			accounts: r.AccountIds, events: r.Events, attempt: int(r.Tries), since: r.Since, nextAt: r.NextAt,
		}
	}
	return list, nil
}

// saveEndpointErrand writes the progress of a side delivery and reports whether it still exists.
func saveEndpointErrand(ctx context.Context, q db.DBTX, e *endpointErrand) (bool, error) {
	n, err := db.New(q).MoveEndpointErrand(ctx, db.MoveEndpointErrandParams{
		OrgID: e.at.Org, EndpointID: string(e.at.ID), ID: e.id, AfterTx: e.after.Tx, AfterID: string(e.after.ID), Tries: int32(e.attempt),
		Since: e.since, NextAt: e.nextAt,
	})
	if err != nil {
		return false, fmt.Errorf("write the progress of a side delivery of %s: %w", e.at.ID, err)
	}
	return n > 0, nil
}

func deleteEndpointErrand(ctx context.Context, q db.DBTX, e *endpointErrand) error {
	err := db.New(q).EndEndpointErrand(ctx, db.EndEndpointErrandParams{OrgID: e.at.Org, EndpointID: string(e.at.ID), ID: e.id})
	if err != nil {
		return fmt.Errorf("delete a side delivery of %s: %w", e.at.ID, err)
	}
	return nil
}

// successRates returns the share of accepted attempts of endpoints since a time. Those without an attempt are not in the result.
func successRates(ctx context.Context, q db.DBTX, org id.Org, endpoints []string, since time.Time) (map[string]float64, error) {
	rows, err := db.New(q).SuccessRates(ctx, db.SuccessRatesParams{EndpointIds: endpoints, OrgID: org, Since: since})
	if err != nil {
		return nil, fmt.Errorf("read the success of endpoints of %s: %w", org, err)
	}
	rates := make(map[string]float64, len(rows))
	for _, r := range rows {
		rates[r.EndpointID] = float64(r.Accepted) / float64(r.Attempts)
	}
	return rates, nil
}
