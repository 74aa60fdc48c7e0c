package publish

import (
	"cmp"
	"math"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func commentRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /posts/{post_id}/comments", Handle: listComments},
		{Pattern: "POST /posts/{post_id}/comments", Handle: createComment},
		{Pattern: "PATCH /posts/{post_id}/comments/{comment_id}", Handle: updateComment},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}", Handle: deleteComment},
		{Pattern: "PUT /posts/{post_id}/comments/{comment_id}/like", Handle: likeComment},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}/like", Handle: unlikeComment},
		{Pattern: "PUT /posts/{post_id}/comments/{comment_id}/pin", Handle: pinComment},
		{Pattern: "DELETE /posts/{post_id}/comments/{comment_id}/pin", Handle: unpinComment},
	}
}

func commentTime(m *row.Comment) int64 { return m.At.UnixMilli() }

func listComments(c *wire.Call) (any, error) {
	p, err := post(c)
	if err != nil {
		return nil, err
	}
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

func (in *commentInput) check() error {
	if in.Text == "" {
		return wire.Invalid("text", "A comment needs a text.")
	}
	if in.Gif != 0 && !seed.IsGif(in.Gif) {
		return wire.Invalid("gif_id", "This GIF does not exist.")
	}
	return nil
}

func createComment(c *wire.Call) (any, error) {
	var in commentInput
	p, err := post(c)
	if err := cmp.Or(err, c.Body(&in), in.check()); err != nil {
		return nil, err
	}
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

// comment returns the comment named in the path, and its post.
func comment(c *wire.Call) (*row.Comment, *row.Post, error) {
	p, err := post(c)
	if err != nil {
		return nil, nil, err
	}
	m, err := wire.Found("comment", c.Comments(p.ID).Get(c.ID("comment_id")))
	return m, p, err
}

func updateComment(c *wire.Call) (any, error) {
	var in commentInput
	m, p, err := comment(c)
	if err := cmp.Or(err, c.Body(&in), in.check()); err != nil {
		return nil, err
	}
	if m.Author != c.Profile.ID {
		return nil, wire.Forbidden("This comment belongs to another user.")
	}
	m.Text = in.Text
	c.Comments(p.ID).Put(m)
	return view.Comment(c.Creator, m), nil
}

// deleteComment deletes a comment of the creator, or any comment on the creator's posts.
func deleteComment(c *wire.Call) (any, error) {
	m, p, err := comment(c)
	if err != nil {
		return nil, err
	}
	if m.Author != c.Profile.ID && p.Author != c.Profile.ID {
		return nil, wire.Forbidden("This comment belongs to another user.")
	}
	c.Comments(p.ID).Delete(m.ID)
	return wire.OK, nil
}

func likeComment(c *wire.Call) (any, error)   { return setCommentLike(c, true) }
func unlikeComment(c *wire.Call) (any, error) { return setCommentLike(c, false) }

func setCommentLike(c *wire.Call, liked bool) (any, error) {
	m, p, err := comment(c)
	if err != nil {
		return nil, err
	}
	m.Liked = liked
	c.Comments(p.ID).Put(m)
	return map[string]bool{"is_liked": liked}, nil
}

func pinComment(c *wire.Call) (any, error)   { return setCommentPin(c, true) }
func unpinComment(c *wire.Call) (any, error) { return setCommentPin(c, false) }

// setCommentPin pins or unpins a comment. Pinning one unpins the others of the post.
func setCommentPin(c *wire.Call, pinned bool) (any, error) {
	m, p, err := comment(c)
	if err != nil {
		return nil, err
	}
	if p.Author != c.Profile.ID {
		return nil, wire.Forbidden("This post belongs to another user.")
	}
	for _, other := range c.Comments(p.ID).All() {
		if want := pinned && other == m; other.Pinned != want && (pinned || other == m) {
			other.Pinned = want
			c.Comments(p.ID).Put(other)
		}
	}
	return map[string]bool{"is_pinned": pinned}, nil
}
