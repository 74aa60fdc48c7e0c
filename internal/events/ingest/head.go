package ingest

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// head is the state of a source with the dedup keys of its last events.
type head struct {
	event.HeadRow
	bucket int
	keys   recentKeys
}

// recentKeys holds the last dedup keys, in a ring that grows up to event.MaxDedupKeys.
type recentKeys struct {
	ring []recentKey
	next int
	// complete is a time of the platform: the keys of all stored frames after it are in the ring.
	complete time.Time
}

// recentKey is the hash of a dedup key and the time of its frame by the platform's clock; zero if unknown.
type recentKey struct {
	hash uint64
	at   time.Time
}

func (m *recentKeys) has(hash uint64) bool {
	return slices.ContainsFunc(m.ring, func(k recentKey) bool { return k.hash == hash })
}

// isComplete reports whether a frame of that time is new if the ring does not have it.
func (m *recentKeys) isComplete(at time.Time) bool { return at.After(m.complete) }

func (m *recentKeys) add(k recentKey) {
	if len(m.ring) < event.MaxDedupKeys {
		m.ring = append(m.ring, k)
		return
	}
	if m.ring[m.next].at.After(m.complete) {
		m.complete = m.ring[m.next].at
	}
	m.ring[m.next] = k
	m.next = (m.next + 1) % event.MaxDedupKeys
}

func hashKey(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum64()
}

// dedupKeyOf returns what identifies a record within its source: the platform's id, or a hash of its contents.
func dedupKeyOf(r *event.Record) string {
	if r.UpstreamID != "" {
		return r.UpstreamID
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(r.Kind + "\x00" + strconv.FormatInt(r.UpstreamAt.UnixMicro(), 10) + "\x00"))
	_, _ = h.Write(r.Data)
	return "#" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// maxHeads bounds the cached heads. An evicted source is loaded again.
const maxHeads = 200_000

// load loads missing heads of the batch's sources. It returns the buckets of sources without events whose first record
// comes from the log.
func (g *Ingest) load(ctx context.Context, w *batch) (fresh []int16, err error) {
	if len(g.heads) > maxHeads {
		for source := range g.heads { // any order
			if delete(g.heads, source); len(g.heads) <= maxHeads*3/4 {
				break
			}
		}
	}
	var missing []string
	asked := map[string]*pendingRecord{}
	for i := range w.records {
		r := &w.records[i]
		if g.heads[r.Source] == nil && asked[r.Source] == nil {
			asked[r.Source] = r
			missing = append(missing, r.Source)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	found, err := g.deps.Store.Load(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		h := &head{HeadRow: f.HeadRow, bucket: event.Bucket(f.Source)}
		h.keys.complete = f.NewestFrameAt // of the frames up to now, the ring has only the last ones
		for _, key := range f.DedupKeys {
			h.keys.add(recentKey{hash: hashKey(key)})
		}
		g.heads[f.Source] = h
	}
	for source, r := range asked {
		h := g.heads[source]
		if h == nil {
			h = &head{HeadRow: event.HeadRow{Org: r.Org, Source: source}, bucket: event.Bucket(source)}
			g.heads[source] = h
		}
		// Not h == nil: a watermark creates a row before the first event.
		if h.LastSeq == 0 && r.own == 0 {
			fresh = append(fresh, int16(h.bucket))
		}
	}
	return fresh, nil
}

// findStored looks up the records that may be repeats of frames that their ring no longer has: after a listener went on
// from an old watermark, or if the platform repeats old frames. Most batches have none.
func (g *Ingest) findStored(ctx context.Context, w *batch) error {
	var (
		keys []event.FrameKey
		at   []time.Time
	)
	for i := range w.records {
		r := &w.records[i]
		if r.UpstreamID == "" && r.UpstreamAt.IsZero() {
			continue // the same contents may well come again on another day
		}
		if h := g.heads[r.Source]; h.LastSeq > 0 && !h.keys.isComplete(r.UpstreamAt) && !h.keys.has(hashKey(r.key)) {
			keys, at = append(keys, event.FrameKey{Source: r.Source, DedupKey: r.key}), append(at, r.UpstreamAt)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	stored, err := g.deps.Store.StoredKeys(ctx, keys, at)
	w.stored = stored
	return err
}

// isLate reports whether a record must be dropped: the source has ended, or it comes from a listener that has been
// replaced.
func (h *head) isLate(r *pendingRecord) bool {
	if h.Closed {
		return true
	}
	if r.own != 0 {
		return false // the outbox returns each event once
	}
	if h.Purged {
		return true // the account was deleted while the record was in the log
	}
	// A record without a watermark cannot be fetched again, so it is accepted from any listener.
	return r.Epoch < h.Epoch && r.Watermark != ""
}

// isRepeat reports whether a record's frame is in the store or in this batch.
func (w *batch) isRepeat(r *pendingRecord, h *head) bool {
	if r.key == "" {
		return false
	}
	key := event.FrameKey{Source: r.Source, DedupKey: r.key}
	return h.keys.has(hashKey(r.key)) || w.stored[key] || w.added[key]
}
