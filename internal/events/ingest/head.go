package ingest

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// head is the state of a source with the dedup keys of its last events.
type head struct {
	event.HeadRow
	bucket int
	keys   recentKeys
}

// recentKeys holds hashes of the last dedup keys, in a ring that grows up to event.MaxDedupKeys.
type recentKeys struct {
	ring []uint64
	next int
}

func (m *recentKeys) has(key uint64) bool { return slices.Contains(m.ring, key) }

func (m *recentKeys) add(key uint64) {
	if len(m.ring) < event.MaxDedupKeys {
		m.ring = append(m.ring, key)
		return
	}
	m.ring[m.next] = key
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
		for _, key := range f.DedupKeys {
			h.keys.add(hashKey(key))
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

// isLate reports whether a record must be dropped: it is a repeat, the source has ended, or it comes from a listener
// that has been replaced.
func (h *head) isLate(r *pendingRecord, key string) bool {
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
	if r.Epoch < h.Epoch && r.Watermark != "" {
		return true
	}
	return h.keys.has(hashKey(key))
}
