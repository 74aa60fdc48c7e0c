package ingest

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"maps"
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

func (g *Ingest) newHead(row event.HeadRow) *head {
	return &head{HeadRow: row, bucket: event.Bucket(row.Source), keys: recentKeys{size: g.ringSize}}
}

// recentKeys holds the last dedup keys, in a ring that grows up to size.
type recentKeys struct {
	size int
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
	if len(m.ring) < m.size {
		m.ring = append(m.ring, k)
		return
	}
	if m.ring[m.next].at.After(m.complete) {
		m.complete = m.ring[m.next].at
	}
	m.ring[m.next] = k
	m.next = (m.next + 1) % m.size
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
		h := g.newHead(f.HeadRow)
		h.keys.complete = f.NewestFrameAt // of the frames up to now, the ring has only the last ones
		for _, key := range f.DedupKeys {
			h.keys.add(recentKey{hash: hashKey(key)})
		}
		g.heads[f.Source] = h
	}
	for source, r := range asked {
		h := g.heads[source]
		if h == nil {
			h = g.newHead(event.HeadRow{Org: r.Org, Source: source})
			g.heads[source] = h
		}
		// Not h == nil: a watermark creates a row before the first event.
		if h.LastSeq == 0 && r.own == 0 {
			fresh = append(fresh, int16(h.bucket))
		}
	}
	return fresh, nil
}

// findStored finds the records that are repeats of stored frames. It looks up those that their ring no longer has: after a
// listener went on from an old watermark, or if the platform repeats old frames. Most batches have none. It looks at the
// rings before the batch is built, because the batch can push keys out of them.
func (g *Ingest) findStored(ctx context.Context, w *batch) error {
	w.stored = map[event.FrameKey]bool{}
	var (
		keys []event.FrameKey
		at   []time.Time
	)
	for i := range w.records {
		r := &w.records[i]
		if r.key == "" {
			continue
		}
		h, key := g.heads[r.Source], event.FrameKey{Source: r.Source, DedupKey: r.key}
		switch {
		case h.keys.has(hashKey(r.key)):
			w.stored[key] = true
		case r.UpstreamID == "" && r.UpstreamAt.IsZero(): // the same contents may well come again on another day
		case h.LastSeq > 0 && !h.keys.isComplete(r.UpstreamAt):
			keys, at = append(keys, key), append(at, r.UpstreamAt)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	stored, err := g.deps.Store.StoredKeys(ctx, keys, at)
	maps.Copy(w.stored, stored)
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
func (w *batch) isRepeat(r *pendingRecord) bool {
	key := event.FrameKey{Source: r.Source, DedupKey: r.key}
	return r.key != "" && (w.stored[key] || w.added[key])
}
