package requestlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// blocksPerCopy bounds one COPY, so that a slow database gets on with a backlog bit by bit.
const blocksPerCopy = 8

// Flush writes what has gathered. What cannot be written is kept for the next time.
func (j *Journal) Flush(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.collect(j.buffer.take())
	defer func() { j.metrics.waiting.Set(float64(count(j.unsent))) }()
	if err := j.settleDoubt(ctx); err != nil {
		return err
	}
	for len(j.unsent) > 0 {
		n := min(len(j.unsent), blocksPerCopy)
		if err := j.write(ctx, j.unsent[:n]); err != nil {
			if unanswered(err) {
				j.doubt = n
			}
			return err
		}
		j.done(n)
	}
	return nil
}

// collect puts fresh blocks behind those that wait, and drops the oldest beyond the bound.
func (j *Journal) collect(fresh []block) {
	for _, b := range fresh {
		last := len(j.unsent) - 1
		if last >= j.doubt && len(j.unsent[last])+len(b) <= cap(j.unsent[last]) {
			j.unsent[last] = append(j.unsent[last], b...) // blocks that are hardly filled would use up the bound
			j.buffer.give([]block{b})
			continue
		}
		j.unsent = append(j.unsent, b)
	}
	if over := len(j.unsent) - maxBlocks; over > 0 {
		j.metrics.lost.WithLabelValues("full").Add(float64(count(j.unsent[:over])))
		j.done(over)
	}
}

// settleDoubt finds out about a COPY whose end was not heard of: it may have been carried out, and must not be twice.
func (j *Journal) settleDoubt(ctx context.Context) error {
	if j.doubt == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	// A COPY is carried out whole or not at all, so any of its entries tells.
	b := j.unsent[j.doubt-1]
	is, err := written(ctx, j.DB.Pool(), &b[len(b)-1])
	if err != nil {
		return err
	}
	if is {
		j.metrics.written.Add(float64(count(j.unsent[:j.doubt])))
		j.done(j.doubt)
	}
	j.doubt = 0
	return nil
}

// done forgets the first n blocks.
func (j *Journal) done(n int) {
	j.buffer.give(j.unsent[:n])
	j.unsent = append(j.unsent[:0], j.unsent[n:]...)
	j.doubt = max(j.doubt-n, 0)
}

// write copies blocks into the table.
func (j *Journal) write(ctx context.Context, blocks []block) error {
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	first, last := readable(j.Now())
	if err := j.prepare(ctx, blocks, first, last); err != nil {
		return err
	}
	j.rows.Reset()
	for _, b := range blocks {
		for i := range b {
			if d := postgres.DayOf(b[i].At); d >= first && d <= last {
				addRow(&j.rows, &b[i])
			}
		}
	}
	rows := j.rows.Len()
	err := copyRows(ctx, j.DB.Pool(), &j.rows)
	switch {
	case postgres.MissingDay(err):
		clear(j.made) // somebody dropped it; the next try makes it
		return fmt.Errorf("write %d requests: %w", rows, err)
	case unfit(err):
		// It would stand in the way of all that follow, for good.
		j.metrics.lost.WithLabelValues("unfit").Add(float64(rows))
		j.Log.LogAttrs(ctx, slog.LevelError, "requests cannot be logged", slog.Int("requests", rows), slog.Any("error", err))
		return nil
	case err != nil:
		return fmt.Errorf("write %d requests: %w", rows, err)
	}
	j.metrics.written.Add(float64(rows))
	j.metrics.lost.WithLabelValues("misdated").Add(float64(count(blocks) - rows))
	return nil
}

// prepare makes the days that the entries are of. There are always some ahead, so it seldom has to.
func (j *Journal) prepare(ctx context.Context, blocks []block, first, last postgres.Day) error {
	var missing []postgres.Day
	for _, b := range blocks {
		for i := range b {
			if d := postgres.DayOf(b[i].At); !j.made[d] && d >= first && d <= last {
				j.made[d] = true
				missing = append(missing, d)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := j.days.Make(ctx, missing...)
	if err != nil {
		for _, d := range missing {
			delete(j.made, d)
		}
	}
	return err
}

// Upkeep makes the days to come and drops those that nobody may read any more. Any number of nodes may do it at once.
func (j *Journal) Upkeep(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*flushAtMost)
	defer cancel()
	today, err := j.days.Upkeep(ctx, daysBack, daysAhead, MaxDays)
	if err != nil {
		return err
	}
	first, last := readable(today.Start())
	for d := today - daysBack; d <= last; d++ {
		j.made[d] = true
	}
	for d := range j.made {
		if d < first {
			delete(j.made, d)
		}
	}
	return nil
}

func count(blocks []block) (entries int) {
	for _, b := range blocks {
		entries += len(b)
	}
	return entries
}
