package usage

import (
	"slices"
	"strconv"
	"time"
)

// histogram counts calls by duration, in the classes of classEnds.
type histogram [classes]int64

func (h *histogram) add(took time.Duration) {
	ms := float64(took) / float64(time.Millisecond)
	at, _ := slices.BinarySearch(classEnds[:], ms)
	h[at]++
}

// plus adds stored counts, which may have fewer classes than h if an older version wrote them.
func (h *histogram) plus(more []int64) {
	for i := range min(len(h), len(more)) {
		h[i] += more[i]
	}
}

// text returns the counts as the text of a PostgreSQL array.
func (h *histogram) text() string {
	to := append(make([]byte, 0, 3*classes), '{')
	for i, n := range h {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, n, 10)
	}
	return string(append(to, '}'))
}

// quantile returns the duration in milliseconds within which the given share of the calls ended; ok is false if there
// are none. It assumes that calls are spread evenly within a class, so its error is less than the width of the class.
// For the last class, which has no upper end, it returns the lower end.
func (h *histogram) quantile(share float64) (ms float64, ok bool) {
	var all int64
	for _, n := range h {
		all += n
	}
	if all == 0 {
		return 0, false
	}
	rank := share * float64(all)
	low, below := 0.0, 0.0
	for i, end := range classEnds {
		n := float64(h[i])
		if n > 0 && below+n >= rank {
			return low + (end-low)*(rank-below)/n, true
		}
		low, below = end, below+n
	}
	return low, true
}
