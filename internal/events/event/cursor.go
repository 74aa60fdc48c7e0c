package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// cursorWidth makes cursors of one source sort as texts. At a thousand events a second it lasts 3,000 years.
const cursorWidth = 14

// ErrCursor means that a text is no cursor of ours.
var ErrCursor = errors.New("this is no cursor")

// FormatCursor is the place behind an event of one source, as callers see it.
func FormatCursor(seq int64) string { return fmt.Sprintf("%0*d", cursorWidth, seq) }

// ParseCursor reads one; 0 is the place before everything.
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

// Position is a place in the stream of an org: behind an event.
type Position struct {
	Tx int64
	// ID is the event's, empty for the place before all of the transaction.
	ID id.Event
}

// String is the position as callers see it: opaque to them, the number of the transaction and the id to us.
func (p Position) String() string { return fmt.Sprintf("%0*x.%s", positionWidth, p.Tx, p.ID) }

const positionWidth = 12

// ParsePosition reads one; "0" is the place before everything.
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
