package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// PostView is one of the feed.
type PostView struct {
	ID          int64            `json:"id"`
	Author      int64            `json:"author_id"`
	Text        string           `json:"text"`
	Media       []MediaView      `json:"attachments"`
	Price       Dollars          `json:"price"`
	Locked      bool             `json:"is_locked"`
	Pinned      bool             `json:"is_pinned"`
	Archived    bool             `json:"is_archived"`
	Labels      []LabelName      `json:"labels"`
	Poll        *PollView        `json:"poll"`
	Fundraising *FundraisingView `json:"fundraising"`
	Likes       int              `json:"likes_count"`
	Comments    int              `json:"comments_count"`
	Tips        Dollars          `json:"tips_sum"`
	Scheduled   Stamp            `json:"publish_at"`
	Published   Stamp            `json:"published_at"`
	Expires     Stamp            `json:"expires_at"`
	At          Stamp            `json:"created_at"`
}

// LabelName is a label as a post shows it.
type LabelName struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// Post shows one. It is locked if others have to pay for it, or the creator has to.
func Post(c *world.Creator, p *row.Post) PostView {
	v := PostView{
		ID: p.ID, Author: p.Author, Text: p.Text, Price: Dollars(p.Price), Locked: p.Price > 0, Pinned: p.Pinned, Archived: p.Archived || p.Private,
		Labels: []LabelName{}, Likes: Likes(p), Comments: c.Comments(p.ID).Len(), Tips: Dollars(Paid(c, p.ID, nil).Tips),
		Scheduled: Stamp(p.Scheduled), Published: Stamp(p.Published), Expires: Stamp(p.Expires), At: Stamp(p.At),
	}
	if p.Author == c.Profile.ID {
		v.Media = MediaList(c, p.Media)
	} else {
		author := c.People().Get(p.Author)
		v.Locked = v.Locked || author == nil || !author.Follow.Active(c.Now())
		v.Media = foreignMedia(c, p, v.Locked)
	}
	for _, id := range p.Labels {
		if l := c.Labels().Get(id); l != nil {
			v.Labels = append(v.Labels, LabelName{ID: l.ID, Name: l.Name})
		}
	}
	if p.Poll != nil {
		poll := Poll(p.Poll)
		v.Poll = &poll
	}
	if p.Fundraising != nil {
		v.Fundraising = Fundraising(c, p)
	}
	return v
}

// foreignMedia are those of another creator's post: not of the vault, and not shown while locked.
func foreignMedia(c *world.Creator, p *row.Post, locked bool) []MediaView {
	list := []MediaView{}
	for _, id := range p.Media {
		m := Media(c, &row.Media{Rec: row.Rec{ID: id}, Type: "photo", State: "ready", Width: seed.ForeignWidth, Height: seed.ForeignHeight, At: p.At})
		if locked {
			m.Thumb = nil
		}
		list = append(list, m)
	}
	return list
}

// Likes counts who likes a post.
func Likes(p *row.Post) int {
	n := p.Likes + len(p.Likers)
	if p.Liked {
		n++
	}
	return n
}

// PollView is a question with options.
type PollView struct {
	Question *string      `json:"question"`
	Options  []OptionView `json:"options"`
	Votes    int          `json:"votes_count"`
	Voted    *int64       `json:"voted_option_id"`
	Ends     Stamp        `json:"ends_at"`
}

// OptionView is one of its answers.
type OptionView struct {
	ID    int64  `json:"id"`
	Text  string `json:"text"`
	Votes int    `json:"votes"`
}

// Poll shows one.
func Poll(p *row.Poll) PollView {
	v := PollView{Options: []OptionView{}, Voted: Ref(p.Voted), Ends: Stamp(p.EndsAt)}
	if p.Question != "" {
		v.Question = &p.Question
	}
	for _, o := range p.Options {
		v.Options = append(v.Options, OptionView(o))
		v.Votes += o.Votes
	}
	return v
}

