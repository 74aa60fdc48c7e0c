package apikey

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/problem"
)

// Nobody can guess a key of 256 bits, but trying costs the database a look-up each time. A source may miss this often
// before its unknown keys are no longer looked up; keys that are in memory are not affected.
const missesPerMinute = 20

// Guess refuses a source that has sent too much which does not exist. Missed counts one more.
func (s *Keys) Guess(source string) error {
	if !s.misses.Spent(source) {
		return nil
	}
	return problem.QuotaExceeded.New("Too many keys that do not exist were sent from this network.").
		After(int(time.Minute/time.Second)/missesPerMinute+1).
		With("reason", "auth_failures").With("limit", missesPerMinute).With("current", missesPerMinute)
}

// Missed counts something that a source sent and that does not exist.
func (s *Keys) Missed(source string) { s.misses.Take(source) }
