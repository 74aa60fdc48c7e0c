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
	Limit int
}

const (
	// scanRows and scanRounds bound how many events one call scans when few of them match: scanRounds queries of at least
	// scanRows events. Then the caller continues from where the scan ended.
	scanRows   = 1000
	scanRounds = 20
)

// Newest lists at most n.Limit events, newest first. next is the position for the next call; zero if there are no
// more. A page may have fewer events, or none, although next is set.
func (s *Store) Newest(ctx context.Context, n Newest) (list []Stored, next Position, err error) {
	at := n.Before
	at.Tx = cmp.Or(at.Tx, math.MaxInt64)
	defer func() {
		if err == nil {
			err = s.know(ctx, next.Tx)
		}
	}()
	rows := n.Limit + 1
	if n.Kinds != nil {
		rows = max(rows, scanRows)
	}
	for range scanRounds {
		page, err := s.scanBefore(ctx, n, at, rows)
		if err != nil {
			return nil, Position{}, err
		}
		for i := range page {
			if page[i].Body == nil {
				continue
			}
			if len(list) == n.Limit {
				return list, list[n.Limit-1].Position(), s.openBodies(ctx, list)
			}
			list = append(list, page[i])
		}
		if len(page) < rows {
			return list, Position{}, s.openBodies(ctx, list)
		}
		at = page[len(page)-1].Position()
	}
	return list, at, s.openBodies(ctx, list)
}

// scanBefore reads consecutive events. Events of other kinds than n.Kinds are included, without their body.
func (s *Store) scanBefore(ctx context.Context, n Newest, at Position, rows int) ([]Stored, error) {
	if n.Sources == nil {
		found, err := db.New(s.deps.DB).OrgBefore(ctx, db.OrgBeforeParams{
			OrgID: n.Org, BeforeTx: at.Tx, BeforeID: at.ID, Since: n.Since, Every: n.Kinds == nil, Kinds: n.Kinds,
			MaxRows: int32(rows),
		})
		return postgres.Convert(found, func(r db.OrgBeforeRow) Stored { return storedRow(r).stored() }), err
	}
	found, err := db.New(s.deps.DB).SourcesBefore(ctx, db.SourcesBeforeParams{
		OrgID: n.Org, BeforeTx: at.Tx, BeforeID: at.ID, Since: n.Since, Every: n.Kinds == nil, Kinds: n.Kinds,
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
