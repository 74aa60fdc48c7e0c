package requestlog_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// BenchmarkAdd is what a call pays.
func BenchmarkAdd(b *testing.B) {
	j := idle(nil, newClock())
	e := plain(id.New[id.Org](), noon)
	b.ReportAllocs()
	for b.Loop() {
		j.Add(e)
	}
}

// BenchmarkAddTogether is what a call pays among others.
func BenchmarkAddTogether(b *testing.B) {
	j := idle(nil, newClock())
	owner := id.New[id.Org]()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := plain(owner, noon)
		for pb.Next() {
			j.Add(e)
		}
	})
}

// BenchmarkFlush is what a node pays for a request once more, in the background.
func BenchmarkFlush(b *testing.B) {
	j := idle(database(b), newClock())
	owner := id.New[id.Org]()
	const batch = 5000
	entries := make([]requestlog.Entry, batch)
	for i := range entries {
		entries[i] = plain(owner, noon)
		entries[i].Account, entries[i].Operation = id.New[id.Account](), "messages.send"
	}
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		for i := range entries {
			j.Add(entries[i])
		}
		if err := j.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	// Of this process alone: the database does its part elsewhere.
	b.ReportMetric(float64(spent(b)-before)/float64(b.N*batch), "cpu-ns/request")
}

// spent is the processor time that this process has used.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
