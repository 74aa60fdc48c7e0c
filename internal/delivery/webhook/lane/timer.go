package lane

import (
	"container/heap"
	"time"
)

// timer wakes a lane, a host or an endpoint. index is its position in the heap plus one; 0 means that it is not set.
type timer struct {
	at    time.Time
	index int
	lane  *Lane
	host  *host
	// feed is the bucket of an endpoint.
	feed *bucket
}

// timers holds the timers that are set, earliest first.
type timers struct{ list timerHeap }

func (t *timers) set(one *timer, at time.Time) {
	one.at = at
	if one.index > 0 {
		heap.Fix(&t.list, one.index-1)
		return
	}
	heap.Push(&t.list, one)
}

func (t *timers) stop(one *timer) {
	if one.index > 0 {
		heap.Remove(&t.list, one.index-1)
	}
}

// due removes and returns the earliest timer if its time has come; nil otherwise.
func (t *timers) due(now time.Time) *timer {
	if len(t.list) == 0 || t.list[0].at.After(now) {
		return nil
	}
	return heap.Pop(&t.list).(*timer)
}

// next returns when the earliest timer is due; ok is false if none is set.
func (t *timers) next() (at time.Time, ok bool) {
	if len(t.list) == 0 {
		return time.Time{}, false
	}
	return t.list[0].at, true
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	one := x.(*timer)
	one.index = len(*h) + 1
	*h = append(*h, one)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	one.index = 0
	return one
}
