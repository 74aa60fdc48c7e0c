package apikey

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/cache"
	"github.com/stagedoor/stagedoor/internal/problem"
)

// Nobody can guess a key of 256 bits, but trying costs the database a look-up each time. A source may miss this often
// before its unknown keys are no longer looked up; keys that are in memory are not affected.
const (
	missesPerMinute = 20
	knownSources    = 100_000
)

type guessers struct {
	bySource cache.Cache[string, *rate.Limiter]
}

func newGuessers() guessers {
	return guessers{cache.NewUsed[string, *rate.Limiter](knownSources, 10*time.Minute)}
}

// check refuses a source that has missed too often.
func (g guessers) check(source string) error {
	l, ok := g.bySource.Get(source)
	if !ok || l.Tokens() >= 1 {
		return nil
	}
	return problem.QuotaExceeded.New("Too many keys that do not exist were sent from this network.").
		After(int(time.Minute/time.Second)/missesPerMinute+1).
		With("reason", "auth_failures").With("limit", missesPerMinute).With("current", missesPerMinute)
}

// missed counts a key that does not exist.
func (g guessers) missed(source string) {
	g.bySource.GetOrMake(source, func() *rate.Limiter {
		return rate.NewLimiter(rate.Every(time.Minute/missesPerMinute), missesPerMinute)
	}).Allow()
}
