package main

import (
	"context"
	"fmt"
	"sync"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// inbox puts the events of each account in order and takes each once.
//
// Every durable event of an account has a number, meta.seq, that grows by one. That is all it takes: a number that we have
// is a repetition, the next one is news, and a larger one means that something is missing, which the log has.
type inbox struct {
	client  *stagedoor.Client
	journal *journal

	mu    sync.Mutex
	locks map[string]*sync.Mutex
}

func newInbox(client *stagedoor.Client, journal *journal) *inbox {
	return &inbox{client: client, journal: journal, locks: map[string]*sync.Mutex{}}
}

// Take takes an event that was delivered. Accounts do not wait for each other.
func (in *inbox) Take(ctx context.Context, event *stagedoor.Event) error {
	if event.Meta.Seq == nil {
		return nil // not durable: somebody types, a webhook is tested
	}
	defer in.lock(event.AccountID)()
	next := in.journal.Last(event.AccountID) + 1
	switch {
	case *event.Meta.Seq < next:
		return nil // again, and we have it
	case *event.Meta.Seq == next:
		return in.journal.Append(event)
	default:
		return in.catchUp(ctx, event.AccountID) // something is missing; the event itself is in the log, too
	}
}

// CatchUp takes what is in the log of the account and not here.
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
			// We were away for longer than events are kept. A real program reads here what it needs by calls.
			in.journal.Skip(account)
		}
		for i := range page.Events {
			event := &page.Events[i]
			if event.Meta.Seq == nil || *event.Meta.Seq <= in.journal.Last(account) {
				continue // came by webhook meanwhile
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

// lock locks an account and returns how to unlock it.
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
