// Package stamp is the form of a time on the wire: RFC 3339, UTC, exactly three decimals.
//
// Every answer, event and sheet uses it. A Time converts from and to a time.Time without a copy, also behind a pointer:
// stamp.Time(t), (*stamp.Time)(p). Package route refuses answers that contain a bare time.Time.
package stamp

import (
	"encoding/json"
	"fmt"
	"time"
)

// Layout has a fixed width, so that texts sort as times do.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a time as it is written in an answer. What is finer than a millisecond is cut off.
type Time time.Time

// Text writes a time.
func Text(t time.Time) string { return t.UTC().Format(Layout) }

// Append writes a time behind other bytes.
func Append(to []byte, t time.Time) []byte { return t.UTC().AppendFormat(to, Layout) }

// String is the text of the time.
func (t Time) String() string { return Text(time.Time(t)) }

// IsZero reports whether there is no time; omitzero asks for it.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON writes the text of the time. Years that do not have four digits are refused: RFC 3339 cannot write them.
func (t Time) MarshalJSON() ([]byte, error) {
	if year := time.Time(t).UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("write a time: the year %d does not have four digits", year)
	}
	return append(Append([]byte{'"'}, time.Time(t)), '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, (*time.Time)(t)) }
