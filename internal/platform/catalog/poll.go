package catalog

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Poll describes how to ask a platform for new events.
type Poll struct {
	// Every is the interval between polls of an account while things happen, Idle the longest interval of a quiet one.
	Every, Idle time.Duration
	Feeds       []*Feed
}

// Feed is a list of the platform that contains new events.
type Feed struct {
	Name string
	// Every is the minimum interval between two polls of this feed, or 0.
	Every time.Duration
	// Overlap is how far back a poll asks again, for items that appear late.
	Overlap time.Duration
	// Limit is the number of items in a full response.
	Limit int
	// Credentials lists what can read the feed; empty for all.
	Credentials []Credentials

	path  string
	query map[string]string
	times timeNotation
	// items is a path in the response. The other paths start at an item.
	items, order []string
	key          [][]string
	// as is the name of all frames of the feed. If it is empty, name is the path of an item's.
	as             string
	name, at, body []string
}

// timeNotation is how a feed writes the times in its query.
type timeNotation string

const (
	byObjectID timeNotation = "objectid"
	bySQLTime  timeNotation = "sqltime"
	byRFC3339  timeNotation = "rfc3339"
	byUnix     timeNotation = "unix"
)

// Item is one item of a feed.
type Item struct {
	// Key identifies the item among all feeds of the account: the name of the feed and the item's own key.
	Key string
	// At is the time by which since and until select the item, in whole seconds.
	At time.Time
	// Event is the item as an event. Its UpstreamID is Key.
	Event Event
	// Err is ErrChanged or ErrUnknownFrame for an item without an event. Such an item is skipped but counts as seen.
	Err error
}

// endOfTime stands for no end.
var endOfTime = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Request builds the request for the items whose time is at least since and before until, in whole seconds. The
// response may contain a few more. A zero until means no end.
func (f *Feed) Request(since, until time.Time) Request {
	if until.IsZero() {
		until = endOfTime
	}
	times := strings.NewReplacer("$since", f.times.format(since), "$until", f.times.format(until))
	query := url.Values{}
	for name, text := range f.query {
		query.Set(name, times.Replace(text))
	}
	return Request{Method: http.MethodGet, Path: f.path, Query: query.Encode()}
}

// format returns a time as the platform compares it.
func (n timeNotation) format(t time.Time) string {
	t = t.UTC()
	switch n {
	case byObjectID:
		// The first four bytes of an ObjectId are the second in which it was made.
		return fmt.Sprintf("%08x", uint32(min(max(t.Unix(), 0), 1<<32-1))) + "0000000000000000"
	case bySQLTime:
		return t.Format(time.DateTime)
	case byUnix:
		return strconv.FormatInt(t.Unix(), 10)
	case byRFC3339:
	}
	return t.Format(time.RFC3339)
}

// Items parses the response to Request. The items are in the order of the response. Errors are ErrInvalid and
// ErrChanged; an item without a key or a time is such a change, because it could not be remembered as seen.
func (c *Catalog) Items(f *Feed, body []byte) ([]Item, error) {
	t, err := tape.Read(body, responseLimits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	list, ok := t.Get(tape.Root, f.items)
	if !ok || t.Kind(list) != tape.Array {
		return nil, fmt.Errorf("%w: %s should be an array", ErrChanged, strings.Join(f.items, "."))
	}
	items := make([]Item, 0, t.Len(list))
	for node := range t.Items(list) {
		item := Item{}
		if item.Key, ok = f.readKey(t, node); !ok {
			return nil, fmt.Errorf("%w: an item of %s has no key", ErrChanged, f.Name)
		}
		if item.At, ok = f.readOrder(t, node); !ok {
			return nil, fmt.Errorf("%w: an item of %s has no time", ErrChanged, f.Name)
		}
		item.Event, item.Err = c.readItem(f, t, node)
		item.Event.UpstreamID = item.Key
		items = append(items, item)
	}
	return items, nil
}

// maxKey bounds the parts of a key, in bytes.
const maxKey = 200

// readKey returns the key of an item: the feed's name and the values of its paths, separated by colons.
func (f *Feed) readKey(t *tape.Tape, item uint32) (string, bool) {
	key := f.Name
	for _, path := range f.key {
		part := textAt(t, item, path)
		if part == "" || len(part) > maxKey || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return "", false
		}
		key += ":" + part
	}
	return key, true
}

