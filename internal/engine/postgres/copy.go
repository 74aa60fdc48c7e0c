package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Rows collects rows in PostgreSQL's binary COPY format, for a table with daily partitions. pgx.CopyFrom takes []any,
// which costs a dozen allocations per row; this costs none once the buffers have grown, which matters for millions of
// rows. Start each row with Row, then add its other columns in the order of the COPY statement. The zero value is ready
// to use. It is not safe for concurrent use.
type Rows struct {
	days []dayRows
	// buf is the buffer of the day to which the last row belongs, the one of days[now].
	buf []byte
	now int
	n   int
}

// dayRows are the rows of one day.
type dayRows struct {
	day Day
	buf []byte
}

// copyHead is the header of the format: a signature, no flags, no extension.
const copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// epochMicros is PostgreSQL's epoch, 2000-01-01, in microseconds since 1970.
const epochMicros = 946_684_800_000_000

func (r *Rows) Len() int { return r.n }

// Reset removes all rows and keeps the buffer of one day.
func (r *Rows) Reset() { *r = Rows{buf: r.buf[:0]} }

// Row starts a row of a number of columns, the first of which is the time that decides about its partition. The other
// columns must follow.
func (r *Rows) Row(at time.Time, columns int) {
	if day := DayOf(at); r.n == 0 || r.days[r.now].day != day {
		r.turnTo(day)
	}
	r.n++
	r.buf = binary.BigEndian.AppendUint16(r.buf, uint16(columns))
	r.Time(at)
}

// turnTo makes the buffer of a day the current one.
func (r *Rows) turnTo(day Day) {
	if r.n > 0 {
		r.days[r.now].buf, r.buf = r.buf, nil
	}
	r.now = slices.IndexFunc(r.days, func(d dayRows) bool { return d.day == day })
	if r.now < 0 {
		r.now = len(r.days)
		r.days = append(r.days, dayRows{day: day, buf: append(r.buf, copyHead...)})
	}
	r.buf = r.days[r.now].buf
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

// Send writes all rows into the partitions of a table. The columns are those of the rows, in parentheses. If it fails
// with an error of MissingDay, Days.Make makes the partitions. Without rows it does nothing. It keeps the rows; call
// Reset before the next batch.
//
// It names the partitions because PostgreSQL refuses COPY into a table with row-level security. The service's role may
// insert into a partition, and do nothing else with it.
func (r *Rows) Send(ctx context.Context, tx Tx, table, columns string) error {
	if r.n == 0 {
		return nil
	}
	r.days[r.now].buf = r.buf
	for _, d := range r.days {
		data := binary.BigEndian.AppendUint16(d.buf, 0xffff) // the trailer
		statement := "COPY " + partition(table, d.day) + " " + columns + " FROM STDIN (FORMAT binary)"
		if _, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(data), statement); err != nil {
			return fmt.Errorf("copy rows into %s: %w", table, err)
		}
	}
	return nil
}
