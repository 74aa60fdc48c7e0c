package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Listing is one page of a list.
type Listing struct {
	List []any   `json:"list"`
	More bool    `json:"has_more"`
	Next *string `json:"next_marker"`
}

// Order defines how a list is sorted: by rank, then by id. A marker holds both for the last row of a page, so that rows
// added or deleted between pages cause no repeats and no gaps.
type Order[P any] struct {
	Rank func(P) int64 // nil: by id alone
	Up   bool          // smallest first
}

type keyed interface{ Key() int64 }

// Page sorts rows and returns the requested page. It does not modify the slice.
func Page[P keyed](c *Call, rows []P, order Order[P], view func(P) any) (any, error) {
	rank := order.Rank
	if rank == nil {
		rank = func(P) int64 { return 0 }
	}
	compare := func(a, b mark) int {
		if order.Up {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.id, a.id))
	}
	marks := make([]mark, len(rows))
	for i, r := range rows {
		marks[i] = mark{rank(r), r.Key(), i}
	}
	slices.SortFunc(marks, compare)
	from, err := c.marker()
	if err != nil {
		return nil, err
	}
	start := 0
	if from != nil {
		start, _ = slices.BinarySearchFunc(marks, *from, func(a, b mark) int {
			return cmp.Or(compare(a, b), -1)
		})
	}
	limit := c.Limit()
	out := Listing{List: []any{}}
	for _, m := range marks[start:] {
		if len(out.List) == limit {
			out.More = true
			last := marks[start+limit-1].String()
			out.Next = &last
			break
		}
		out.List = append(out.List, view(rows[m.at]))
	}
	return out, nil
}

// Whole returns a list without pages.
func Whole[P any](rows []P, view func(P) any) any {
	out := Listing{List: []any{}}
	for _, r := range rows {
		out.List = append(out.List, view(r))
	}
	return out
}

// Filter returns the rows for which fits is true.
func Filter[P any](rows []P, fits func(P) bool) []P {
	var kept []P
	for _, r := range rows {
		if fits(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// Limit returns the maximum number of rows of a page, at most 100. Default: 20.
func (c *Call) Limit() int {
	n, err := strconv.Atoi(c.Query("limit"))
	if err != nil || n < 1 {
		return 20
	}
	return min(n, 100)
}

// mark is the position of a row in an order.
type mark struct {
	rank, id int64
	at       int
}

func (m mark) String() string {
	return strconv.FormatInt(m.rank, 36) + "." + strconv.FormatInt(m.id, 36)
}

func (c *Call) marker() (*mark, error) {
	text := c.Query("marker")
	if text == "" {
		return nil, nil //nolint:nilnil // the marker is optional
	}
	a, b, ok := strings.Cut(text, ".")
	rank, err1 := strconv.ParseInt(a, 36, 64)
	id, err2 := strconv.ParseInt(b, 36, 64)
	if !ok || err1 != nil || err2 != nil {
		return nil, Invalid("marker", fmt.Sprintf("The marker is not valid (%d characters).", len(text)))
	}
	return &mark{rank: rank, id: id}, nil
}
