package driver

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// This file decides which part of a feed a poll asks for, and which items of the response are new. It does no I/O.
//
// A poll asks for everything since the greatest time that was seen, less the feed's overlap, because items can appear
// late. The position remembers the keys of the items in the overlap, so that each becomes an event once. If a response
// is full, a round begins: the poll asks for shorter windows, from the oldest to the present, one per call. All times
// are whole seconds of the platform.

// maxSeen bounds the keys that a position remembers per feed, and so the size of a position: about 32 kB per feed. If
// there are more, the overlap is shortened.
const maxSeen = 4_000

// feedState is the position within one feed.
type feedState struct {
	feed *catalog.Feed
	// every is the interval between two requests, in seconds.
	every int64
	// seen holds the hashes of keys, and the times of their items.
	seen map[string]int64

	// Time is the greatest time of a seen item, but not later than the last round began. It is 0 for a feed that has not
	// started.
	Time int64 `json:"t,omitempty"`
	// Floor is the earliest time that is asked for, also within the overlap.
	Floor int64 `json:"f,omitempty"`
	// Asked is when the feed was last asked, by our clock.
	Asked int64  `json:"a"`
	Round *round `json:"r,omitempty"`
	// Seen is the encoded seen.
	Seen string `json:"seen,omitempty"`
}

// round is a series of windows.
type round struct {
	// Next is the start of the next window, Width its length. End is known to be after all items, and Began is when the
	// round began.
	Next  int64 `json:"n"`
	Width int64 `json:"w"`
	End   int64 `json:"e"`
	Began int64 `json:"b"`
}

// storedPosition is the JSON of a position.
type storedPosition struct {
	Feeds map[string]*feedState `json:"feeds"`
}

// decodePosition returns the state of every feed of the manifest. It returns false if the text is not a position; then
// no feed is started.
func decodePosition(spec *catalog.Poll, text string) (feeds []*feedState, ok bool) {
	var st storedPosition
	ok = json.Unmarshal([]byte(text), &st) == nil && st.Feeds != nil
	for _, feed := range spec.Feeds {
		f := st.Feeds[feed.Name]
		if f == nil {
			f = &feedState{}
		}
		f.feed, f.every = feed, seconds(max(feed.Every, spec.Every))
		var valid bool
		f.seen, valid = decodeSeen(f.Seen, f.Time)
		ok = ok && valid && (f.Round == nil || f.Round.Width > 0)
		feeds = append(feeds, f)
	}
	if !ok {
		for i, f := range feeds {
			feeds[i] = &feedState{feed: f.feed, every: f.every}
		}
	}
	return feeds, ok
}

// encodePosition is the reverse of decodePosition.
func encodePosition(feeds []*feedState) string {
	st := storedPosition{Feeds: map[string]*feedState{}}
	for _, f := range feeds {
		f.Seen = encodeSeen(f.seen, f.Time)
		st.Feeds[f.feed.Name] = f
	}
	text, err := json.Marshal(st)
	if err != nil {
		panic("driver: cannot encode a position: " + err.Error())
	}
	return string(text)
}

// hashLength is the length of a key's hash, in characters.
const hashLength = 8

func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:hashLength*6/8])
}

// encodeSeen writes the hashes of each second after the distance of that second from a time: "0:hashhash,3:hash".
func encodeSeen(seen map[string]int64, from int64) string {
	var text strings.Builder
	last := int64(0)
	for i, hash := range slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b))
	}) {
		if i == 0 || seen[hash] != last {
			if last = seen[hash]; i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(strconv.FormatInt(from-last, 10))
			text.WriteByte(':')
		}
		text.WriteString(hash)
	}
	return text.String()
}

// decodeSeen is the reverse of encodeSeen. It returns false if the text is not a result of encodeSeen.
func decodeSeen(text string, from int64) (map[string]int64, bool) {
	seen := map[string]int64{}
	if text == "" {
		return seen, true
	}
	for group := range strings.SplitSeq(text, ",") {
		distance, hashes, found := strings.Cut(group, ":")
		n, err := strconv.ParseInt(distance, 10, 64)
		if err != nil || !found || len(hashes)%hashLength != 0 {
			return nil, false
		}
		for ; hashes != ""; hashes = hashes[hashLength:] {
			seen[hashes[:hashLength]] = from - n
		}
	}
	return seen, true
}

func (f *feedState) overlap() int64 { return int64(f.feed.Overlap / time.Second) }

