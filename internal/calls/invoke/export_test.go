package invoke

import "time"

// Limit is an adaptiveLimit.
type Limit struct{ *adaptiveLimit }

func NewLimit(now func() time.Time) Limit {
	v := newAdaptiveLimit(now)
	return Limit{&v}
}

func (v Limit) IsFull() bool            { return v.isFull() }
func (v Limit) Acquire()                { v.acquire() }
func (v Limit) Release(overloaded bool) { v.release(overloaded) }
func (v Limit) Now() int                { return int(v.limit) }
