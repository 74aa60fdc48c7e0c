package requestlog

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// copyColumns lists the columns in the order of addRow.
const copyColumns = `(at, took_us, upstream_us, bytes_in, bytes_out, upstream_code, status, retryable, replayed, dry_run,
	org_id, request_id, key_id, account_id, operation, verb, problem, source, reason, upstream_text, fields, members, is_free, events)`

const copyColumnCount = 24

// copyRows writes all rows or none.
func copyRows(ctx context.Context, db *postgres.DB, rows *postgres.Rows) error {
	return db.Tx(ctx, func(tx postgres.Tx) error { return rows.Send(ctx, tx, "request_log", copyColumns) })
}

func addRow(rows *postgres.Rows, e *Entry) {
	rows.Row(e.At, copyColumnCount)
	rows.Int64(e.Took.Microseconds())
	rows.Int64(upstreamMicros(e.Upstream))
	rows.Int64(e.In)
	rows.Int64(e.Out)
	rows.Int32(codeNumber(e.UpstreamCode))
	rows.Int16(int16(e.Status))
	rows.Bool(e.Retryable)
	rows.Bool(e.Replayed)
	rows.Bool(e.DryRun)
	for _, text := range [...]string{
		string(e.Org), string(e.Request), string(e.Key), string(e.Account), e.Operation, e.Verb, e.Problem, string(cmp.Or(e.Source, SourceAPI)), e.Reason, e.UpstreamCode,
	} {
		rows.Text(text[:min(len(text), maxText)])
	}
	rows.Text(string(e.Fields))
	rows.Text(string(e.Members))
	rows.Bool(e.Free)
	rows.Text(string(e.Events))
}

// maxText is the maximum length of a text column in bytes. All names in the service are shorter.
const maxText = 256

// codeNumber returns a code of the platform as a number, or 0 if it is a text.
func codeNumber(code string) int32 {
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// upstreamMicros returns at least 1 for a call of the platform, because 0 means that there was none.
func upstreamMicros(d time.Duration) int64 {
	if d > 0 {
		return max(d.Microseconds(), 1)
	}
	return 0
}
