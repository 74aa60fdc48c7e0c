package driver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Polled is the result of a poll.
type Polled struct {
	// Events are ordered from oldest to newest. No event is in the results of two polls that continue each other.
	Events []catalog.Event
	// Position is where the next poll continues. Store it together with the events. Moved means that it says more about
	// events than the given one; otherwise only its schedule differs, and it need not be stored.
	Position string
	Moved    bool
	// Skipped counts items that could not be mapped, and feeds that the platform refused.
	Skipped int
	// Gap means that a second had more items than a response can hold, or that the given position is not one.
	Gap bool
	// More means that more is known to follow. Poll again without waiting.
	More bool
	// Wait is the time until the next feed is due, or 0 if one is.
	Wait time.Duration
	Answer
}

// Poll asks the feed that has been due longest for new items. It sends one request, or none if no feed is due. A feed
// that is new to the position starts at the present; with an empty position all of them do. Feeds that the session's
// credentials cannot read are skipped.
func (d *HTTP) Poll(ctx context.Context, via Via, s Session, position string) (Polled, error) {
	spec := d.deps.Catalog.Poll
	if spec == nil || len(spec.Feeds) == 0 {
		return Polled{Position: position, Answer: Answer{Session: s}}, ErrNoSocket
	}
	readable := *spec
	readable.Feeds = slices.DeleteFunc(slices.Clone(spec.Feeds), func(f *catalog.Feed) bool { return !f.Accepts(s.Credentials()) })
	feeds, ok := decodePosition(&readable, position)
	p := Polled{Position: position, Gap: !ok && position != "", Answer: Answer{Session: s}}
	var err error
	if !ok {
		err = d.startFeeds(ctx, via, &p, feeds)
	} else if f := nextFeed(feeds, d.deps.Now()); f != nil {
		err = d.pollFeed(ctx, via, &p, f)
	}
	if err != nil {
		return p, err
	}
	p.Position, p.Wait = encodePosition(feeds), untilDue(feeds, d.deps.Now())
	return p, nil
}

// startFeeds starts all feeds. It fails if the platform refuses all of them.
func (d *HTTP) startFeeds(ctx context.Context, via Via, p *Polled, feeds []*feedState) error {
	var refused error
	started := 0
	for _, f := range feeds {
		switch err := d.startFeed(ctx, via, p, f); {
		case isFeedRefused(err):
			refused = err
		case err != nil:
			return err
		default:
			started++
		}
	}
	if started == 0 {
		return refused
	}
	return nil
}

// pollFeed asks one feed. If the platform refuses this feed, for example because the creator's role may not read it,
// the others must go on.
func (d *HTTP) pollFeed(ctx context.Context, via Via, p *Polled, f *feedState) error {
	if f.Time == 0 {
		err := d.startFeed(ctx, via, p, f)
		if isFeedRefused(err) {
			return nil
		}
		return err
	}
	continued := f.Round != nil
	since, until := f.window()
	items, at, err := d.askFeed(ctx, via, p, f, since, until)
	if isFeedRefused(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := f.apply(items, since, until, at)
	if err != nil {
		return responseProblem(d.deps.Catalog.Verify, err)
	}
	p.Events, p.Gap, p.More = found.events, found.gap, f.Round != nil
	p.Skipped += found.skipped
	p.Moved = len(found.events) > 0 || found.skipped > 0 || found.gap || p.More || continued
	return nil
}

// startFeed makes everything that a feed has now count as seen.
func (d *HTTP) startFeed(ctx context.Context, via Via, p *Polled, f *feedState) error {
	err := f.start(d.deps.Now().Unix(), func(since int64) ([]catalog.Item, int64, error) {
		return d.askFeed(ctx, via, p, f, since, 0)
	})
	p.Moved = p.Moved || err == nil
	return err
}

// isFeedRefused reports whether the platform refuses one feed although the session is valid.
func isFeedRefused(err error) bool {
	refused, ok := errors.AsType[*Refused](err)
	if !ok {
		return false
	}
	switch refused.Kind {
	case catalog.RefusedForbidden, catalog.RefusedNotFound, catalog.RefusedRejected, catalog.RefusedCreatorOnly:
		return true
	case catalog.RefusedSession, catalog.RefusedRestricted, catalog.RefusedRateLimited, catalog.RefusedConflict,
		catalog.RefusedUnavailable, catalog.RefusedError:
	}
	return false
}

// askFeed sends the request for a window of a feed. at is the platform's time when it received the request, in seconds.
// Also on error, it adds to the poll's answer.
func (d *HTTP) askFeed(
	ctx context.Context, via Via, p *Polled, f *feedState, since, until int64,
) (items []catalog.Item, at int64, err error) {
	var end time.Time
	if until > 0 {
		end = time.Unix(until, 0)
	}
	r, err := d.exchange(ctx, via, p.Session, f.feed.Request(time.Unix(since, 0), end), egress.Limits{Bytes: sinceBytes})
	a := d.newAnswer(p.Session, r)
	p.Session, p.Changed = a.Session, append(p.Changed, a.Changed...)
	p.Took, p.Received = p.Took+a.Took, p.Received+a.Received
	if err != nil {
		return nil, 0, d.transportProblem(ctx, d.deps.Catalog.Verify, err)
	}
	now := d.deps.Now()
	f.Asked = now.Unix()
	if refused := d.classifyReply(r); refused != nil {
		if isFeedRefused(refused) {
			p.Skipped++
		}
		return nil, 0, refused
	}
	if items, err = d.deps.Catalog.Items(f.feed, r.body); err != nil {
		return nil, 0, responseProblem(d.deps.Catalog.Verify, err)
	}
	// Times of items are the platform's, so its clock counts. What became visible while it worked may be missing.
	if date, err := http.ParseTime(r.header.Get("Date")); err == nil {
		now = date
	}
	return items, now.Add(-r.took).Unix(), nil
}
