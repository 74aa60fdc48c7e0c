package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// PostView is the view of a post.
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

// LabelName is a label in the view of a post.
type LabelName struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// Post returns the view of a post. A post with a price is locked, and so is a post of another creator whom the creator
// does not follow.
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

// foreignMedia returns the media of another creator's post, which are not in the vault. If locked, they have no
// thumbnails.
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

// Likes counts the likes of a post.
func Likes(p *row.Post) int {
	n := p.Likes + len(p.Likers)
	if p.Liked {
		n++
	}
	return n
}

// PollView is the view of a poll.
type PollView struct {
	Question *string          `json:"question"`
	Options  []row.PollOption `json:"options"`
	Votes    int              `json:"votes_count"`
	Voted    *int64           `json:"voted_option_id"`
	Ends     Stamp            `json:"ends_at"`
}

// Poll returns the view of a poll.
func Poll(p *row.Poll) PollView {
	options := append([]row.PollOption{}, p.Options...) // a copy, because votes change the options
	v := PollView{Question: Optional(p.Question), Options: options, Voted: Optional(p.Voted), Ends: Stamp(p.EndsAt)}
	for _, o := range p.Options {
		v.Votes += o.Votes
	}
	return v
}

// FundraisingView is the view of a post's fundraising.
type FundraisingView struct {
	Title    *string `json:"title"`
	Target   Dollars `json:"target"`
	Progress Dollars `json:"raised"`
}

// Fundraising returns the view of a post's fundraising. Its progress is the sum of the tips for the post.
func Fundraising(c *world.Creator, p *row.Post) *FundraisingView {
	f, raised := p.Fundraising, Paid(c, p.ID, nil).Tips
	return &FundraisingView{Title: Optional(f.Title), Target: Dollars(f.Target), Progress: Dollars(raised)}
}

// CommentView is the view of a comment on a post or a stream.
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

// Comment returns the view of a comment.
func Comment(c *world.Creator, m *row.Comment) CommentView {
	v := CommentView{
		ID: m.ID, Parent: m.Parent, Author: PersonByID(c, m.Author), Text: m.Text, ReplyTo: Optional(m.ReplyTo),
		Likes: m.Likes, Liked: m.Liked,
		Pinned: m.Pinned, At: Stamp(m.At),
	}
	if m.Liked {
		v.Likes++
	}
	return v
}

// LabelView is the view of a label.
type LabelView struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Posts int    `json:"posts_count"`
	At    Stamp  `json:"created_at"`
}

// Label returns the view of a label.
func Label(c *world.Creator, l *row.Label) LabelView {
	v := LabelView{ID: l.ID, Name: l.Name, At: Stamp(l.At)}
	for _, p := range c.Posts().All() {
		if slices.Contains(p.Labels, l.ID) {
			v.Posts++
		}
	}
	return v
}

// StoryView is the view of a story.
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

// Story returns the view of a story.
func Story(c *world.Creator, s *row.Story) StoryView {
	return StoryView{
		ID: s.ID, Media: MediaList(c, []int64{s.Media}), Text: Optional(s.Text), Views: s.Views + len(s.Seen),
		Likes: StoryLikes(s),
		Tips:  Dollars(Paid(c, s.ID, nil).Tips), At: Stamp(s.At), Expires: Stamp(s.Expires),
	}
}

// StoryLikes counts the likes of a story.
func StoryLikes(s *row.Story) int {
	n := seed.StoryLikes(s.Views)
	for _, seen := range s.Seen {
		if seen.Liked {
			n++
		}
	}
	return n
}

// HighlightView is the view of a highlight.
type HighlightView struct {
	ID      int64   `json:"id"`
	Title   string  `json:"title"`
	Cover   string  `json:"cover"`
	Stories []int64 `json:"story_ids"`
	At      Stamp   `json:"created_at"`
}

// Highlight returns the view of a highlight. Its cover is the picture of the chosen story, or else of the first story,
// or else the creator's avatar.
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

// StreamView is the view of a stream.
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

// StreamStates maps the states of a stream to the platform's names for them.
var StreamStates = map[string]string{"scheduled": "planned", "live": "live", "ended": "finished", "canceled": "canceled"}

// Stream returns the view of a stream. All payments during a stream count as tips.
func Stream(c *world.Creator, s *row.Stream) StreamView {
	v := StreamView{
		ID: s.ID, Title: s.Title, State: StreamStates[s.State], Starts: Stamp(s.Starts), Started: Stamp(s.Started), Ended: Stamp(s.Ended),
		Viewers: s.Viewers, Likes: s.Likes, Tips: Dollars(Paid(c, s.ID, nil).Tips), Goal: Optional(Dollars(s.TipGoal)),
	}
	if s.State == "ended" {
		v.Viewers = s.Peak
	}
	return v
}

// QueueView is the view of a scheduled item. It has the id of its post, mass message or stream.
type QueueView struct {
	ID    int64  `json:"id"`
	Kind  string `json:"entity"` // post, mass_message, stream
	Ref   int64  `json:"entity_id"`
	At    Stamp  `json:"publish_at"`
	State string `json:"status"` // scheduled, publishing, published, failed
}

func (v *QueueView) Key() int64 { return v.ID }

// Time returns when the item is scheduled.
func (v *QueueView) Time() time.Time { return time.Time(v.At) }

// Queue returns everything that is scheduled, soonest first.
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

// DraftView is the view of a draft of a post or message.
type DraftView struct {
	ID    int64       `json:"id"`
	Type  string      `json:"type"` // post, message
	Text  string      `json:"text"`
	Media []MediaView `json:"attachments"`
	Price Dollars     `json:"price"`
	At    Stamp       `json:"created_at"`
}

// PostDraft returns the view of a draft of a post.
func PostDraft(c *world.Creator, p *row.Post) DraftView {
	return DraftView{ID: p.ID, Type: "post", Text: p.Text, Media: MediaList(c, p.Media), Price: Dollars(p.Price), At: Stamp(p.At)}
}

// MessageDraft returns the view of a draft of a message.
func MessageDraft(c *world.Creator, d *row.Draft) DraftView {
	return DraftView{ID: d.ID, Type: "message", Text: d.Text, Media: MediaList(c, d.Media), Price: Dollars(d.Price), At: Stamp(d.At)}
}
