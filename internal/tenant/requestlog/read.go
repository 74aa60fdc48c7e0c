package requestlog

import (
	"context"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Reader says what a caller may read: requests of Org of the last Days days, and if Accounts is not nil, only requests
// on these accounts.
type Reader struct {
	Org      id.Org
	Days     int // negative for no limit
	Accounts []id.Account
}

// canSee reports whether the reader may see requests on an account.
func (r Reader) canSee(account id.Account) bool {
	return r.Accounts == nil || slices.Contains(r.Accounts, account)
}

// Filter selects requests. A zero field does not filter.
type Filter struct {
	Account   id.Account
	Key       id.Key
	Operation string
	Problem   string
	Source    Source
	// Event is an event that the request caused. Page then reads only around the time of the event, if Since and Until are
	// zero.
	Event id.Event
	// Reason is the limit that refused the request.
	Reason string
	// Text is part of the operation, the problem, its reason, the id of the request or the platform's code, in any case.
	Text string
	// MinTook is the shortest duration.
	MinTook time.Duration
	// Counted selects requests that counted as usage.
	Counted bool
	// StatusFrom and StatusTo are the lowest and the highest status, both inclusive. StatusTo 0 means no upper bound.
	StatusFrom, StatusTo int
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
}

// isFailedOnly reports whether only requests with a problem can match, which have their own index.
func (f Filter) isFailedOnly() bool { return f.Problem != "" || f.StatusFrom >= 400 }

// isNotFromAPI reports whether only requests from the dashboard or the command line can match, which have their own
// index.
func (f Filter) isNotFromAPI() bool { return f.Source != "" && f.Source != SourceAPI }

// FailureFilter selects failed requests. A zero field does not filter.
type FailureFilter struct {
	Source Source
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
}

// Failure is a group of failed requests with the same problem, reason, operation and status.
type Failure struct {
	Problem, Reason, Operation string
	Status                     int
	Count                      int64
	First, Last                time.Time
	// Accounts is the number of accounts with such requests.
	Accounts int64
	// LastRequest is the newest request of the group, and Retryable that of its problem.
	LastRequest id.Request
	Retryable   bool
}

const (
	// maxReaders bounds concurrent readers, to keep database connections free for calls.
	maxReaders = 4
	// queueTimeout bounds how long a reader waits for a permit.
	queueTimeout = 2 * time.Second
	// longest is how long before an event the request that caused it arrived, at most.
	longest = 10 * time.Minute
	// skew is how far the clocks of other nodes may be ahead.
	skew = time.Hour
)

// Page returns up to limit requests after a position, newest first, and the position for the next page; that is zero if
// there are no more. Requests that are added while a caller reads pages are neither repeated nor do they hide others.
func (j *Journal) Page(ctx context.Context, r Reader, f Filter, after Position, limit int) ([]Entry, Position, error) {
	if f.Account != "" && !r.canSee(f.Account) {
		return nil, Position{}, nil
	}
	if f.Event != "" && f.Since.IsZero() && f.Until.IsZero() {
		made := id.MadeAt(f.Event)
		f.Since, f.Until = made.Add(-longest), made.Add(time.Minute)
	}
	f.Since, f.Until = j.clampSpan(r, f.Since, f.Until)
	if after.At.IsZero() || after.At.After(f.Until) {
		after = Position{At: f.Until}
	}
	release, err := j.startRead(ctx)
	if err != nil {
		return nil, Position{}, err
	}
	defer release()
	// Read one more than wanted to find out whether there is another page.
	found, err := readPage(ctx, j.deps.DB, r, f, after, limit+1)
	if err != nil || len(found) <= limit {
		return found, Position{}, err
	}
	last := found[limit-1]
	return found[:limit], Position{last.At, last.Request}, nil
}

// Get reads one request, or returns the problem log-not-found. Callers can choose the id of a request; if several
// requests have the same, Get returns the newest.
func (j *Journal) Get(ctx context.Context, r Reader, request string) (Entry, error) {
	if !isRequest(request) {
		return Entry{}, logNotFound()
	}
	release, err := j.startRead(ctx)
	if err != nil {
		return Entry{}, err
	}
	defer release()
	return readRequest(ctx, j.deps.DB, r, id.Request(request), org.ReadableSince(j.deps.Now(), r.Days))
}

// Failures groups the failed requests of a period and returns up to limit groups, most frequent first.
func (j *Journal) Failures(ctx context.Context, r Reader, f FailureFilter, limit int) ([]Failure, error) {
	f.Since, f.Until = j.clampSpan(r, f.Since, f.Until)
	release, err := j.startRead(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return readFailures(ctx, j.deps.DB, r, f, limit)
}

// clampSpan limits a period to what the reader may see. Without an end it extends to now, plus skew.
func (j *Journal) clampSpan(r Reader, since, until time.Time) (from, to time.Time) {
	now := j.deps.Now()
	if first := org.ReadableSince(now, r.Days); since.Before(first) {
		since = first
	}
	if last := now.Add(skew); until.IsZero() || until.After(last) {
		until = last
	}
	return since, until
}

// startRead waits for a read permit and then for the entries in this node's memory to be written, so that a caller
// finds its own last call if it asks the same node. The caller must call release.
func (j *Journal) startRead(ctx context.Context) (release func(), err error) {
	queue, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	select {
	case j.readPermits <- struct{}{}:
	case <-queue.Done():
		return nil, problem.ServiceUnavailable.New("Too many logs are being read concurrently.").After(1)
	}
	j.awaitFlush(ctx)
	return func() { <-j.readPermits }, nil
}

// awaitFlush makes Run flush and waits for it, for up to SettleTimeout. The read continues in any case.
func (j *Journal) awaitFlush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.deps.SettleTimeout)
	defer cancel()
	done := make(chan struct{})
	select {
	case j.flushRequests <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func logNotFound() error {
	return problem.LogNotFound.New("There is no log of a request with this id.")
}
