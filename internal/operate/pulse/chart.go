package pulse

import "time"

// Point is what all nodes counted in a part of a chart.
type Point struct {
	// At is the beginning of the part.
	At               time.Time
	Requests, Failed int64
	// P95 is the time that this service added to 95 percent of the calls, in seconds: the upper bound of a bucket.
	P95 float64
	// Lag is the largest lag of the event store, in seconds; Backlog the largest number of accounts whose deliveries wait.
	Lag     float64
	Backlog int64
}

// Chart divides the time until now into parts. Minutes are in order.
func Chart(minutes []Minute, now time.Time, part time.Duration, parts int) []Point {
	end := now.Truncate(part).Add(part)
	points, each := make([]Point, parts), make([][]Counts, parts)
	for i := range points {
		points[i].At = end.Add(-time.Duration(parts-i) * part)
	}
	for _, same := range byTime(minutes) {
		i := int(same[0].At.Sub(points[0].At) / part)
		if same[0].At.Before(points[0].At) || i >= parts {
			continue
		}
		total := merge(counts(same))
		each[i] = append(each[i], total)
		points[i].Lag, points[i].Backlog = max(points[i].Lag, total.Lag), max(points[i].Backlog, total.Backlog)
	}
	for i, list := range each {
		total := merge(list)
		answered := total.Met[Availability]
		points[i].Requests, points[i].Failed = answered.Total, answered.Total-answered.Good
		points[i].P95 = percentile(total.Overhead, 0.95)
	}
	return points
}

// byTime groups minutes by their time. They are in order.
func byTime(minutes []Minute) (groups [][]Minute) {
	for _, m := range minutes {
		if n := len(groups); n > 0 && groups[n-1][0].At.Equal(m.At) {
			groups[n-1] = append(groups[n-1], m)
		} else {
			groups = append(groups, []Minute{m})
		}
	}
	return groups
}

func counts(minutes []Minute) []Counts {
	list := make([]Counts, len(minutes))
	for i, m := range minutes {
		list[i] = m.Counts
	}
	return list
}
