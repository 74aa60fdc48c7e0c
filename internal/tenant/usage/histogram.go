package usage

import (
	"slices"
	"strconv"
	"time"
)

// histogram counts calls by how long they took.
type histogram [classes]int64

func (h *histogram) add(took time.Duration) {
	ms := float64(took) / float64(time.Millisecond)
	at, _ := slices.BinarySearch(classEnds[:], ms)
	h[at]++
}

func (h *histogram) plus(more []int64) {
	for i := range min(len(h), len(more)) {
		h[i] += more[i]
	}
}

// text is the form in which PostgreSQL reads an array.
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

// quantile is the time in milliseconds that a share of the calls kept within; false if there were none. Within a class calls are taken to
// be spread evenly, so it is off by less than the class is wide. What is in the last class is told as its lower end.
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
