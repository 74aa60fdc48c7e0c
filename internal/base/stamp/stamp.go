// Package stamp defines the format of times on the wire: RFC 3339 in UTC with exactly three decimals.
//
// Every response, event and CSV export uses it. A Time converts from and to a time.Time without a copy, also as a
// pointer: stamp.Time(t), (*stamp.Time)(p). Package endpoint rejects response types that contain a bare time.Time.
package stamp

import (
	"encoding/json"
	"fmt"
	"time"
)

// Layout has a fixed width, so texts sort in the order of their times.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a time in a response. It is written with milliseconds; finer digits are cut off, not rounded.
type Time time.Time

// Optional returns nil for a zero time, for a member that is null if there is none.
func Optional(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return (*Time)(&t)
}

// Text formats a time.
func Text(t time.Time) string { return t.UTC().Format(Layout) }

// Append appends the text of a time to a buffer.
func Append(to []byte, t time.Time) []byte { return t.UTC().AppendFormat(to, Layout) }

func (t Time) String() string { return Text(time.Time(t)) }

// IsZero reports whether the time is zero. The JSON option omitzero calls it.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON writes the text of the time. It fails for a year that does not fit into four digits, which RFC 3339
// cannot represent.
func (t Time) MarshalJSON() ([]byte, error) {
	if year := time.Time(t).UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("write a time: year %d does not fit into four digits", year)
	}
	return append(Append([]byte{'"'}, time.Time(t)), '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time, in any zone and with any number of decimals.
func (t *Time) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, (*time.Time)(t)) }
