package requestlog

import (
	"context"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Reader is who reads: they see requests of their org, for as many days as it pays for, and if Accounts is not nil only those of
// these accounts.
type Reader struct {
	Org      id.Org
	Days     int
	Accounts []id.Account
}

// sees says whether requests of an account are shown at all.
func (r Reader) sees(account id.Account) bool {
	return r.Accounts == nil || slices.Contains(r.Accounts, account)
}

// Filter chooses requests. What is empty does not matter.
type Filter struct {
	Account   id.Account
	Key       id.Key
	Operation string
	Problem   string
	Source    Source
	// StatusFrom and StatusTo are the lowest and the highest status; 0 and 0 for any.
	StatusFrom, StatusTo int
	// Since is the first moment, Until the first after the last.
	Since, Until time.Time
}

// failedOnly says whether only requests with a problem can match.
func (f Filter) failedOnly() bool { return f.Problem != "" || f.StatusFrom >= 400 }

// elsewhere says whether only requests can match that came from somewhere else than most do.
func (f Filter) elsewhere() bool { return f.Source != "" && f.Source != SourceAPI }

// FailureFilter chooses failures. What is empty does not matter.
type FailureFilter struct {
	Source       Source
	Since, Until time.Time
}

// Failure is a kind of trouble: requests of one operation that ended with one status and one problem, for one reason.
type Failure struct {
	Problem, Reason, Operation string
	Status                     int
	Count                      int64
	First, Last                time.Time
	// Accounts is how many accounts had it.
	Accounts int64
	// LastRequest is the newest of them, and Retryable what it said.
	LastRequest id.Request
	Retryable   bool
}

const (
	// readersAtOnce keeps connections of the database free for what matters more.
	readersAtOnce = 4
	// queueAtMost is how long a reader waits for its turn.
	queueAtMost = 2 * time.Second
	// skew is how far the clocks of other nodes may be ahead.
	skew = time.Hour
)

// Page lists requests from the newest, behind a position. The position it returns is where to go on; zero if that was all.
func (j *Journal) Page(ctx context.Context, r Reader, f Filter, behind Position, limit int) ([]Entry, Position, error) {
	if f.Account != "" && !r.sees(f.Account) {
		return nil, Position{}, nil
	}
	f.Since, f.Until = j.span(r, f.Since, f.Until)
	if behind.At.IsZero() || behind.At.After(f.Until) {
		behind = Position{At: f.Until}
	}
	leave, err := j.enter(ctx)
	if err != nil {
		return nil, Position{}, err
	}
	defer leave()
	// One more than is wanted tells whether there is another page.
	found, err := page(ctx, j.DB.Pool(), r, f, behind, limit+1)
	if err != nil || len(found) <= limit {
		return found, Position{}, err
	}
	last := found[limit-1]
	return found[:limit], Position{last.At, last.Request}, nil
}

// Get finds a request; of several with the id that a caller chose, the newest.
func (j *Journal) Get(ctx context.Context, r Reader, request string) (Entry, error) {
	if !isRequest(request) {
		return Entry{}, errNoLog()
	}
	leave, err := j.enter(ctx)
	if err != nil {
		return Entry{}, err
	}
	defer leave()
	return get(ctx, j.DB.Pool(), r, id.Request(request), kept(j.Now(), r.Days))
}

// Failures lists what went wrong within a time, the most frequent first.
func (j *Journal) Failures(ctx context.Context, r Reader, f FailureFilter, limit int) ([]Failure, error) {
	f.Since, f.Until = j.span(r, f.Since, f.Until)
	leave, err := j.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return failures(ctx, j.DB.Pool(), r, f, limit)
}

// span is the part of a time that the reader may see. Without an end it goes on to now.
func (j *Journal) span(r Reader, since, until time.Time) (from, to time.Time) {
	now := j.Now()
	if first := kept(now, r.Days); since.Before(first) {
		since = first
	}
	if last := now.Add(skew); until.IsZero() || until.After(last) {
		until = last
	}
	return since, until
}

// enter waits for a reader's turn, and for what this node knows already to be in the table: who has just made a call and asks the same
// node finds it.
func (j *Journal) enter(ctx context.Context) (leave func(), err error) {
	queue, cancel := context.WithTimeout(ctx, queueAtMost)
	defer cancel()
	select {
	case j.reads <- struct{}{}:
	case <-queue.Done():
		return nil, problem.ServiceUnavailable.New("Too many logs are being read at once.").After(1)
	}
	j.settle(ctx)
	return func() { <-j.reads }, nil
}

func (j *Journal) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.SettleTimeout)
	defer cancel()
	done := make(chan struct{})
	select {
	case j.asked <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func errNoLog() error { return problem.LogNotFound.New("There is no log of a request with this id.") }
