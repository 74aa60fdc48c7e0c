package events

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// oldestCursor is the position before all stored events.
const oldestCursor = "0"

// page is a page of events. NextCursor is nil on the last page.
type page struct {
	Events []struct {
		ID string    `json:"id"`
		TS time.Time `json:"ts"`
	} `json:"events"`
	NextCursor *string `json:"nextCursor"`
}

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
	return searchBack(ctx, app, w.query(), func(_ string, ts time.Time) bool { return ts.Before(at) },
		func(time.Time) bool { return false })
}

// cursorOfEvent returns the cursor of an event by its id.
func cursorOfEvent(ctx context.Context, app *core.App, id string) (string, error) {
	var got struct {
		Event struct {
			TS time.Time `json:"ts"`
		} `json:"event"`
	}
	if _, err := app.Get(ctx, "/v1/events/"+url.PathEscape(id), nil, &got); err != nil {
		return "", err
	}
	// Events are not stored exactly in the order of their times, but they differ by far less than a minute.
	end := got.Event.TS.Add(-time.Minute)
	cursor, err := searchBack(ctx, app, url.Values{}, func(one string, _ time.Time) bool { return one == id }, end.After)
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
	ctx context.Context, app *core.App, query url.Values,
	found func(id string, ts time.Time) bool, past func(time.Time) bool,
) (string, error) {
	spin := app.Out.Spin("Searching the event log…")
	defer spin.Stop()
pages:
	for {
		got, err := fetchNewest(ctx, app, query, 100)
		if err != nil {
			return "", err
		}
		for i, e := range got.Events {
			if past(e.TS) {
				return oldestCursor, nil
			}
			if !found(e.ID, e.TS) {
				continue
			}
			cut, err := fetchNewest(ctx, app, query, i+1)
			if err != nil {
				return "", err
			}
			// If new events arrived between the two requests, the cut page ends with another event. Then start over.
			if len(cut.Events) == i+1 && cut.Events[i].ID == e.ID && cut.NextCursor != nil {
				return *cut.NextCursor, nil
			}
			if cut.NextCursor == nil {
				return cursorOfOldest(ctx, app, query, e.ID)
			}
			continue pages
		}
		if got.NextCursor == nil {
			return oldestCursor, nil
		}
		query.Set("before", *got.NextCursor)
	}
}

// cursorOfOldest returns the cursor of the oldest event, id. The last page going back has no cursor, so this reads the
// first page going forward. With a filter, a page may be empty and not be the last.
func cursorOfOldest(ctx context.Context, app *core.App, query url.Values, id string) (string, error) {
	query = maps.Clone(query)
	query.Del("latest")
	query.Del("before")
	query.Set("limit", "1")
	for {
		var got page
		if _, err := app.Get(ctx, "/v1/events", query, &got); err != nil {
			return "", err
		}
		switch {
		case got.NextCursor == nil, *got.NextCursor == query.Get("after"):
			return oldestCursor, nil
		case len(got.Events) == 0:
			query.Set("after", *got.NextCursor)
		case got.Events[0].ID == id:
			return *got.NextCursor, nil
		default:
			return oldestCursor, nil
		}
	}
}

func fetchNewest(ctx context.Context, app *core.App, query url.Values, n int) (page, error) {
	query.Set("latest", strconv.Itoa(n))
	var got page
	_, err := app.Get(ctx, "/v1/events", query, &got)
	return got, err
}
