package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The rows are written in PostgreSQL's binary COPY format by hand: every call of every customer passes here, and by way of []any a row
// costs a dozen allocations.

// copyStatement names the columns in the order of appendRow.
const copyStatement = `COPY request_log (at, took_us, upstream_us, bytes_in, bytes_out, upstream_code, status, retryable, replayed, dry_run,
	org_id, request_id, key_id, account_id, operation, verb, problem) FROM STDIN (FORMAT binary)`

const columns = 17

// copyRows sends rows that were made with appendHead, appendRow and appendEnd. They are written together or not at all.
func copyRows(ctx context.Context, pool *pgxpool.Pool, text []byte) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(text), copyStatement)
	return err
}

func appendHead(text []byte) []byte {
	text = append(text, "PGCOPY\n\xff\r\n\x00"...)
	return append(text, 0, 0, 0, 0, 0, 0, 0, 0) // no flags, no extension
}

func appendEnd(text []byte) []byte { return append(text, 0xff, 0xff) }

// epochMicros is where the database's time begins: the year 2000.
const epochMicros = 946_684_800_000_000

func appendRow(text []byte, e *Entry) []byte {
	text = binary.BigEndian.AppendUint16(text, columns)
	text = appendInt64(text, e.At.UnixMicro()-epochMicros)
	text = appendInt64(text, e.Took.Microseconds())
	text = appendInt64(text, upstreamMicros(e.Upstream))
	text = appendInt64(text, e.In)
	text = appendInt64(text, e.Out)
	text = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(text, 4), uint32(int32(e.UpstreamCode)))
	text = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(text, 2), uint16(int16(e.Status)))
	text = appendBool(text, e.Retryable)
	text = appendBool(text, e.Replayed)
	text = appendBool(text, e.DryRun)
	text = appendText(text, string(e.Org))
	text = appendText(text, string(e.Request))
	text = appendText(text, string(e.Key))
	text = appendText(text, string(e.Account))
	text = appendText(text, e.Operation)
	text = appendText(text, e.Verb)
	return appendText(text, e.Problem)
}

// upstreamMicros is not 0 if there was an answer, however quick.
func upstreamMicros(d time.Duration) int64 {
	if d > 0 {
		return max(d.Microseconds(), 1)
	}
	return 0
}

func appendInt64(text []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(text, 8), uint64(n))
}

func appendBool(text []byte, b bool) []byte {
	if b {
		return append(text, 0, 0, 0, 1, 1)
	}
	return append(text, 0, 0, 0, 1, 0)
}

// maxText bounds a column. Nothing that we name is as long.
const maxText = 256

// appendText leaves out what the database would refuse: one such row would keep all others of its COPY out.
func appendText(text []byte, s string) []byte {
	if len(s) > maxText {
		s = s[:maxText]
	}
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	}
	text = binary.BigEndian.AppendUint32(text, uint32(len(s)))
	return append(text, s...)
}
