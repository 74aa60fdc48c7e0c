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

// Rows are rows in PostgreSQL's binary COPY format, written by hand: where millions pass, a row by way of []any costs a dozen
// allocations. Start each row with Row, then give its columns in the order of the COPY statement.
type Rows struct {
	text []byte
	n    int
}

// copyHead starts every COPY: a signature, no flags, no extension.
const copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// epochMicros is where the database's time begins: the year 2000.
const epochMicros = 946_684_800_000_000

// Len is how many rows there are.
func (r *Rows) Len() int { return r.n }

// Reset takes all rows out and keeps the memory.
func (r *Rows) Reset() { r.text, r.n = r.text[:0], 0 }

// Row begins a row.
func (r *Rows) Row(columns int) {
	if r.n == 0 {
		r.text = append(r.text[:0], copyHead...)
	}
	r.n++
	r.text = binary.BigEndian.AppendUint16(r.text, uint16(columns))
}

// Int64 adds a bigint.
func (r *Rows) Int64(n int64) {
	r.text = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(r.text, 8), uint64(n))
}

// Int32 adds an integer.
func (r *Rows) Int32(n int32) {
	r.text = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(r.text, 4), uint32(n))
}

// Int16 adds a smallint.
func (r *Rows) Int16(n int16) {
	r.text = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(r.text, 2), uint16(n))
}

// Bool adds a boolean.
func (r *Rows) Bool(b bool) {
	one := byte(0)
	if b {
		one = 1
	}
	r.text = append(binary.BigEndian.AppendUint32(r.text, 1), one)
}

// Time adds a timestamptz.
func (r *Rows) Time(at time.Time) { r.Int64(at.UnixMicro() - epochMicros) }

// Text adds a text. What the database cannot keep in one is taken out.
func (r *Rows) Text(s string) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	}
	r.text = append(binary.BigEndian.AppendUint32(r.text, uint32(len(s))), s...)
}

// Bytes adds a bytea.
func (r *Rows) Bytes(b []byte) {
	r.text = append(binary.BigEndian.AppendUint32(r.text, uint32(len(b))), b...)
}

// Null adds a null.
func (r *Rows) Null() { r.text = binary.BigEndian.AppendUint32(r.text, 0xffffffff) }

// Send writes the rows by a COPY … FROM STDIN (FORMAT binary) statement, all or none of them. Without rows it does nothing.
func (r *Rows) Send(ctx context.Context, conn *pgx.Conn, statement string) error {
	if r.n == 0 {
		return nil
	}
	text := binary.BigEndian.AppendUint16(r.text, 0xffff)
	if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(text), statement); err != nil {
		return fmt.Errorf("copy %d rows: %w", r.n, err)
	}
	return nil
}