// FundraisingView is a goal for tips.
type FundraisingView struct {
	Title    *string `json:"title"`
	Target   Dollars `json:"target"`
	Progress Dollars `json:"raised"`
}

// Fundraising shows that of a post: what was raised are the tips to it.
func Fundraising(c *world.Creator, p *row.Post) *FundraisingView {
	v := &FundraisingView{Target: Dollars(p.Fundraising.Target), Progress: Dollars(Paid(c, p.ID, nil).Tips)}
	if p.Fundraising.Title != "" {
		v.Title = &p.Fundraising.Title
	}
	return v
}

// CommentView is one on a post or a stream.
type CommentView struct {
	ID      int64  `json:"id"`
	Parent  int64  `json:"post_id"`
	Author  User   `json:"author"`
	Text    string `json:"text"`
	ReplyTo *int64 `json:"answer_to"`
	Likes   int    `json:"likes_count"`
	Liked   bool   `json:"is_liked"`
	Pinned  bool   `json:"is_pinned"`
	At      Stamp  `json:"created_at"`
}

// Comment shows one.
func Comment(c *world.Creator, m *row.Comment) CommentView {
	v := CommentView{
		ID: m.ID, Parent: m.Parent, Author: PersonByID(c, m.Author), Text: m.Text, ReplyTo: Ref(m.ReplyTo), Likes: m.Likes, Liked: m.Liked,
		Pinned: m.Pinned, At: Stamp(m.At),
	}
	if m.Liked {
		v.Likes++
	}
	return v
}

// LabelView groups posts.
type LabelView struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Posts int    `json:"posts_count"`
	At    Stamp  `json:"created_at"`
}

// Label shows one.
func Label(c *world.Creator, l *row.Label) LabelView {
	v := LabelView{ID: l.ID, Name: l.Name, At: Stamp(l.At)}
	for _, p := range c.Posts().All() {
		if slices.Contains(p.Labels, l.ID) {
			v.Posts++
		}
	}
	return v
}

// StoryView lives for a day.
type StoryView struct {
	ID      int64       `json:"id"`
	Media   []MediaView `json:"attachments"`
	Text    *string     `json:"text"`
	Views   int         `json:"views_count"`
	Likes   int         `json:"likes_count"`
	Tips    Dollars     `json:"tips_sum"`
	At      Stamp       `json:"created_at"`
	Expires Stamp       `json:"expires_at"`
}

// Story shows one.
func Story(c *world.Creator, s *row.Story) StoryView {
	v := StoryView{
		ID: s.ID, Media: MediaList(c, []int64{s.Media}), Views: s.Views + len(s.Seen), Likes: StoryLikes(s), Tips: Dollars(Paid(c, s.ID, nil).Tips),
		At: Stamp(s.At), Expires: Stamp(s.Expires),
	}
	if s.Text != "" {
		v.Text = &s.Text
	}
	return v
}

// StoryLikes counts who likes a story.
func StoryLikes(s *row.Story) int {
	n := seed.StoryLikes(s.Views)
	for _, seen := range s.Seen {
		if seen.Liked {
			n++
		}
	}
	return n
}

// HighlightView is a kept collection of stories.
type HighlightView struct {
	ID      int64   `json:"id"`
	Title   string  `json:"title"`
	Cover   string  `json:"cover"`
	Stories []int64 `json:"story_ids"`
	At      Stamp   `json:"created_at"`
}

// Highlight shows one. Its cover is the chosen story's picture, or the first story's, or the creator's avatar.
func Highlight(c *world.Creator, h *row.Highlight) HighlightView {
	v := HighlightView{ID: h.ID, Title: h.Title, Stories: []int64{}, At: Stamp(h.At), Cover: MediaURL(c, c.Profile.AvatarID, "thumb")}
	for _, id := range h.Stories {
		if c.Stories().Get(id) != nil {
			v.Stories = append(v.Stories, id)
		}
	}
	for _, id := range append([]int64{h.Cover}, v.Stories...) {
		if s := c.Stories().Get(id); s != nil {
			v.Cover = MediaURL(c, s.Media, "thumb")
			break
		}
	}
	return v
}

