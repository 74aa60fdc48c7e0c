package publish

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func postWriteRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "POST /posts", Handle: wire.Read(createPost)},
		{Pattern: "PATCH /posts/{post_id}", Handle: wire.ReadOn(ownPost, updatePost)},
		{Pattern: "DELETE /posts/{post_id}", Handle: wire.On(ownPost, deletePost)},
		{Pattern: "POST /posts/{post_id}/archive", Handle: wire.ReadOn(publishedPost, archivePost)},
		{Pattern: "POST /posts/{post_id}/unarchive", Handle: wire.On(publishedPost, unarchivePost)},
		{Pattern: "PUT /posts/{post_id}/pin", Handle: wire.Set(publishedPost, setPostPin, true)},
		{Pattern: "DELETE /posts/{post_id}/pin", Handle: wire.Set(publishedPost, setPostPin, false)},
	}
}

type postInput struct {
	Text        string       `json:"text"`
	Media       []int64      `json:"attachments"`
	Previews    []int64      `json:"previews"`
	Price       view.Dollars `json:"price"`
	PublishAt   view.Stamp   `json:"publish_at"`
	Days        int          `json:"expires_in_days"`
	Labels      []int64      `json:"label_ids"`
	Poll        *pollInput   `json:"poll"`
	Fundraising *fundInput   `json:"fundraising"`
	Forms       []int64      `json:"release_form_ids"`
	Mentions    []int64      `json:"mention_ids"`
	Save        bool         `json:"save_for_later"`
}

type pollInput struct {
	Question string     `json:"question"`
	Options  []string   `json:"options"`
	EndsAt   view.Stamp `json:"ends_at"`
}

type fundInput struct {
	Title  string       `json:"title"`
	Target view.Dollars `json:"target"`
}

func (in *postInput) Check(c *wire.Call) error {
	if in.Price < 0 {
		return wire.Invalid("price", "The price must not be negative.")
	}
	if in.Poll != nil && (len(in.Poll.Options) < 2 || len(in.Poll.Options) > maxOptions) {
		return wire.Invalid("poll.options", "A poll must have 2 to 10 options.")
	}
	if in.Fundraising != nil && in.Fundraising.Target <= 0 {
		return wire.Invalid("fundraising.target", "The target must be positive.")
	}
	return cmp.Or(
		mediaExist(c.Creator, "attachments", in.Media), mediaExist(c.Creator, "previews", in.Previews),
		formsExist(c.Creator, in.Forms),
		exist("label_ids", in.Labels, func(id int64) bool { return c.Labels().Get(id) != nil }),
		exist("mention_ids", in.Mentions, func(id int64) bool { return c.People().Get(id) != nil }),
	)
}

func createPost(c *wire.Call, in *postInput) (any, error) {
	p := &row.Post{
		Rec: row.Rec{ID: c.Posts().NextID()}, Author: c.Profile.ID, Text: in.Text, Media: in.Media, Previews: in.Previews, Price: int64(in.Price),
		Labels: in.Labels, Forms: in.Forms, Mentions: in.Mentions, Saved: in.Save, Days: in.Days, At: c.Now(), Scheduled: time.Time(in.PublishAt),
	}
	if in.Poll != nil {
		p.Poll = newPoll(p.ID, in.Poll)
	}
	if in.Fundraising != nil {
		p.Fundraising = &row.Fundraising{Title: in.Fundraising.Title, Target: int64(in.Fundraising.Target)}
	}
	file(c.Creator, "posts", p.Media...)
	schedule(c.Creator, p, p.Scheduled)
	return view.Post(c.Creator, p), nil
}

// newPoll creates a poll. The ids of its options follow from the id of the post.
func newPoll(post int64, in *pollInput) *row.Poll {
	p := &row.Poll{Question: in.Question, EndsAt: time.Time(in.EndsAt)}
	for i, text := range in.Options {
		p.Options = append(p.Options, row.PollOption{ID: optionID(post, i), Text: text})
	}
	return p
}

const maxOptions = 10

// optionID returns the id of an option in a post that was not seeded. Each post has room for maxOptions ids.
func optionID(post int64, i int) int64 {
	creator := row.Owner(post)
	n := post - row.MadeID(creator, row.KindPost, 0)
	return row.MadeID(creator, row.KindPollOption, n*maxOptions+int64(i))
}

// schedule stores a post and sets the timer to publish it at the given time, or in a moment if that has passed. A saved
// post gets no timer.
func schedule(c *world.Creator, p *row.Post, at time.Time) {
	now := c.Now()
	p.Scheduled = at
	if !at.After(now) {
		p.Scheduled = time.Time{}
		at = now.Add(moment)
	}
	c.Posts().Put(p)
	if !p.Saved {
		c.At(at, duePublish, p.ID)
	}
}

