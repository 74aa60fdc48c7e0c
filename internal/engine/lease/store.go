package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
)

func (l *Leases) queries() *db.Queries { return db.New(l.DB.Pool()) }

// prepareSlots makes the rows of the slots; they stay.
func (l *Leases) prepareSlots(ctx context.Context) error {
	if err := l.queries().Prepare(ctx, db.PrepareParams{Kind: l.Kind, Last: int32(l.Slots - 1)}); err != nil {
		return fmt.Errorf("make slots: %w", err)
	}
	return nil
}

// seen is what the database knows at a beat.
type seen struct {
	// nodes live and are not about to stop; this one is among them.
	nodes []string
	// mine are the slots that this node has, with their epochs.
	mine map[int]int64
}

// renew extends this node's time.
func (l *Leases) renew(ctx context.Context, leaving bool) (seen, error) {
	row, err := l.queries().Beat(ctx, db.BeatParams{Kind: l.Kind, Holder: l.Node, Ttl: interval(l.Config.TTL), Leaving: leaving})
	if err != nil {
		return seen{}, fmt.Errorf("renew leases: %w", err)
	}
	s := seen{nodes: append(row.Others, l.Node), mine: make(map[int]int64, len(row.Slots))}
	for i, slot := range row.Slots {
		s.mine[int(slot)] = row.Epochs[i]
	}
	return s, nil
}

// takeSlots takes those of the slots that nobody has.
func (l *Leases) takeSlots(ctx context.Context, slots []int32) ([]Held, error) {
	rows, err := l.queries().Take(ctx, db.TakeParams{Kind: l.Kind, Holder: l.Node, Slots: slots})
	if err != nil {
		return nil, fmt.Errorf("take leases: %w", err)
	}
	taken := make([]Held, len(rows))
	for i, r := range rows {
		taken[i] = Held{int(r.Slot), r.Epoch}
	}
	return taken, nil
}

// releaseSlots lets others have slots.
func (l *Leases) releaseSlots(ctx context.Context, list []Held) error {
	p := db.ReleaseParams{Kind: l.Kind, Holder: l.Node}
	for _, h := range list {
		p.Slots, p.Epochs = append(p.Slots, int32(h.Slot)), append(p.Epochs, h.Epoch)
	}
	if _, err := l.queries().Release(ctx, p); err != nil {
		return fmt.Errorf("release leases: %w", err)
	}
	return nil
}

// leave takes this node's row away.
func (l *Leases) leave(ctx context.Context) error {
	if err := l.queries().Leave(ctx, db.LeaveParams{Kind: l.Kind, Holder: l.Node}); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Days: 0, Months: 0, Valid: true}
}