// StreamView is a live broadcast.
type StreamView struct {
	ID      int64    `json:"id"`
	Title   string   `json:"title"`
	State   string   `json:"status"` // planned, live, finished, canceled
	Starts  Stamp    `json:"starts_at"`
	Started Stamp    `json:"started_at"`
	Ended   Stamp    `json:"finished_at"`
	Viewers int      `json:"viewers_count"`
	Likes   int      `json:"likes_count"`
	Tips    Dollars  `json:"tips_sum"`
	Goal    *Dollars `json:"tip_goal"`
}

// StreamStates are the platform's words for what a stream is.
var StreamStates = map[string]string{"scheduled": "planned", "live": "live", "ended": "finished", "canceled": "canceled"}

// Stream shows one. What is paid at a stream are tips.
func Stream(c *world.Creator, s *row.Stream) StreamView {
	v := StreamView{
		ID: s.ID, Title: s.Title, State: StreamStates[s.State], Starts: Stamp(s.Starts), Started: Stamp(s.Started), Ended: Stamp(s.Ended),
		Viewers: s.Viewers, Likes: s.Likes, Tips: Dollars(Paid(c, s.ID, nil).Tips),
	}
	if s.State == "ended" {
		v.Viewers = s.Peak
	}
	if s.TipGoal > 0 {
		goal := Dollars(s.TipGoal)
		v.Goal = &goal
	}
	return v
}

// QueueView is something scheduled. It has the id of what it is.
type QueueView struct {
	ID    int64  `json:"id"`
	Kind  string `json:"entity"` // post, mass_message, stream
	Ref   int64  `json:"entity_id"`
	At    Stamp  `json:"publish_at"`
	State string `json:"status"` // scheduled, publishing, published, failed
}

// Key is its place in a list.
func (v *QueueView) Key() int64 { return v.ID }

// Time is when it is to happen.
func (v *QueueView) Time() time.Time { return time.Time(v.At) }

// Queue is everything that is scheduled, the next first.
func Queue(c *world.Creator) []*QueueView {
	var all []*QueueView
	add := func(kind string, id int64, at time.Time) {
		all = append(all, &QueueView{ID: id, Ref: id, Kind: kind, At: Stamp(at), State: "scheduled"})
	}
	for _, p := range c.Posts().All() {
		if !p.Saved && !p.Scheduled.IsZero() && p.Published.IsZero() {
			add("post", p.ID, p.Scheduled)
		}
	}
	for _, m := range c.Masses().All() {
		if m.State == "scheduled" && !m.Scheduled.IsZero() {
			add("mass_message", m.ID, m.Scheduled)
		}
	}
	for _, s := range c.Streams().All() {
		if s.State == "scheduled" {
			add("stream", s.ID, s.Starts)
		}
	}
	slices.SortFunc(all, func(a, b *QueueView) int { return cmp.Or(a.Time().Compare(b.Time()), cmp.Compare(a.ID, b.ID)) })
	return all
}

// DraftView is a post or message saved for later.
type DraftView struct {
	ID    int64       `json:"id"`
	Type  string      `json:"type"` // post, message
	Text  string      `json:"text"`
	Media []MediaView `json:"attachments"`
	Price Dollars     `json:"price"`
	At    Stamp       `json:"created_at"`
}

// PostDraft shows a post that was saved for later.
func PostDraft(c *world.Creator, p *row.Post) DraftView {
	return DraftView{ID: p.ID, Type: "post", Text: p.Text, Media: MediaList(c, p.Media), Price: Dollars(p.Price), At: Stamp(p.At)}
}

// MessageDraft shows a message that was saved for later.
func MessageDraft(c *world.Creator, d *row.Draft) DraftView {
	return DraftView{ID: d.ID, Type: "message", Text: d.Text, Media: MediaList(c, d.Media), Price: Dollars(d.Price), At: Stamp(d.At)}
}