// due returns when the feed may be asked again, by our clock.
func (f *feedState) due(now int64) int64 {
	if f.Asked == 0 || f.Asked > now || f.Round != nil { // Asked is in the future if another node's clock is ahead
		return 0
	}
	return f.Asked + f.every
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// nextFeed returns the feed that has been due longest, or nil if none is due.
func nextFeed(feeds []*feedState, now time.Time) *feedState {
	next := slices.MinFunc(feeds, func(a, b *feedState) int { return cmp.Compare(a.due(now.Unix()), b.due(now.Unix())) })
	if next.due(now.Unix()) > now.Unix() {
		return nil
	}
	return next
}

// untilDue returns the time until a feed is due, or 0 if one is.
func untilDue(feeds []*feedState, now time.Time) time.Duration {
	first := feeds[0].due(now.Unix())
	for _, f := range feeds {
		first = min(first, f.due(now.Unix()))
	}
	return max(time.Unix(first, 0).Sub(now), 0)
}

// window returns the part of the feed to ask for next. An until of 0 means no end.
func (f *feedState) window() (since, until int64) {
	if f.Round == nil {
		return max(f.Time-f.overlap(), f.Floor), 0
	}
	since = max(f.Round.Next, f.Floor)
	if until = since + f.Round.Width; until >= f.Round.End {
		until = 0
	}
	return since, until
}

// start begins the feed at the present. Everything in the overlap counts as seen. If a response cannot hold it, the
// overlap is shortened until it can, because listing all of it could take long. ask returns the items since a time, and
// the platform's time. clock is ours.
func (f *feedState) start(clock int64, ask func(since int64) (items []catalog.Item, now int64, err error)) error {
	since, floor, began := clock-f.overlap(), int64(0), int64(0)
	for {
		items, now, err := ask(since)
		if err != nil {
			return err
		}
		first := began == 0
		if first {
			began = now
		}
		switch {
		case first && since > began-f.overlap(): // our clock is ahead of the platform's
			since = began - f.overlap()
			continue
		case len(items) >= f.feed.Limit && since < began:
			since += (began - since + 1) / 2
			floor = since
			continue
		}
		f.Time, f.Floor, f.Round, f.seen = began, floor, nil, map[string]int64{}
		for i := range items {
			f.seen[hashKey(items[i].Key)] = items[i].At.Unix()
		}
		f.forget()
		return nil
	}
}

// newItems is what a response has brought.
type newItems struct {
	events  []catalog.Event
	skipped int
	gap     bool
}

// apply takes the response for a window that was asked for at a time of the platform. It returns ErrChanged if the
// platform ignores the window.
func (f *feedState) apply(items []catalog.Item, since, until, now int64) (newItems, error) {
	full := len(items) >= f.feed.Limit
	items = slices.DeleteFunc(slices.Clone(items), func(i catalog.Item) bool {
		return i.At.Unix() < since || until > 0 && i.At.Unix() >= until
	})
	r := round{End: now + 1, Began: now}
	if f.Round != nil {
		r = *f.Round
	}
	for i := range items {
		r.End = max(r.End, items[i].At.Unix()+1)
	}
	end := until
	if until == 0 {
		end = r.End
	}
	switch {
	case full && len(items) == 0:
		return newItems{}, fmt.Errorf("%w: the feed %s ignores the times in its request", catalog.ErrChanged, f.feed.Name)
	case full && end-since > 1:
		r.Next, r.Width = since, (end-since)/2
		f.Round = &r
		return newItems{}, nil
	}
	return f.take(items, since, until, r.Began, full), nil
}

// take makes the items of a complete window events. full means that the window cannot be shortened, so some of its
// items are missing.
func (f *feedState) take(items []catalog.Item, since, until, began int64, full bool) newItems {
	found := newItems{gap: full}
	sortItems(items)
	for i := range items {
		hash, at := hashKey(items[i].Key), items[i].At.Unix()
		// A later time would hide items that become visible after the round began. A time in the future would hide all.
		f.Time = max(f.Time, min(at, began))
		if _, known := f.seen[hash]; known {
			continue
		}
		f.seen[hash] = at
		if items[i].Err != nil {
			found.skipped++
		} else {
			found.events = append(found.events, items[i].Event)
		}
	}
	if full {
		f.Floor = max(f.Floor, since+1) // asking for this second again would only report the gap again
	}
	if until == 0 {
		f.Round = nil
	} else {
		f.Round.Next, f.Round.Width = until, 2*(until-since)
	}
	f.forget()
	return found
}

// sortItems orders items from oldest to newest. Within a second it goes by the last part of the key, which is usually an
// id that grows; the order of the response says nothing, because a platform may list the newest first.
func sortItems(items []catalog.Item) {
	id := func(i catalog.Item) string { return i.Key[strings.LastIndexByte(i.Key, ':')+1:] }
	slices.SortFunc(items, func(a, b catalog.Item) int {
		return cmp.Or(a.At.Compare(b.At), a.Event.At.Compare(b.Event.At),
			cmp.Compare(len(id(a)), len(id(b))), strings.Compare(id(a), id(b)), strings.Compare(a.Key, b.Key))
	})
}

// forget removes the keys of items that are not asked for again.
func (f *feedState) forget() {
	since := max(f.Time-f.overlap(), f.Floor)
	if f.Round != nil {
		since = min(since, f.Round.Next)
	}
	maps.DeleteFunc(f.seen, func(_ string, at int64) bool { return at < since })
	if len(f.seen) <= maxSeen {
		return
	}
	times := slices.Sorted(maps.Values(f.seen))
	f.Floor = times[len(times)-maxSeen-1] + 1
	maps.DeleteFunc(f.seen, func(_ string, at int64) bool { return at < f.Floor })
}
