package ingest

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// head is where a source stands, and what tells repeats of its last events.
type head struct {
	event.HeadRow
	bucket int
	marks  marks
}

// marks are hashes of the last events' marks: a ring that grows to its bound.
type marks struct {
	ring []uint64
	next int
}

func (m *marks) has(mark uint64) bool {
	for _, one := range m.ring {
		if one == mark {
			return true
		}
	}
	return false
}

func (m *marks) add(mark uint64) {
	if len(m.ring) < event.MaxMarks {
		m.ring = append(m.ring, mark)
		return
	}
	m.ring[m.next] = mark
	m.next = (m.next + 1) % event.MaxMarks
}

func hashMark(mark string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(mark)) // it never fails
	return h.Sum64()
}

// markOf tells a record from others of its source: by the platform's id, or by all that it says.
func markOf(r *event.Record) string {
	if r.UpstreamID != "" {
		return r.UpstreamID
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(r.Kind + "\x00" + strconv.FormatInt(r.UpstreamAt.UnixMicro(), 10) + "\x00"))
	_, _ = h.Write(r.Data)
	return "#" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// maxHeads bounds what is remembered; a source that was forgotten is read again.
const maxHeads = 200_000

// load makes sure that the heads of sources are known. It returns the buckets of those that begin with a record of the log.
func (g *Ingest) load(ctx context.Context, w *batch) (begun []int16, err error) {
	if len(g.heads) > maxHeads {
		for source := range g.heads { // any will do
			if delete(g.heads, source); len(g.heads) <= maxHeads*3/4 {
				break
			}
		}
	}
	var missing []string
	asked := map[string]*arrival{}
	for i := range w.arrived {
		r := &w.arrived[i]
		if g.heads[r.Source] == nil && asked[r.Source] == nil {
			asked[r.Source] = r
			missing = append(missing, r.Source)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	found, err := g.Store.Load(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		h := &head{HeadRow: f.HeadRow, bucket: event.Bucket(f.Source)}
		for _, mark := range f.Marks {
			h.marks.add(hashMark(mark))
		}
		g.heads[f.Source] = h
	}
	for source, r := range asked {
		h := g.heads[source]
		if h == nil {
			h = &head{HeadRow: event.HeadRow{Org: r.Org, Source: source}, bucket: event.Bucket(source)}
			g.heads[source] = h
		}
		// A listener may have written where it begins before anything came.
		if h.LastSeq == 0 && r.own == 0 {
			begun = append(begun, int16(h.bucket))
		}
	}
	return begun, nil
}

// late says whether a record is a repeat, or of a listener that another has taken over from.
func (h *head) late(r *arrival, mark string) bool {
	if h.Closed {
		return true
	}
	if r.own != 0 {
		return false // the outbox gives each once
	}
	if h.Purged {
		return true // the account was deleted while the record was in the log
	}
	// One that cannot be asked for again is taken whoever brings it.
	if r.Epoch < h.Epoch && r.Watermark != "" {
		return true
	}
	return h.marks.has(hashMark(mark))
}
