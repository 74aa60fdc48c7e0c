package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Rows collects rows in PostgreSQL's binary COPY format. pgx.CopyFrom takes []any, which costs a dozen allocations per
// row; this costs none once the buffer has grown, which matters for millions of rows. Start each row with Row, then add
// its columns in the order of the COPY statement. The zero value is ready to use. It is not safe for concurrent use.
type Rows struct {
	buf []byte
	n   int
}

// copyHead is the header of the format: a signature, no flags, no extension.
const copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// epochMicros is PostgreSQL's epoch, 2000-01-01, in microseconds since 1970.
const epochMicros = 946_684_800_000_000

func (r *Rows) Len() int { return r.n }

// Reset removes all rows and keeps the buffer.
func (r *Rows) Reset() { r.buf, r.n = r.buf[:0], 0 }

// Row starts a row of a number of columns. That many columns must follow.
func (r *Rows) Row(columns int) {
	if r.n == 0 {
		r.buf = append(r.buf[:0], copyHead...)
	}
	r.n++
	r.buf = binary.BigEndian.AppendUint16(r.buf, uint16(columns))
}

// Int64 adds a bigint.
func (r *Rows) Int64(n int64) {
	r.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(r.buf, 8), uint64(n))
}

// Int32 adds an integer.
func (r *Rows) Int32(n int32) {
	r.buf = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(r.buf, 4), uint32(n))
}

// Int16 adds a smallint.
func (r *Rows) Int16(n int16) {
	r.buf = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(r.buf, 2), uint16(n))
}

// Bool adds a boolean.
func (r *Rows) Bool(b bool) {
	one := byte(0)
	if b {
		one = 1
	}
	r.buf = append(binary.BigEndian.AppendUint32(r.buf, 1), one)
}

// Time adds a timestamptz.
func (r *Rows) Time(at time.Time) { r.Int64(at.UnixMicro() - epochMicros) }

// Text adds a text. PostgreSQL rejects some texts, so it replaces invalid UTF-8 by U+FFFD and removes NUL characters.
func (r *Rows) Text(s string) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	}
	r.buf = append(binary.BigEndian.AppendUint32(r.buf, uint32(len(s))), s...)
}

// Bytes adds a bytea.
func (r *Rows) Bytes(b []byte) {
	r.buf = append(binary.BigEndian.AppendUint32(r.buf, uint32(len(b))), b...)
}

// Null adds a null.
func (r *Rows) Null() { r.buf = binary.BigEndian.AppendUint32(r.buf, 0xffffffff) }

// Send writes all rows, or none if it fails, with a statement COPY … FROM STDIN (FORMAT binary). Without rows it does
// nothing. It keeps the rows; call Reset before the next batch.
func (r *Rows) Send(ctx context.Context, conn *pgx.Conn, statement string) error {
	if r.n == 0 {
		return nil
	}
	data := binary.BigEndian.AppendUint16(r.buf, 0xffff) // the trailer
	if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(data), statement); err != nil {
		return fmt.Errorf("copy %d rows: %w", r.n, err)
	}
	return nil
}
