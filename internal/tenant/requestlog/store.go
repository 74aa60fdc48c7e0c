package requestlog

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog/internal/db"
)

// readPage chooses the query by the most selective index for the filter.
func readPage(ctx context.Context, q db.DBTX, r Reader, f Filter, after Position, limit int) ([]Entry, error) {
	f.StatusTo = cmp.Or(f.StatusTo, 999)
	p := db.PageParams{
		OrgID: r.Org, Since: f.Since, BeforeAt: after.At, BeforeRequest: string(after.Request), EveryAccount: r.Accounts == nil,
		Accounts: id.Texts(r.Accounts), Operation: f.Operation, Problem: f.Problem, KeyID: string(f.Key), Source: string(f.Source),
		StatusFrom: f.StatusFrom, StatusTo: f.StatusTo, MaxRows: int32(limit),
		EventID: string(f.Event), Reason: f.Reason, MinTookUs: f.MinTook.Microseconds(), OnlyCounted: f.Counted, Text: strings.ToLower(f.Text),
	}
	var (
		rows []db.RequestLog
		err  error
	)
	switch {
	case f.Account != "":
		rows, err = db.New(q).PageOf(ctx, db.PageOfParams{
			OrgID: p.OrgID, AccountID: f.Account, Since: p.Since, BeforeAt: p.BeforeAt, BeforeRequest: p.BeforeRequest,
			Operation: p.Operation, Problem: p.Problem, KeyID: p.KeyID, Source: p.Source, StatusFrom: p.StatusFrom, StatusTo: p.StatusTo, MaxRows: p.MaxRows,
			EventID: p.EventID, Reason: p.Reason, MinTookUs: p.MinTookUs, OnlyCounted: p.OnlyCounted, Text: p.Text,
		})
	case f.isNotFromAPI():
		rows, err = db.New(q).PageElsewhere(ctx, db.PageElsewhereParams(p))
	case f.isFailedOnly():
		rows, err = db.New(q).PageFailed(ctx, db.PageFailedParams(p))
	default:
		rows, err = db.New(q).Page(ctx, p)
	}
	return postgres.Convert(rows, fromRow), err
}

func readRequest(ctx context.Context, q db.DBTX, r Reader, request id.Request, since time.Time) (Entry, error) {
	row, err := db.New(q).Get(ctx, db.GetParams{
		OrgID: r.Org, RequestID: request, Since: since, EveryAccount: r.Accounts == nil, Accounts: id.Texts(r.Accounts),
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return Entry{}, logNotFound()
	}
	return fromRow(row), err
}

func readFailures(ctx context.Context, q db.DBTX, r Reader, f FailureFilter, limit int) ([]Failure, error) {
	rows, err := db.New(q).Failures(ctx, db.FailuresParams{
		OrgID: r.Org, EveryAccount: r.Accounts == nil, Accounts: id.Texts(r.Accounts), Source: string(f.Source),
		Since: f.Since, Until: f.Until, MaxRows: int32(limit),
	})
	return postgres.Convert(rows, func(row db.FailuresRow) Failure {
		return Failure{
			Problem: row.Problem, Reason: row.Reason, Operation: row.Operation, Status: int(row.Status), Count: row.Calls,
			First: row.FirstAt, Last: row.LastAt, Accounts: row.Accounts, LastRequest: row.RequestID, Retryable: row.Retryable,
		}
	}), err
}

func fromRow(r db.RequestLog) Entry {
	return Entry{
		Org: r.OrgID, At: r.At, Request: r.RequestID, Key: r.KeyID, Account: r.AccountID,
		Operation: r.Operation, Verb: r.Verb, Status: r.Status, Took: time.Duration(r.TookUs) * time.Microsecond,
		Upstream: time.Duration(r.UpstreamUs) * time.Microsecond, Problem: r.Problem, Retryable: r.Retryable,
		UpstreamCode: upstreamCode(r), In: r.BytesIn, Out: r.BytesOut, Replayed: r.Replayed, DryRun: r.DryRun,
		Source: Source(r.Source), Reason: r.Reason, Fields: Fields(r.Fields), Members: Members(r.Members), Events: Events(r.Events), Free: r.IsFree,
	}
}

// upstreamCode returns the platform's code. Rows of older versions have it as a number only.
func upstreamCode(r db.RequestLog) string {
	if r.UpstreamText == "" && r.UpstreamCode != 0 {
		return strconv.Itoa(r.UpstreamCode)
	}
	return r.UpstreamText
}

// isOutcomeUnknown reports whether a statement may have been carried out although it returned err.
func isOutcomeUnknown(err error) bool {
	_, answered := errors.AsType[*pgconn.PgError](err)
	return !answered && !pgconn.SafeToRetry(err)
}

// isRejected reports whether the database rejected the data of a row (SQLSTATE classes 22 and 23), so that a repeat
// fails in the same way.
func isRejected(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}