// readOrder returns the time by which the platform selects an item, in whole seconds.
func (f *Feed) readOrder(t *tape.Tape, item uint32) (time.Time, bool) {
	at, ok := t.Get(item, f.order)
	if !ok {
		return time.Time{}, false
	}
	if f.times == byObjectID {
		text := scalarText(t, at)
		seconds, err := strconv.ParseUint(text[:min(8, len(text))], 16, 32)
		return time.Unix(int64(seconds), 0).UTC(), err == nil && len(text) == objectIDLength && t.Kind(at) == tape.String
	}
	when, ok := timeAt(t, at)
	return when.Truncate(time.Second), ok
}

// objectIDLength is the length of an ObjectId, in hexadecimal digits.
const objectIDLength = 24

// readItem maps an item to an event.
func (c *Catalog) readItem(f *Feed, t *tape.Tape, item uint32) (Event, error) {
	var e Event
	name := f.as
	if name == "" {
		name = textAt(t, item, f.name)
	}
	body, ok := t.Get(item, f.body)
	if name == "" || !ok {
		return e, fmt.Errorf("%w: an item of %s has no name or no body", ErrChanged, f.Name)
	}
	if e.At, ok = optionalTime(t, item, f.at); !ok {
		return e, fmt.Errorf("%w: the time of an item of %s is invalid", ErrChanged, f.Name)
	}
	k := kindOf(c.byFrame[name], t, body)
	if k == nil {
		return c.unknownEvent(e, t, name, body)
	}
	return k.mapBody(e, t, body, ResultSize(t.Literal(body)))
}

// compilePoll compiles the section poll.
func (c *compiler) compilePoll() {
	in := c.doc.Poll
	if in == nil {
		return
	}
	if c.doc.Socket != nil {
		c.upstreamFault("give either socket or poll")
	}
	p := &Poll{Every: c.duration("poll.every", in.Every), Idle: c.duration("poll.idle", in.Idle)}
	if p.Every > p.Idle {
		c.upstreamFault("poll: idle must not be shorter than every")
	}
	names := map[string]bool{}
	for _, feed := range in.Feeds {
		if names[feed.Name] {
			c.upstreamFault("poll.feeds: the name %s is used twice", feed.Name)
		}
		names[feed.Name] = true
		p.Feeds = append(p.Feeds, c.compileFeed(feed))
	}
	for _, by := range c.cat.Credentials() {
		if !slices.ContainsFunc(p.Feeds, func(f *Feed) bool { return f.Accepts(by) }) {
			c.upstreamFault("poll.feeds: no feed accepts the credentials %s", by)
		}
	}
	c.cat.Poll = p
}

func (c *compiler) compileFeed(in manifest.Feed) *Feed {
	where := "poll.feeds." + in.Name
	_, path, _ := strings.Cut(in.HTTP, " ")
	f := &Feed{
		Name: in.Name, Limit: in.Limit, Credentials: c.compileCredentials(manifest.Pos{File: "upstream.yaml"}, in.Credentials),
		Every: c.duration(where+".every", in.Every), Overlap: c.duration(where+".overlap", in.Overlap),
		path: c.cat.base + path, query: in.Query, times: timeNotation(in.Times),
		items: shape.SplitPath(in.Items), order: shape.SplitPath(in.Order),
		as: in.Frame.As, name: shape.SplitPath(in.Frame.Name), at: shape.SplitPath(in.Frame.At), body: shape.SplitPath(in.Frame.Body),
	}
	for _, path := range in.Key {
		f.key = append(f.key, shape.SplitPath(path))
	}
	for _, variable := range []string{"$since", "$until"} {
		found := false
		for _, text := range in.Query {
			found = found || strings.Contains(text, variable)
		}
		if !found {
			c.upstreamFault("%s: the query must contain %s", where, variable)
		}
	}
	if f.Overlap < time.Second {
		c.upstreamFault("%s: overlap must be at least 1s, because times are in whole seconds", where)
	}
	if f.as != "" && c.cat.byFrame[f.as] == nil && !c.cat.PassUnknown {
		c.upstreamFault("%s: no event has the frame %s", where, f.as)
	}
	return f
}
