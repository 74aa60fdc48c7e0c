package requestlog_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// BenchmarkAdd measures what Add costs a call.
func BenchmarkAdd(b *testing.B) {
	j := newJournal(nil, newClock())
	e := success(id.New[id.Org](), noon)
	b.ReportAllocs()
	for b.Loop() {
		j.Add(e)
	}
}

// BenchmarkAddTogether measures what Add costs concurrent calls.
func BenchmarkAddTogether(b *testing.B) {
	j := newJournal(nil, newClock())
	owner := id.New[id.Org]()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := success(owner, noon)
		for pb.Next() {
			j.Add(e)
		}
	})
}

// BenchmarkFlush measures what a request costs a node in the background.
func BenchmarkFlush(b *testing.B) {
	j := newJournal(database(b), newClock())
	owner := id.New[id.Org]()
	const batch = 5000
	entries := make([]requestlog.Entry, batch)
	for i := range entries {
		entries[i] = success(owner, noon)
		entries[i].Account, entries[i].Operation = id.New[id.Account](), "messages.send"
	}
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		for i := range entries {
			j.Add(entries[i])
		}
		must.OK(b, j.Flush(b.Context()))
	}
	// This process only; the work of the database is not included.
	b.ReportMetric(float64(spent(b)-before)/float64(b.N*batch), "cpu-ns/request")
}

// spent returns the processor time that this process has used.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
