package front

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/cache"
)

// knownSources is of how many networks it is known what they did.
const knownSources = 50_000

// Sources bounds what each network does.
type Sources struct {
	perMinute int
	bySource  cache.Cache[string, *rate.Limiter]
	now       func() time.Time
}

// NewSources lets each source do so much a minute, all of it at once if it likes.
func NewSources(perMinute int, now func() time.Time) Sources {
	return Sources{perMinute, cache.NewUsed[string, *rate.Limiter](knownSources, 10*time.Minute), now}
}

// Take says whether a source may go on, and counts it.
func (s Sources) Take(source string) bool {
	return s.bySource.GetOrMake(source, func() *rate.Limiter {
		return rate.NewLimiter(rate.Every(time.Minute/time.Duration(s.perMinute)), s.perMinute)
	}).AllowN(s.now(), 1)
}

// Spent says whether a source has nothing left, without counting.
func (s Sources) Spent(source string) bool {
	l, ok := s.bySource.Get(source)
	return ok && l.TokensAt(s.now()) < 1
}
