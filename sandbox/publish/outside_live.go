package publish

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// someStory returns the given story, or else the newest active one, or else a new one.
func someStory(c *world.Creator, in fanaction.Input) (*row.Story, error) {
	if in.Ref != 0 {
		s := c.Stories().Get(in.Ref)
		if s == nil {
			return nil, fmt.Errorf("story %d does not exist", in.Ref)
		}
		return s, nil
	}
	all := c.Stories().All()
	for i := range all {
		if s := all[len(all)-1-i]; shown(s, c.Now()) {
			return s, nil
		}
	}
	return storyOutside(c, in)
}

// storyOutside publishes a story as if the creator made it in the platform's own app. It shows the newest picture of
// the vault.
func storyOutside(c *world.Creator, in fanaction.Input) (*row.Story, error) {
	var newest *row.Media
	for _, m := range c.Media().All() {
		if m.State == "ready" && m.Type == "photo" && (newest == nil || m.At.After(newest.At)) {
			newest = m
		}
	}
	if newest == nil {
		return nil, errors.New("the vault has no picture: upload one first")
	}
	s := newStory(c, &row.Story{Media: newest.ID, Text: in.Text})
	publishStory(c, s.ID)
	return s, nil
}

func storyFromPhone(c *world.Creator, in fanaction.Input) error {
	_, err := storyOutside(c, in)
	return err
}

func storyEnds(c *world.Creator, in fanaction.Input) error {
	s, err := someStory(c, in)
	if err != nil {
		return err
	}
	if !shown(s, c.Now()) {
		return fmt.Errorf("story %d is not active", s.ID)
	}
	s.Expires = c.Now()
	expireStory(c, s.ID)
	return nil
}

// viewStory makes fans view a story: as many as in.Count says, at least one and at most 500.
func viewStory(c *world.Creator, in fanaction.Input) error {
	s, err := someStory(c, in)
	if err != nil {
		return err
	}
	known := map[int64]bool{}
	for _, v := range viewers(c, s) {
		known[v.Person] = true
	}
	seen := slices.Clone(s.Seen)
	for range min(max(in.Count, 1), 500) {
		fan, err := fanFor(c, in, known)
		if err != nil {
			return err
		}
		if known[fan.ID] {
			break
		}
		known[fan.ID] = true
		seen = append(seen, row.Viewing{Person: fan.ID, At: c.Now()})
	}
	s.Seen = seen
	c.Stories().Put(s)
	c.Flash(frameStoryViewed, map[string]any{"story_id": s.ID, "views": s.Views + len(s.Seen)})
	return nil
}

func planOnPhone(c *world.Creator, in fanaction.Input) error {
	planStream(c, &row.Stream{Title: in.Words("Surprise stream"), Audience: "fans", Starts: c.Now().Add(24 * time.Hour)})
	return nil
}

// someStream returns the given stream, which must be in the given state, or else the first one in that state, or nil.
func someStream(c *world.Creator, in fanaction.Input, state string) (*row.Stream, error) {
	if in.Ref != 0 {
		s := c.Streams().Get(in.Ref)
		if s == nil || s.State != state {
			return nil, fmt.Errorf("no %s stream has the id %d", state, in.Ref)
		}
		return s, nil
	}
	for _, s := range c.Streams().All() {
		if s.State == state {
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // callers create a stream if there is none
}

// goLive starts the given stream, or else a new one, so that planned streams stay planned.
func goLive(c *world.Creator, in fanaction.Input) error {
	if in.Ref != 0 {
		s, err := someStream(c, in, "scheduled")
		if err != nil {
			return err
		}
		s.Starts = c.Now()
		startStream(c, s.ID)
		return nil
	}
	newLive(c, in)
	return nil
}

func newLive(c *world.Creator, in fanaction.Input) *row.Stream {
	s := &row.Stream{
		Rec: row.Rec{ID: c.Streams().NextID()}, Title: in.Words("Live now"), State: "live", Audience: "fans", Starts: c.Now(), Started: c.Now(), At: c.Now(),
	}
	c.Streams().Put(s)
	c.At(s.Started.Add(streamLife), dueStop, s.ID)
	c.Emit(frameStarted, map[string]any{"stream": view.Stream(c, s)})
	return s
}

// liveStream returns the given live stream, or else the first one, or else a new one.
func liveStream(c *world.Creator, in fanaction.Input) (*row.Stream, error) {
	s, err := someStream(c, in, "live")
	if err == nil && s == nil {
		s = newLive(c, fanaction.Input{})
	}
	return s, err
}

func endLive(c *world.Creator, in fanaction.Input) error {
	s, err := liveStream(c, in)
	if err != nil {
		return err
	}
	closeStream(c, s, c.Now())
	return nil
}

func renameLive(c *world.Creator, in fanaction.Input) error {
	s, err := liveStream(c, in)
	if err != nil {
		return err
	}
	s.Title = in.Words(s.Title + " (now with requests)")
	saveStream(c, s)
	return nil
}

func commentLive(c *world.Creator, in fanaction.Input) error {
	s, err := liveStream(c, in)
	if err != nil {
		return err
	}
	fan, err := in.Person(c)
	if err != nil {
		return err
	}
	table := c.StreamComments(s.ID)
	m := &row.Comment{Rec: row.Rec{ID: table.NextID()}, Parent: s.ID, Author: fan.ID, Text: in.Words("Hello from " + fan.Country + "!"), At: c.Now()}
	table.Put(m)
	c.Emit(frameStreamWords, map[string]any{"stream_id": s.ID, "comment": view.Comment(c, m)})
	ledger.Notify(c, &row.Notice{Type: "comments", Text: ledger.Name(fan) + " commented on your stream.", Person: fan.ID, RefKind: row.KindStream, Ref: s.ID})
	return nil
}

// joinLive makes a fan join a stream, or leave it if in.Count is negative.
func joinLive(c *world.Creator, in fanaction.Input) error {
	s, err := liveStream(c, in)
	if err != nil {
		return err
	}
	fan, err := in.Person(c)
	if err != nil {
		return err
	}
	body := map[string]any{"stream_id": s.ID, "joined": nil, "left": nil}
	if in.Count < 0 {
		s.Viewers = max(s.Viewers+in.Count, 0)
		body["left"] = view.Person(c, fan)
	} else {
		s.Viewers += max(in.Count, 1)
		body["joined"] = view.Person(c, fan)
	}
	s.Peak = max(s.Peak, s.Viewers)
	c.Streams().Put(s)
	body["viewers"] = s.Viewers
	c.Flash(frameViewers, body)
	return nil
}

func likeLive(c *world.Creator, in fanaction.Input) error {
	s, err := liveStream(c, in)
	if err != nil {
		return err
	}
	s.Likes += max(in.Count, 1)
	c.Streams().Put(s)
	c.Flash(frameStreamLiked, map[string]any{"stream_id": s.ID, "likes": s.Likes})
	return nil
}
