package hosted

import (
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// What one source may do. Tokens of 256 bits cannot be guessed and attempts have limits of their own; this keeps one source from
// keeping the database busy.
const (
	postsPerMinute  = 60
	missesPerMinute = 30
	knownSources    = 50_000
)

// sources bounds what each network does.
type sources struct {
	perMinute int
	bySource  *otter.Cache[string, *rate.Limiter]
	now       func() time.Time
}

func newSources(perMinute int, now func() time.Time) sources {
	return sources{perMinute, otter.Must(&otter.Options[string, *rate.Limiter]{
		MaximumSize: knownSources, ExpiryCalculator: otter.ExpiryAccessing[string, *rate.Limiter](10 * time.Minute),
	}), now}
}

// take says whether a source may go on, and counts it.
func (s sources) take(source string) bool {
	l, _ := s.bySource.ComputeIfAbsent(source, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Every(time.Minute/time.Duration(s.perMinute)), s.perMinute), false
	})
	return l.AllowN(s.now(), 1)
}

// spent says whether a source has nothing left, without counting.
func (s sources) spent(source string) bool {
	l, ok := s.bySource.GetIfPresent(source)
	return ok && l.TokensAt(s.now()) < 1
}
