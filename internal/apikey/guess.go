package apikey

import (
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/problem"
)

// Nobody can guess a key of 256 bits, but trying costs the database a look-up each time. A source may miss this often
// before its unknown keys are no longer looked up; keys that are in memory are not affected.
const (
	missesPerMinute = 20
	knownSources    = 100_000
)

type guessers struct {
	bySource *otter.Cache[string, *rate.Limiter]
}

func newGuessers() guessers {
	return guessers{otter.Must(&otter.Options[string, *rate.Limiter]{
		MaximumSize: knownSources, ExpiryCalculator: otter.ExpiryAccessing[string, *rate.Limiter](10 * time.Minute),
	})}
}

// check refuses a source that has missed too often.
func (g guessers) check(source string) error {
	l, ok := g.bySource.GetIfPresent(source)
	if !ok || l.Tokens() >= 1 {
		return nil
	}
	return problem.QuotaExceeded.New("Too many keys that do not exist were sent from this network.").
		After(int(time.Minute/time.Second)/missesPerMinute+1).
		With("reason", "auth_failures").With("limit", missesPerMinute).With("current", missesPerMinute)
}

// missed counts a key that does not exist.
func (g guessers) missed(source string) {
	l, _ := g.bySource.ComputeIfAbsent(source, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Every(time.Minute/missesPerMinute), missesPerMinute), false
	})
	l.Allow()
}
