package publish

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func postRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /posts", Handle: listPosts},
		{Pattern: "GET /users/{user_id}/posts", Handle: listByUser},
		{Pattern: "GET /posts/{post_id}", Handle: wire.Show(post, view.Post)},
		{Pattern: "PUT /posts/{post_id}/like", Handle: wire.Set(post, setPostLike, true)},
		{Pattern: "DELETE /posts/{post_id}/like", Handle: wire.Set(post, setPostLike, false)},
		{Pattern: "GET /posts/{post_id}/likes", Handle: wire.On(post, listLikers)},
		{Pattern: "GET /posts/{post_id}/buyers", Handle: wire.On(ownPost, listBuyers)},
		{Pattern: "GET /posts/{post_id}/stats", Handle: wire.On(ownPost, postStats)},
		{Pattern: "POST /posts/{post_id}/poll/votes", Handle: wire.ReadOn(post, votePoll)},
	}
}

// stateOf returns the state of a post: published, scheduled, archived, private, expired or saved.
func stateOf(p *row.Post) string {
	switch {
	case p.Saved:
		return "saved"
	case p.Published.IsZero():
		return "scheduled"
	case p.Expired:
		return "expired"
	case p.Private:
		return "private"
	case p.Archived:
		return "archived"
	}
	return "published"
}

func listPosts(c *wire.Call) (any, error) {
	state, label, query := cmp.Or(c.Query("state"), "published"), c.QueryID("label_id"), strings.ToLower(c.Query("q"))
	pinned := c.Query("pinned")
	if label != 0 {
		if _, err := wire.Found("label", c.Labels().Get(label)); err != nil {
			return nil, err
		}
	}
	rows := wire.Filter(c.Posts().All(), func(p *row.Post) bool {
		return p.Author == c.Profile.ID && stateOf(p) == state && (label == 0 || slices.Contains(p.Labels, label)) &&
			(pinned == "" || (pinned == "true") == p.Pinned) && strings.Contains(strings.ToLower(p.Text), query)
	})
	order := wire.Order[*row.Post]{Rank: postTime}
	switch c.Query("sort") {
	case "oldest":
		order.Up = true
	case "tips":
		order.Rank = func(p *row.Post) int64 { return view.Paid(c.Creator, p.ID, nil).Tips }
	case "likes":
		order.Rank = func(p *row.Post) int64 { return int64(view.Likes(p)) }
	}
	return pagePosts(c, rows, order)
}

// postTime ranks posts by their past or future time of publication.
func postTime(p *row.Post) int64 {
	switch {
	case !p.Published.IsZero():
		return p.Published.UnixMilli()
	case !p.Scheduled.IsZero():
		return p.Scheduled.UnixMilli()
	}
	return p.At.UnixMilli()
}

func pagePosts(c *wire.Call, rows []*row.Post, order wire.Order[*row.Post]) (any, error) {
	return wire.Page(c, rows, order, func(p *row.Post) any { return view.Post(c.Creator, p) })
}

// listByUser lists the published posts of any user.
func listByUser(c *wire.Call) (any, error) {
	author := c.ID("user_id")
	if author != c.Profile.ID {
		if _, err := c.PersonByID(author); err != nil {
			return nil, err
		}
	}
	rows := wire.Filter(c.Posts().All(), func(p *row.Post) bool { return p.Author == author && stateOf(p) == "published" })
	return pagePosts(c, rows, wire.Order[*row.Post]{Rank: postTime})
}

func post(c *wire.Call) (*row.Post, error) {
	return wire.Found("post", c.Posts().Get(c.ID("post_id")))
}

// ownPost is like post, but refuses posts of other users.
func ownPost(c *wire.Call) (*row.Post, error) {
	p, err := post(c)
	if err == nil && p.Author != c.Profile.ID {
		return nil, wire.Forbidden("This post belongs to another user.")
	}
	return p, err
}

func setPostLike(c *wire.Call, p *row.Post, liked bool) (any, error) {
	if p.Published.IsZero() {
		return nil, wire.Conflict("This post is not published.")
	}
	p.Liked = liked
	c.Posts().Put(p)
	return map[string]any{"is_liked": liked, "likes_count": view.Likes(p)}, nil
}

// liker is a person who likes a post. The latest has the highest rank.
type liker struct {
	person int64
	rank   int64
}

func (l *liker) Key() int64 { return l.person }

// likers returns everyone who likes a post, as many as its number of likes.
func likers(c *world.Creator, p *row.Post) []*liker {
	list := make([]*liker, 0, p.Likes+len(p.Likers)+1)
	for k := range p.Likes {
		list = append(list, &liker{seed.Liker(c.Profile.Origin, p.ID, k), int64(k)})
	}
	for k, person := range p.Likers {
		list = append(list, &liker{person, int64(p.Likes + k)})
	}
	if p.Liked {
		list = append(list, &liker{c.Profile.ID, math.MaxInt64})
	}
	return list
}

func listLikers(c *wire.Call, p *row.Post) (any, error) {
	order := wire.Order[*liker]{Rank: func(l *liker) int64 { return l.rank }}
	return wire.Page(c, likers(c.Creator, p), order, func(l *liker) any { return view.PersonByID(c.Creator, l.person) })
}

func listBuyers(c *wire.Call, p *row.Post) (any, error) {
	rows := wire.Filter(c.Paid(p.ID), func(t *row.Tx) bool { return t.Type == "post" && t.Status != "reversed" })
	order := wire.Order[*row.Tx]{Rank: func(t *row.Tx) int64 { return t.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(t *row.Tx) any { return view.Purchase(c.Creator, t) })
}

func postStats(c *wire.Call, p *row.Post) (any, error) {
	return view.PostStats(c.Creator, p, days(c).Has), nil
}

// days returns the span of whole days in the query. A missing end is zero. A span that ends before it starts is empty.
func days(c *wire.Call) wire.Span {
	s := wire.Span{From: c.QueryTime("from"), To: c.QueryTime("to")}
	if !s.To.IsZero() {
		s.To = s.To.AddDate(0, 0, 1).Add(-time.Millisecond)
	}
	return s
}

type votePollInput struct {
	Option int64 `json:"option_id"`
}

// votePoll casts or changes the creator's vote.
func votePoll(c *wire.Call, p *row.Post, in *votePollInput) (any, error) {
	if p.Poll == nil {
		return nil, wire.Conflict("This post has no poll.")
	}
	if end := p.Poll.EndsAt; !end.IsZero() && !end.After(c.Now()) {
		return nil, wire.Conflict("This poll has ended.")
	}
	if !slices.ContainsFunc(p.Poll.Options, func(o row.PollOption) bool { return o.ID == in.Option }) {
		return nil, wire.NotFound("option")
	}
	for i := range p.Poll.Options {
		switch o := &p.Poll.Options[i]; {
		case p.Poll.Voted == in.Option: // no change
		case o.ID == in.Option:
			o.Votes++
		case o.ID == p.Poll.Voted:
			o.Votes--
		}
	}
	p.Poll.Voted = in.Option
	c.Posts().Put(p)
	return view.Poll(p.Poll), nil
}
