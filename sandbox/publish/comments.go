package publish

import (
	"math"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func commentRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /posts/{post_id}/comments", Handle: wire.On(post, listComments)},
		{Pattern: "POST /posts/{post_id}/comments", Handle: wire.ReadOn(post, createComment)},
		{Pattern: "PATCH /posts/{post_id}/comments/{comment_id}", Handle: wire.ReadOn(comment, updateComment)},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}", Handle: wire.On(comment, deleteComment)},
		{Pattern: "PUT /posts/{post_id}/comments/{comment_id}/like", Handle: wire.Set(comment, setCommentLike, true)},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}/like", Handle: wire.Set(comment, setCommentLike, false)},
		{Pattern: "PUT /posts/{post_id}/comments/{comment_id}/pin", Handle: wire.Set(comment, setCommentPin, true)},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}/pin", Handle: wire.Set(comment, setCommentPin, false)},
	}
}

func commentTime(m *row.Comment) int64 { return m.At.UnixMilli() }

func listComments(c *wire.Call, p *row.Post) (any, error) {
	order := wire.Order[*row.Comment]{Up: c.Query("sort") == "oldest"}
	order.Rank = func(m *row.Comment) int64 {
		switch { // the pinned comment comes first in either order
		case m.Pinned && order.Up:
			return math.MinInt64
		case m.Pinned:
			return math.MaxInt64
		}
		return commentTime(m)
	}
	return wire.Page(c, c.Comments(p.ID).All(), order, func(m *row.Comment) any { return view.Comment(c.Creator, m) })
}

type commentInput struct {
	Text    string `json:"text"`
	ReplyTo int64  `json:"answer_to"`
	Gif     int64  `json:"gif_id"`
}

func (in *commentInput) Check(*wire.Call) error {
	if in.Text == "" {
		return wire.Invalid("text", "A comment needs a text.")
	}
	if in.Gif != 0 && !seed.IsGif(in.Gif) {
		return wire.Invalid("gif_id", "This GIF does not exist.")
	}
	return nil
}

func createComment(c *wire.Call, p *row.Post, in *commentInput) (any, error) {
	if p.Published.IsZero() {
		return nil, wire.Conflict("This post is not published.")
	}
	table := c.Comments(p.ID)
	if in.ReplyTo != 0 && table.Get(in.ReplyTo) == nil {
		return nil, wire.Invalid("answer_to", "This comment does not exist.")
	}
	m := &row.Comment{
		Rec: row.Rec{ID: table.NextID()}, Parent: p.ID, Author: c.Profile.ID, Text: in.Text, ReplyTo: in.ReplyTo, Gif: in.Gif, At: c.Now(),
	}
	table.Put(m)
	v := view.Comment(c.Creator, m)
	c.Emit(frameCommented, map[string]any{"post_id": p.ID, "comment": v})
	return v, nil
}

// comment returns the comment named in the path.
func comment(c *wire.Call) (*row.Comment, error) {
	p, err := post(c)
	if err != nil {
		return nil, err
	}
	return wire.Found("comment", c.Comments(p.ID).Get(c.ID("comment_id")))
}

func onOwnPost(c *wire.Call, m *row.Comment) bool {
	return c.Posts().Get(m.Parent).Author == c.Profile.ID
}

func updateComment(c *wire.Call, m *row.Comment, in *commentInput) (any, error) {
	if m.Author != c.Profile.ID {
		return nil, wire.Forbidden("This comment belongs to another user.")
	}
	m.Text = in.Text
	c.Comments(m.Parent).Put(m)
	return view.Comment(c.Creator, m), nil
}

// deleteComment deletes a comment of the creator, or any comment on the creator's posts.
func deleteComment(c *wire.Call, m *row.Comment) (any, error) {
	if m.Author != c.Profile.ID && !onOwnPost(c, m) {
		return nil, wire.Forbidden("This comment belongs to another user.")
	}
	c.Comments(m.Parent).Delete(m.ID)
	return wire.OK, nil
}

func setCommentLike(c *wire.Call, m *row.Comment, liked bool) (any, error) {
	m.Liked = liked
	c.Comments(m.Parent).Put(m)
	return map[string]bool{"is_liked": liked}, nil
}

// setCommentPin pins or unpins a comment. Pinning one unpins the others of the post.
func setCommentPin(c *wire.Call, m *row.Comment, pinned bool) (any, error) {
	if !onOwnPost(c, m) {
		return nil, wire.Forbidden("This post belongs to another user.")
	}
	for _, other := range c.Comments(m.Parent).All() {
		if want := pinned && other == m; other.Pinned != want && (pinned || other == m) {
			other.Pinned = want
			c.Comments(m.Parent).Put(other)
		}
	}
	return map[string]bool{"is_pinned": pinned}, nil
}
