package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// cursorWidth is the number of digits of a cursor, so that cursors of one source sort as strings. At a thousand
// events a second it lasts 3,000 years.
const cursorWidth = 14

// ErrCursor means that a string is not a valid cursor.
var ErrCursor = errors.New("invalid cursor")

// FormatCursor returns the cursor after the event with a sequence number, as callers see it. It is a cursor of the
// database's first generation; Generations.Cursor returns those of later ones.
func FormatCursor(seq int64) string { return fmt.Sprintf("%0*d", cursorWidth, seq) }

// ParseCursor returns the sequence number of an account's cursor; 0 is before the first event. It fails with ErrCursor.
func ParseCursor(text string) (int64, error) {
	_, seq, err := parseCursor(text)
	return seq, err
}

func parseCursor(text string) (tag int32, seq int64, err error) {
	tag, text, err = cutTag(text)
	if err != nil || text == "" || len(text) > cursorWidth || strings.Trim(text, "0123456789") != "" {
		return 0, 0, ErrCursor
	}
	if seq, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, 0, ErrCursor
	}
	return tag, seq, nil
}

// Position is a position in the stream of an org or of an account: after an event.
//
// A generation is a stretch of the database's history, which ends when the database is restored, recovered or failed
// over (migrations/0038_generation.sql). Within one, an org's events are in the order of their transactions; all events
// of an earlier generation are before all of a later one. A position from before a failover can be after the last
// event of its generation that is left. Everything that is stored later is in a later generation, and so after it.
type Position struct {
	// Tx is the number of the generation, and in its lower bits the number of the transaction. In the stream of an
	// account, the lower bits are the event's sequence number.
	Tx int64
	// ID is the id of the event; empty for the position before all events of the transaction, and in the stream of an
	// account.
	ID id.Event
}

// generationShift is the number of bits below the number of the generation.
const generationShift = 48

// Generation returns the number of the position's generation.
func (p Position) Generation() int64 { return p.Tx >> generationShift }

// Number returns the number of the transaction, or in the stream of an account the sequence number.
func (p Position) Number() int64 { return p.Tx & (1<<generationShift - 1) }

// positionWidth and tagWidth are the number of digits of a transaction and of a tag in a cursor. The longest cursor is
// shorter than what the API accepts.
const (
	positionWidth = 12
	tagWidth      = 6
)

// parsePosition parses a cursor of an org; "0" is before the first event.
func parsePosition(text string) (tag int32, p Position, err error) {
	if text == "0" {
		return 0, Position{}, nil
	}
	if tag, text, err = cutTag(text); err != nil {
		return 0, Position{}, err
	}
	tx, event, found := strings.Cut(text, ".")
	if !found || len(tx) != positionWidth || !isHex(tx) {
		return 0, Position{}, ErrCursor
	}
	if p.Tx, err = strconv.ParseInt(tx, 16, 64); err != nil {
		return 0, Position{}, ErrCursor
	}
	if event == "" {
		return tag, p, nil
	}
	if p.ID, err = id.Parse[id.Event](event); err != nil {
		return 0, Position{}, ErrCursor
	}
	return tag, p, nil
}

// cutTag cuts the tag of a generation off a cursor. Cursors of the first generation have none.
func cutTag(text string) (tag int32, rest string, err error) {
	before, rest, found := strings.Cut(text, "-")
	if !found {
		return 0, text, nil
	}
	n, err := strconv.ParseInt(before, 16, 32)
	if err != nil || len(before) != tagWidth || !isHex(before) || n == 0 {
		return 0, "", ErrCursor
	}
	return int32(n), rest, nil
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// Generations has the tag of each generation of a database, in their order. The first has the tag 0.
type Generations []int32

// unknownTag is the tag of no generation.
const unknownTag = 1<<(4*tagWidth) - 1

// Cursor returns the cursor of a position in the stream of an org or of an account. Callers must treat it as opaque.
func (g Generations) Cursor(p Position, ofOrg bool) string {
	text, tag := "", int32(unknownTag) // never of a position that was read; a reader that resumes there starts over
	if n := p.Generation(); n < int64(len(g)) {
		tag = g[n]
	}
	if tag != 0 {
		text = fmt.Sprintf("%0*x-", tagWidth, tag)
	}
	if ofOrg {
		return text + fmt.Sprintf("%0*x.%s", positionWidth, p.Number(), p.ID)
	}
	return text + FormatCursor(p.Number())
}

// Position returns the position of a cursor in the stream of an org or of an account. It fails with ErrCursor. known is
// false if none of the generations has its tag.
func (g Generations) Position(cursor string, ofOrg bool) (p Position, known bool, err error) {
	var tag int32
	if ofOrg {
		tag, p, err = parsePosition(cursor)
	} else {
		tag, p.Tx, err = parseCursor(cursor)
	}
	if err != nil || tag == 0 {
		return p, err == nil, err
	}
	n := slices.Index(g, tag)
	if n < 0 {
		return Position{}, false, nil
	}
	p.Tx += int64(n) << generationShift
	return p, true, nil
}

// Cursor returns the cursor of a position that this store has returned.
func (s *Store) Cursor(p Position, ofOrg bool) string { return s.generations().Cursor(p, ofOrg) }

// Position returns the position of a cursor in the stream of an org or of an account. It fails with ErrCursor. known is
// false if the cursor is from a history that the database does not have, because an older backup was restored: nothing
// is known about what its reader has seen.
func (s *Store) Position(ctx context.Context, cursor string, ofOrg bool) (p Position, known bool, err error) {
	if p, known, err = s.generations().Position(cursor, ofOrg); err != nil || known {
		return p, known, err
	}
	if err := s.loadGenerations(ctx); err != nil {
		return Position{}, false, err
	}
	return s.generations().Position(cursor, ofOrg)
}

// generations returns those that were loaded.
func (s *Store) generations() Generations {
	if g := s.loaded.Load(); g != nil {
		return *g
	}
	return Generations{0}
}

// know loads the generations of the database if that of a position is not known yet.
func (s *Store) know(ctx context.Context, tx int64) error {
	if (Position{Tx: tx}).Generation() < int64(len(s.generations())) {
		return nil
	}
	return s.loadGenerations(ctx)
}

func (s *Store) loadGenerations(ctx context.Context) error {
	tags, err := db.New(s.deps.DB).Tags(ctx)
	if err != nil {
		return fmt.Errorf("read the generations of the database: %w", err)
	}
	s.loaded.Store((*Generations)(&tags))
	return nil
}

func unixMicro(at int64) time.Time { return time.UnixMicro(at).UTC() }
