package requestlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog/internal/db"
)

// blocksPerCopy bounds one COPY, so that a slow database can work off a backlog in steps.
const blocksPerCopy = 8

// Flush writes all collected entries. Entries that cannot be written are kept for the next flush; an entry is never
// written twice.
func (j *Journal) Flush(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.collect(j.buffer.takeAll())
	defer func() { j.metrics.waiting.Set(float64(countEntries(j.unsent))) }()
	if err := j.resolveUncertain(ctx); err != nil {
		return err
	}
	for len(j.unsent) > 0 {
		n := min(len(j.unsent), blocksPerCopy)
		if err := j.writeBlocks(ctx, j.unsent[:n]); err != nil {
			if isOutcomeUnknown(err) {
				j.uncertain = n
			}
			return err
		}
		j.drop(n)
	}
	return nil
}

// collect appends fresh blocks to the unsent ones and drops the oldest beyond maxBlocks.
func (j *Journal) collect(fresh []block) {
	for _, b := range fresh {
		last := len(j.unsent) - 1
		if last >= j.uncertain && len(j.unsent[last])+len(b) <= cap(j.unsent[last]) {
			j.unsent[last] = append(j.unsent[last], b...) // merge, or nearly empty blocks would use up maxBlocks
			j.buffer.recycle([]block{b})
			continue
		}
		j.unsent = append(j.unsent, b)
	}
	if over := len(j.unsent) - maxBlocks; over > 0 {
		j.metrics.lost.WithLabelValues("full").Add(float64(countEntries(j.unsent[:over])))
		j.drop(over)
	}
}

// resolveUncertain finds out whether a COPY with an unknown outcome was carried out, so that it is not repeated.
func (j *Journal) resolveUncertain(ctx context.Context) error {
	if j.uncertain == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	// A COPY is atomic, so it is enough to look for one of its entries.
	b := j.unsent[j.uncertain-1]
	last := &b[len(b)-1]
	is, err := db.New(j.deps.DB).Written(ctx, db.WrittenParams{OrgID: last.Org, RequestID: last.Request, At: last.At})
	if err != nil {
		return err
	}
	if is {
		j.metrics.written.Add(float64(countEntries(j.unsent[:j.uncertain])))
		j.drop(j.uncertain)
	}
	j.uncertain = 0
	return nil
}

// drop removes the first n unsent blocks.
func (j *Journal) drop(n int) {
	j.buffer.recycle(j.unsent[:n])
	j.unsent = append(j.unsent[:0], j.unsent[n:]...)
	j.uncertain = max(j.uncertain-n, 0)
}

// writeBlocks copies blocks into the table. It skips entries whose day is outside the kept days.
func (j *Journal) writeBlocks(ctx context.Context, blocks []block) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	first, last := keptDays(j.deps.Now())
	if err := j.makeMissingDays(ctx, blocks, first, last); err != nil {
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
	err := copyRows(ctx, j.deps.DB, &j.rows)
	switch {
	case postgres.MissingDay(err):
		clear(j.knownDays) // a partition was dropped by hand; the next attempt creates it
		return fmt.Errorf("write %d requests: %w", rows, err)
	case isRejected(err):
		// Drop the batch, because a repeat would fail in the same way and block all later entries.
		j.metrics.lost.WithLabelValues("unfit").Add(float64(rows))
		j.deps.Log.LogAttrs(ctx, slog.LevelError, "requests cannot be logged", slog.Int(logkey.Requests, rows), slog.Any(logkey.Error, err))
		return nil
	case err != nil:
		return fmt.Errorf("write %d requests: %w", rows, err)
	}
	j.metrics.written.Add(float64(rows))
	j.metrics.lost.WithLabelValues("misdated").Add(float64(countEntries(blocks) - rows))
	return nil
}

// makeMissingDays creates the partitions that the entries need. Upkeep creates them ahead of time, so there are rarely
// any.
func (j *Journal) makeMissingDays(ctx context.Context, blocks []block, first, last postgres.Day) error {
	var missing []postgres.Day
	for _, b := range blocks {
		for i := range b {
			if d := postgres.DayOf(b[i].At); !j.knownDays[d] && d >= first && d <= last {
				j.knownDays[d] = true
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
			delete(j.knownDays, d)
		}
	}
	return err
}

// Trim deletes the requests of orgs that are older than keep days.
func (j *Journal) Trim(ctx context.Context, orgs []string, keep int) (int64, error) {
	return j.days.Trim(ctx, orgs, keep)
}

// Upkeep creates the partitions of the coming days and drops those that can no longer be read. Any number of nodes may
// run it concurrently.
func (j *Journal) Upkeep(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*flushTimeout)
	defer cancel()
	today, err := j.days.Upkeep(ctx, daysBack, daysAhead, org.MaxRetentionDays)
	if err != nil {
		return err
	}
	first, last := keptDays(today.Start())
	for d := today - daysBack; d <= last; d++ {
		j.knownDays[d] = true
	}
	for d := range j.knownDays {
		if d < first {
			delete(j.knownDays, d)
		}
	}
	return nil
}

func countEntries(blocks []block) (entries int) {
	for _, b := range blocks {
		entries += len(b)
	}
	return entries
}
