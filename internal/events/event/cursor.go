package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// cursorWidth is the number of digits of a cursor, so that cursors of one source sort as strings. At a thousand
// events a second it lasts 3,000 years.
const cursorWidth = 14

// ErrCursor means that a string is not a valid cursor.
var ErrCursor = errors.New("invalid cursor")

// FormatCursor returns the cursor after the event with a sequence number, as callers see it.
func FormatCursor(seq int64) string { return fmt.Sprintf("%0*d", cursorWidth, seq) }

// ParseCursor returns the sequence number of a cursor; 0 is before the first event. It fails with ErrCursor.
func ParseCursor(text string) (int64, error) {
	if text == "" || len(text) > cursorWidth || strings.Trim(text, "0123456789") != "" {
		return 0, ErrCursor
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, ErrCursor
	}
	return seq, nil
}

// Position is a position in the stream of an org: after an event.
type Position struct {
	Tx int64
	// ID is the id of the event; empty for the position before all events of the transaction.
	ID id.Event
}

// String returns the position as callers see it, who must treat it as opaque: the number of the transaction and the id.
func (p Position) String() string { return fmt.Sprintf("%0*x.%s", positionWidth, p.Tx, p.ID) }

const positionWidth = 12

// ParsePosition parses a position; "0" is before the first event. It fails with ErrCursor.
func ParsePosition(text string) (Position, error) {
	if text == "0" {
		return Position{}, nil
	}
	tx, event, found := strings.Cut(text, ".")
	if !found || len(tx) != positionWidth || strings.Trim(tx, "0123456789abcdef") != "" {
		return Position{}, ErrCursor
	}
	n, err := strconv.ParseInt(tx, 16, 64)
	if err != nil {
		return Position{}, ErrCursor
	}
	if event == "" {
		return Position{Tx: n}, nil
	}
	parsed, err := id.Parse[id.Event](event)
	if err != nil {
		return Position{}, ErrCursor
	}
	return Position{n, parsed}, nil
}

func unixMicro(at int64) time.Time { return time.UnixMicro(at).UTC() }
