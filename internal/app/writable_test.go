package app

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A log counts as not writable when no write has succeeded for a while, also if none ever has.
func TestWritableToleratesShortFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w writable
		failed := errors.New("no space left on device")
		for i, step := range []struct {
			wait    time.Duration
			result  error
			reports bool
		}{
			{0, failed, false},
			{maxUnwritable, failed, true},
			{0, nil, false},
			{time.Hour, failed, true},
			{0, nil, false},
			{maxUnwritable - time.Second, failed, false},
			{time.Second, failed, true},
		} {
			time.Sleep(step.wait)
			w.record(step.result)
			if err := w.check(t.Context()); (err != nil) != step.reports {
				t.Errorf("step %d: %v", i, err)
			}
		}
	})
}
