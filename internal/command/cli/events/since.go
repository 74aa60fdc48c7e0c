package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// oldestCursor is the position before all stored events.
const oldestCursor = "0"

// resolveSince converts --since to a cursor to start after. The value is now, all, an event id, a time, or a duration
// before now. An empty cursor means now.
func resolveSince(ctx context.Context, app *core.App, w filter, since string) (string, error) {
	switch {
	case since == "now":
		return "", nil
	case since == "all":
		return oldestCursor, nil
	case strings.HasPrefix(since, "evt_"):
		return cursorOfEvent(ctx, app, since)
	}
	at, err := app.Since(since)
	if err != nil {
		return "", core.UsageHint("Use 15m, 1h or 2d, a time, an event id, now or all.",
			"--since: %q is not a position in the log", since)
	}
	return searchBack(ctx, app, w.params(), func(_ string, ts time.Time) bool { return ts.Before(at) },
		func(time.Time) bool { return false })
}

func cursorOfEvent(ctx context.Context, app *core.App, id string) (string, error) {
	event, err := app.API().Events.Get(ctx, id)
	if err != nil {
		return "", err
	}
	// Events are not stored exactly in the order of their times, but they differ by far less than a minute.
	end := event.Time.Add(-time.Minute)
	isEvent := func(one string, _ time.Time) bool { return one == id }
	cursor, err := searchBack(ctx, app, stagedoor.EventsListParams{}, isEvent, end.After)
	if err == nil && cursor == oldestCursor {
		return "", fmt.Errorf("event %s was not found in the log", id)
	}
	return cursor, err
}

// searchBack walks from the newest event back to the first one for which found returns true, and returns its cursor. It
// returns oldestCursor if there is none, or if past returns true for an event's time before.
//
// The API returns only the cursor of the last event of a page, so searchBack fetches the page again,
// cut after the event.
func searchBack(
	ctx context.Context, app *core.App, params stagedoor.EventsListParams,
	found func(id string, ts time.Time) bool, past func(time.Time) bool,
) (string, error) {
	spin := app.Out.Spin("Searching the event log…")
	defer spin.Stop()
pages:
	for {
		got, err := fetchNewest(ctx, app, params, 100)
		if err != nil {
			return "", err
		}
		for i, e := range got.Events {
			if past(e.Time) {
				return oldestCursor, nil
			}
			if !found(e.ID, e.Time) {
				continue
			}
			cut, err := fetchNewest(ctx, app, params, i+1)
			if err != nil {
				return "", err
			}
			// If new events arrived between the two requests, the cut page ends with another event. Then start over.
			if len(cut.Events) == i+1 && cut.Events[i].ID == e.ID && cut.NextCursor != nil {
				return *cut.NextCursor, nil
			}
			if cut.NextCursor == nil {
				return cursorOfOldest(ctx, app, params, e.ID)
			}
			continue pages
		}
		if got.NextCursor == nil {
			return oldestCursor, nil
		}
		params.Before = *got.NextCursor
	}
}

// cursorOfOldest returns the cursor of the oldest event, id. The last page going back has no cursor, so this reads the
// first page going forward. With a filter, a page may be empty and not be the last.
func cursorOfOldest(
	ctx context.Context, app *core.App, params stagedoor.EventsListParams, id string,
) (string, error) {
	params.Before, params.Limit = "", 1
	for {
		got, err := app.API().Events.List(ctx, params)
		if err != nil {
			return "", err
		}
		switch {
		case got.NextCursor == nil, *got.NextCursor == params.After:
			return oldestCursor, nil
		case len(got.Events) == 0:
			params.After = *got.NextCursor
		case got.Events[0].ID == id:
			return *got.NextCursor, nil
		default:
			return oldestCursor, nil
		}
	}
}

func fetchNewest(
	ctx context.Context, app *core.App, params stagedoor.EventsListParams, n int,
) (*stagedoor.OrgEventPage, error) {
	params.Latest = int64(n)
	return app.API().Events.List(ctx, params)
}