// publishPost publishes a post that is due. A scheduled post without text whose media were all deleted goes back to the
// drafts.
func publishPost(c *world.Creator, id int64) {
	p := c.Posts().Get(id)
	now := c.Now()
	if p == nil || p.Saved || !p.Published.IsZero() || p.Scheduled.After(now) {
		return
	}
	queued := !p.Scheduled.IsZero()
	if queued && p.Text == "" && len(p.Media) > 0 && len(view.MediaList(c, p.Media)) == 0 {
		failPost(c, p, "All media of the post were deleted.")
		return
	}
	item := queueItem("post", p.ID, p.Scheduled, "published")
	p.Published = now
	if queued { // the clock may have been set forward
		p.Published = p.Scheduled
	}
	if p.Days > 0 {
		p.Expires = p.Published.AddDate(0, 0, p.Days)
		c.At(p.Expires, dueExpire, p.ID)
	}
	c.Posts().Put(p)
	c.Emit(framePosted, map[string]any{"post": view.Post(c, p)})
	if queued {
		c.Emit(frameQueueDone, map[string]any{"item": item})
	}
}

// failPost removes a scheduled post from the queue and saves it as a draft.
func failPost(c *world.Creator, p *row.Post, why string) {
	item := queueItem("post", p.ID, p.Scheduled, "failed")
	p.Saved, p.Scheduled = true, time.Time{}
	c.Posts().Put(p)
	c.Emit(frameQueueFailed, map[string]any{"item": item, "error": why})
}

func expirePost(c *world.Creator, id int64) {
	p := c.Posts().Get(id)
	if p == nil || p.Expired || p.Expires.IsZero() || p.Expires.After(c.Now()) {
		return
	}
	p.Expired, p.Pinned = true, false
	c.Posts().Put(p)
	c.Emit(frameExpired, postEvent{Post: p.ID})
}

type postEvent struct {
	Post    int64    `json:"post_id"`
	Changes []string `json:"changes,omitempty"`
}

// savePost stores a post and sends a frame with the names of the changed fields.
func savePost(c *world.Creator, p *row.Post, changes ...string) {
	c.Posts().Put(p)
	c.Emit(frameChanged, postEvent{Post: p.ID, Changes: changes})
}

// updatePost changes the given fields. It refuses to change the time of a published post.
func updatePost(c *wire.Call, p *row.Post, in *postInput) (any, error) {
	moved := c.Has("publish_at") && !time.Time(in.PublishAt).Equal(p.Scheduled)
	if moved && !p.Published.IsZero() {
		return nil, wire.Conflict("This post has already been published.")
	}
	var changes []string
	set := func(field string, change func()) {
		if c.Has(field) {
			change()
			changes = append(changes, field)
		}
	}
	set("text", func() { p.Text = in.Text })
	set("attachments", func() { p.Media = in.Media })
	set("price", func() { p.Price = int64(in.Price) })
	set("label_ids", func() { p.Labels = in.Labels })
	if moved {
		schedule(c.Creator, p, time.Time(in.PublishAt))
		changes = append(changes, "publish_at")
	}
	savePost(c.Creator, p, changes...)
	return view.Post(c.Creator, p), nil
}

func deletePost(c *wire.Call, p *row.Post) (any, error) {
	removePost(c.Creator, p)
	return wire.OK, nil
}

func removePost(c *world.Creator, p *row.Post) {
	c.Posts().Delete(p.ID)
	c.Emit(frameDeleted, postEvent{Post: p.ID})
}

type archivePostInput struct {
	Private bool `json:"private"`
}

func archivePost(c *wire.Call, p *row.Post, in *archivePostInput) (any, error) {
	p.Archived, p.Private, p.Pinned = !in.Private, in.Private, false
	savePost(c.Creator, p, "is_archived")
	return view.Post(c.Creator, p), nil
}

// publishedPost is like ownPost, but refuses posts that were never published.
func publishedPost(c *wire.Call) (*row.Post, error) {
	p, err := ownPost(c)
	if err == nil && p.Published.IsZero() {
		return nil, wire.Conflict("This post is not published.")
	}
	return p, err
}

func unarchivePost(c *wire.Call, p *row.Post) (any, error) {
	p.Archived, p.Private = false, false
	savePost(c.Creator, p, "is_archived")
	return view.Post(c.Creator, p), nil
}

func setPostPin(c *wire.Call, p *row.Post, pinned bool) (any, error) {
	if p.Pinned != pinned {
		p.Pinned = pinned
		savePost(c.Creator, p, "is_pinned")
	}
	return map[string]bool{"is_pinned": pinned}, nil
}
