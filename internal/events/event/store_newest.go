package event

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// Newest selects events of an org for Store.Newest.
type Newest struct {
	Org id.Org
	// Sources are accounts, or the org itself; nil for all.
	Sources []string
	// Kinds restricts the result to these kinds; nil for all.
	Kinds []string
	// Before is the position to start before; zero for the newest event.
	Before Position
	// Since is the time from which the org may read.
	Since time.Time
	// Until is the end of the period; zero for none.
	Until time.Time
	// Text selects events that contain it, ignoring case; empty for all.
	Text  Text
	Limit int
}

// NewestPage is the result of Store.Newest.
type NewestPage struct {
	// Events are newest first.
	Events []Stored
	// Next is the position for the next call; zero if there are no more. A page may have fewer events than the limit, or none,
	// although Next is set.
	Next Position
	// Scanned is how many events were looked at.
	Scanned int
}

const (
	// scanRows and scanRounds bound how many events one call scans when few of them match: scanRounds queries of at least
	// scanRows events. Then the caller continues from where the scan ended.
	scanRows   = 1000
	scanRounds = 10
)

// forever is later than any event.
var forever = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// Newest lists at most n.Limit events, newest first.
func (s *Store) Newest(ctx context.Context, n Newest) (p NewestPage, err error) {
	at := n.Before
	at.Tx = cmp.Or(at.Tx, math.MaxInt64)
	defer func() {
		if err == nil {
			err = s.know(ctx, p.Next.Tx)
		}
	}()
	if n.Until.IsZero() {
		n.Until = forever
	}
	rows := n.Limit + 1
	if n.Kinds != nil || n.Text != "" {
		rows = max(rows, scanRows)
	}
	for range scanRounds {
		page, err := s.scanBefore(ctx, n, at, rows)
		if err == nil && n.Text != "" {
			err = s.openBodies(ctx, page) // opened bodies are not opened again
		}
		if err != nil {
			return NewestPage{}, err
		}
		for i := range page {
			if page[i].Body == nil || !n.Text.In(page[i].Body) {
				continue
			}
			if len(p.Events) == n.Limit {
				p.Next = p.Events[n.Limit-1].Position()
				p.Scanned += i
				return p, s.openBodies(ctx, p.Events)
			}
			p.Events = append(p.Events, page[i])
		}
		p.Scanned += len(page)
		if len(page) < rows {
			return p, s.openBodies(ctx, p.Events)
		}
		at = page[len(page)-1].Position()
	}
	p.Next = at
	return p, s.openBodies(ctx, p.Events)
}

// scanBefore reads consecutive events. Events of other kinds than n.Kinds are included, without their body.
func (s *Store) scanBefore(ctx context.Context, n Newest, at Position, rows int) ([]Stored, error) {
	if n.Sources == nil {
		found, err := db.New(s.deps.DB).OrgBefore(ctx, db.OrgBeforeParams{
			OrgID: n.Org, BeforeTx: at.Tx, BeforeID: at.ID, Since: n.Since, Until: n.Until, Every: n.Kinds == nil, Kinds: n.Kinds,
			MaxRows: int32(rows),
		})
		return postgres.Convert(found, func(r db.OrgBeforeRow) Stored { return storedRow(r).stored() }), err
	}
	found, err := db.New(s.deps.DB).SourcesBefore(ctx, db.SourcesBeforeParams{
		OrgID: n.Org, BeforeTx: at.Tx, BeforeID: at.ID, Since: n.Since, Until: n.Until, Every: n.Kinds == nil, Kinds: n.Kinds,
		MaxRows: int32(rows), Sources: n.Sources,
	})
	return postgres.Convert(found, func(r db.SourcesBeforeRow) Stored { return storedRow(r).stored() }), err
}

// FindAny reads events of any source by their ids, in the order of ids. Unknown ids are ignored.
func (s *Store) FindAny(ctx context.Context, org id.Org, events []id.Event) ([]Stored, error) {
	if len(events) == 0 {
		return nil, nil
	}
	first, last := id.MadeAt(slices.Min(events)), id.MadeAt(slices.Max(events))
	rows, err := db.New(s.deps.DB).FindAny(ctx, db.FindAnyParams{
		OrgID: org, Ids: id.Texts(events), Since: first.Add(-idSpread), Until: last.Add(idSpread),
	})
	list := postgres.Convert(rows, func(r db.FindAnyRow) Stored { return storedRow(r).stored() })
	slices.SortFunc(list, func(a, b Stored) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if err == nil {
		err = s.openBodies(ctx, list)
	}
	return list, err
}

// FindOne reads one event of any source by its id. It fails with event-not-found.
func (s *Store) FindOne(ctx context.Context, org id.Org, event id.Event) (Stored, error) {
	found, err := s.FindAny(ctx, org, []id.Event{event})
	if err == nil && len(found) == 0 {
		err = problem.EventNotFound.New("The organisation has no event with this id.")
	}
	if err != nil {
		return Stored{}, err
	}
	return found[0], nil
}
