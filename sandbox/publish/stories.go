package publish

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// storyLife is how long a story is shown.
const storyLife = 24 * time.Hour

func storyRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /stories/active", Handle: activeStories},
		{Pattern: "GET /stories/archive", Handle: archivedStories},
		{Pattern: "POST /stories", Handle: wire.Read(createStory)},
		{Pattern: "GET /stories/{story_id}", Handle: wire.Show(story, view.Story)},
		{Pattern: "DELETE /stories/{story_id}", Handle: wire.Remove(story, (*world.Creator).Stories)},
		{Pattern: "GET /stories/{story_id}/viewers", Handle: wire.On(story, listViewers)},
		{Pattern: "GET /stories/{story_id}/stats", Handle: wire.Show(story, view.StoryStats)},
		{Pattern: "PUT /stories/{story_id}/watched", Handle: wire.On(story, watchStory)},
	}
}

func shown(s *row.Story, now time.Time) bool { return s.Live && !s.Expired && s.Expires.After(now) }

func activeStories(c *wire.Call) (any, error) {
	rows := wire.Filter(c.Stories().All(), func(s *row.Story) bool { return shown(s, c.Now()) })
	return wire.Whole(rows, func(s *row.Story) any { return view.Story(c.Creator, s) }), nil
}

func archivedStories(c *wire.Call) (any, error) {
	rows := wire.Filter(c.Stories().All(), func(s *row.Story) bool { return s.Live && !shown(s, c.Now()) })
	order := wire.Order[*row.Story]{Rank: func(s *row.Story) int64 { return s.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(s *row.Story) any { return view.Story(c.Creator, s) })
}

func story(c *wire.Call) (*row.Story, error) {
	return wire.Found("story", c.Stories().Get(c.ID("story_id")))
}

type createStoryInput struct {
	Media    int64   `json:"attachment"`
	Text     string  `json:"text"`
	Link     int64   `json:"link_user_id"`
	Question string  `json:"question"`
	Forms    []int64 `json:"release_form_ids"`
}

func createStory(c *wire.Call, in *createStoryInput) (any, error) {
	if err := cmp.Or(mediaExist(c.Creator, "attachment", []int64{in.Media}), formsExist(c.Creator, in.Forms)); err != nil {
		return nil, err
	}
	if in.Link != 0 && c.People().Get(in.Link) == nil {
		return nil, wire.Invalid("link_user_id", "This user does not exist.")
	}
	s := newStory(c.Creator, &row.Story{Media: in.Media, Text: in.Text, LinkUser: in.Link, Question: in.Question, Forms: in.Forms})
	return view.Story(c.Creator, s), nil
}

// newStory stores a story and sets the timer to publish it in a moment.
func newStory(c *world.Creator, s *row.Story) *row.Story {
	now := c.Now()
	s.ID, s.At, s.Expires = c.Stories().NextID(), now, now.Add(storyLife)
	c.Stories().Put(s)
	file(c, "stories", s.Media)
	c.At(now.Add(moment), dueStory, s.ID)
	return s
}

func publishStory(c *world.Creator, id int64) {
	s := c.Stories().Get(id)
	if s == nil || s.Live {
		return
	}
	s.Live = true
	c.Stories().Put(s)
	c.At(s.Expires, dueStoryEnd, s.ID)
	c.Emit(frameStory, map[string]any{"story": view.Story(c, s)})
}

func expireStory(c *world.Creator, id int64) {
	s := c.Stories().Get(id)
	if s == nil || !s.Live || s.Expired || s.Expires.After(c.Now()) {
		return
	}
	s.Expired = true
	c.Stories().Put(s)
	c.Emit(frameStoryEnd, map[string]any{"story_id": s.ID})
}

// viewer is a person who saw a story. The latest has the highest rank.
type viewer struct {
	row.Viewing
	rank int64
}

func (v *viewer) Key() int64 { return v.Person }

// viewers returns everyone who saw a story, as many as its number of views.
func viewers(c *world.Creator, s *row.Story) []*viewer {
	list := make([]*viewer, 0, s.Views+len(s.Seen))
	for k := range s.Views {
		list = append(list, &viewer{seed.Viewing(c.Profile.Origin, s, k), int64(k)})
	}
	for k, seen := range s.Seen {
		list = append(list, &viewer{seen, int64(s.Views + k)})
	}
	return list
}

type viewerView struct {
	User  view.User  `json:"user"`
	At    view.Stamp `json:"seen_at"`
	Liked bool       `json:"is_liked"`
}

func listViewers(c *wire.Call, s *row.Story) (any, error) {
	order := wire.Order[*viewer]{Rank: func(v *viewer) int64 { return v.rank }}
	return wire.Page(c, viewers(c.Creator, s), order, func(v *viewer) any {
		return viewerView{User: view.PersonByID(c.Creator, v.Person), At: view.Stamp(v.At), Liked: v.Liked}
	})
}

func watchStory(c *wire.Call, s *row.Story) (any, error) {
	s.Watched = true
	c.Stories().Put(s)
	return wire.OK, nil
}
