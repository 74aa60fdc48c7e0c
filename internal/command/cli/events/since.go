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

// oldest is the place before all events that are kept.
const oldest = "0"

// page is some of the newest events, newest first.
type page struct {
	Events []struct {
		ID string    `json:"id"`
		TS time.Time `json:"ts"`
	} `json:"events"`
	NextCursor *string `json:"nextCursor"`
}

// placeOf turns --since into a place in the log: now, all, an event to go on behind, a time, or a duration back from now.
func placeOf(ctx context.Context, app *core.App, w which, since string) (string, error) {
	switch {
	case since == "now":
		return "", nil
	case since == "all":
		return oldest, nil
	case strings.HasPrefix(since, "evt_"):
		return placeOfEvent(ctx, app, since)
	}
	at, err := app.Since(since)
	if err != nil {
		return "", core.UsageHint("Write it like 15m, 1h or 2d, as a time, as an event's id, or as now or all.", "--since: %q is not a place in the log", since)
	}
	return search(ctx, app, w.query(), func(_ string, ts time.Time) bool { return ts.Before(at) }, func(time.Time) bool { return false })
}

func placeOfEvent(ctx context.Context, app *core.App, id string) (string, error) {
	var got struct {
		Event struct {
			TS time.Time `json:"ts"`
		} `json:"event"`
	}
	if _, err := app.Get(ctx, "/v1/events/"+url.PathEscape(id), nil, &got); err != nil {
		return "", err
	}
	// Events are not stored exactly in the order of their times; a minute is far more than they differ.
	end := got.Event.TS.Add(-time.Minute)
	place, err := search(ctx, app, url.Values{}, func(one string, _ time.Time) bool { return one == id }, end.After)
	if err == nil && place == oldest {
		return "", fmt.Errorf("event %s was not found in the log", id)
	}
	return place, err
}

// search walks back from the newest event to the first one that found says yes to, and gives its place; oldest if there is none.
// The API gives the place of the last event of a page only, so the page is asked for once more, cut behind that event.
func search(ctx context.Context, app *core.App, query url.Values, found func(id string, ts time.Time) bool, past func(time.Time) bool) (string, error) {
	spin := app.Out.Spin("Looking for the place in the log…")
	defer spin.Stop()
	for {
		got, err := newest(ctx, app, query, 100)
		if err != nil {
			return "", err
		}
		for i, e := range got.Events {
			if past(e.TS) {
				return oldest, nil
			}
			if !found(e.ID, e.TS) {
				continue
			}
			cut, err := newest(ctx, app, query, i+1)
			if err != nil {
				return "", err
			}
			// Events that came in the meantime push this one off the page.
			if len(cut.Events) == i+1 && cut.Events[i].ID == e.ID && cut.NextCursor != nil {
				return *cut.NextCursor, nil
			}
			if cut.NextCursor == nil {
				return firstOf(ctx, app, query, e.ID)
			}
			return search(ctx, app, query, found, past)
		}
		if got.NextCursor == nil {
			return oldest, nil
		}
		query.Set("before", *got.NextCursor)
	}
}

// firstOf is the place of the oldest event, which has none on a page that ends with it: a page from the other side has it. With a
// filter such a page may be empty and yet not be the last.
func firstOf(ctx context.Context, app *core.App, query url.Values, id string) (string, error) {
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
			return oldest, nil
		case len(got.Events) == 0:
			query.Set("after", *got.NextCursor)
		case got.Events[0].ID == id:
			return *got.NextCursor, nil
		default:
			return oldest, nil
		}
	}
}

func newest(ctx context.Context, app *core.App, query url.Values, n int) (page, error) {
	query.Set("latest", strconv.Itoa(n))
	var got page
	_, err := app.Get(ctx, "/v1/events", query, &got)
	return got, err
}
