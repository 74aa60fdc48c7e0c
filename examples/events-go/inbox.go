package main

import (
	"context"
	"fmt"
	"sync"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// inbox stores the events of each account in order and exactly once.
//
// Every durable event of an account has a number, meta.seq, that grows by one. A known number is a duplicate, the next
// number is a new event, and a larger one means that events are missing, which the log has.
type inbox struct {
	client  *stagedoor.Client
	journal *journal

	mu    sync.Mutex
	locks map[string]*sync.Mutex
}

func newInbox(client *stagedoor.Client, journal *journal) *inbox {
	return &inbox{client: client, journal: journal, locks: map[string]*sync.Mutex{}}
}

// Take handles a delivered event. Accounts do not block each other.
func (in *inbox) Take(ctx context.Context, event *stagedoor.Event) error {
	if event.Meta.Seq == nil {
		return nil // not durable, such as typing or a test of the webhook
	}
	defer in.lock(event.AccountID)()
	next := in.journal.Last(event.AccountID) + 1
	switch {
	case *event.Meta.Seq < next:
		return nil // a duplicate
	case *event.Meta.Seq == next:
		return in.journal.Append(event)
	default:
		return in.catchUp(ctx, event.AccountID) // events are missing; the log has them and this one
	}
}

// CatchUp stores the events of the account's log that are not in the journal.
func (in *inbox) CatchUp(ctx context.Context, account string) error {
	defer in.lock(account)()
	return in.catchUp(ctx, account)
}

func (in *inbox) catchUp(ctx context.Context, account string) error {
	for after := in.journal.Cursor(account); ; {
		page, err := in.client.Events.ListOfAccount(ctx, account, stagedoor.EventsListOfAccountParams{After: after, Limit: 100})
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", account, err)
		}
		if page.Gap {
			// We were stopped for longer than events are retained. A real program would fetch the current state with
			// calls here.
			in.journal.Skip(account)
		}
		for i := range page.Events {
			event := &page.Events[i]
			if event.Meta.Seq == nil || *event.Meta.Seq <= in.journal.Last(account) {
				continue // already delivered by webhook
			}
			if err := in.journal.Append(event); err != nil {
				return err
			}
		}
		if err := in.journal.SetCursor(account, page.NextCursor); err != nil {
			return err
		}
		if len(page.Events) == 0 || page.NextCursor == after {
			return nil
		}
		after = page.NextCursor
	}
}

// lock locks an account and returns the function that unlocks it.
func (in *inbox) lock(account string) func() {
	in.mu.Lock()
	one, ok := in.locks[account]
	if !ok {
		one = &sync.Mutex{}
		in.locks[account] = one
	}
	in.mu.Unlock()
	one.Lock()
	return one.Unlock
}
