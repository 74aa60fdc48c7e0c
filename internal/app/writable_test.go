package app_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/app"
)

// A log counts as not writable when no write has succeeded for a while, also if none ever has.
func TestWritableToleratesShortFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w app.Writable
		failed := errors.New("no space left on device")
		for i, step := range []struct {
			wait    time.Duration
			result  error
			reports bool
		}{
			{0, failed, false},
			{app.MaxUnwritable, failed, true},
			{0, nil, false},
			{time.Hour, failed, true},
			{0, nil, false},
			{app.MaxUnwritable - time.Second, failed, false},
			{time.Second, failed, true},
		} {
			time.Sleep(step.wait)
			w.Record(step.result)
			if err := w.Check(t.Context()); (err != nil) != step.reports {
				t.Errorf("step %d: %v", i, err)
			}
		}
	})
}
