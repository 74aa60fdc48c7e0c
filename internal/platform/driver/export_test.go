package driver

import (
	"encoding/json"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// DecodeSlowly is DecodeSession without decodePlain.
func DecodeSlowly(text secret.String) (Session, error) {
	var st stored
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return Session{}, errStored
	}
	return st.toSession(), nil
}

// ReadsQuickly reports whether decodePlain accepts an encoded session.
func ReadsQuickly(text secret.String) bool {
	_, ok := decodePlain(text)
	return ok
}

// ReadIdentity parses the result of a probe.
func ReadIdentity(result []byte) (Identity, bool) { return readIdentity(result) }

// PollOnce polls a feed without HTTP. ask returns the items of a window, and the platform's time. An empty position
// starts the feed; clock is our time.
func PollOnce(feed *catalog.Feed, position string, clock int64, ask func(since, until int64) ([]catalog.Item, int64)) (p Polled, err error) {
	feeds, ok := decodePosition(&catalog.Poll{Feeds: []*catalog.Feed{feed}}, position)
	f := feeds[0]
	if ok {
		since, until := f.window()
		items, now := ask(since, until)
		var found newItems
		found, err = f.apply(items, since, until, now)
		p = Polled{Events: found.events, Skipped: found.skipped, Gap: found.gap, More: f.Round != nil}
	} else {
		err = f.start(clock, func(since int64) ([]catalog.Item, int64, error) {
			items, now := ask(since, 0)
			return items, now, nil
		})
	}
	p.Position = encodePosition(feeds)
	return p, err
}
