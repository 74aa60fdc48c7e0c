package publish

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func highlightRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /highlights", Handle: listHighlights},
		{Pattern: "POST /highlights", Handle: wire.Read(createHighlight)},
		{Pattern: "GET /highlights/{highlight_id}", Handle: wire.Show(highlight, view.Highlight)},
		{Pattern: "PATCH /highlights/{highlight_id}", Handle: wire.ReadOn(highlight, updateHighlight)},
		{Pattern: "DELETE /highlights/{highlight_id}", Handle: wire.Remove(highlight, (*world.Creator).Highlights)},
		{Pattern: "PUT /highlights/{highlight_id}/stories/{story_id}", Handle: wire.On(highlight, addStory)},
		{Pattern: "DELETE /highlights/{highlight_id}/stories/{story_id}", Handle: wire.On(highlight, removeStory)},
	}
}

func listHighlights(c *wire.Call) (any, error) {
	order := wire.Order[*row.Highlight]{Rank: func(h *row.Highlight) int64 { return h.At.UnixMilli() }}
	return wire.Page(c, c.Highlights().All(), order, func(h *row.Highlight) any { return view.Highlight(c.Creator, h) })
}

func highlight(c *wire.Call) (*row.Highlight, error) {
	return wire.Found("highlight", c.Highlights().Get(c.ID("highlight_id")))
}

type highlightInput struct {
	Title   string  `json:"title"`
	Stories []int64 `json:"story_ids"`
	Cover   int64   `json:"cover_story_id"`
}

func (in *highlightInput) Check(c *wire.Call) error {
	there := func(id int64) bool { return c.Stories().Get(id) != nil }
	if in.Cover != 0 && !there(in.Cover) {
		return wire.Invalid("cover_story_id", "This story does not exist.")
	}
	return exist("story_ids", in.Stories, there)
}

func createHighlight(c *wire.Call, in *highlightInput) (any, error) {
	if in.Title == "" {
		return nil, wire.Invalid("title", "A highlight needs a title.")
	}
	h := &row.Highlight{Rec: row.Rec{ID: c.Highlights().NextID()}, Title: in.Title, Stories: in.Stories, Cover: in.Cover, At: c.Now()}
	return saveHighlight(c, h), nil
}

func saveHighlight(c *wire.Call, h *row.Highlight) view.HighlightView {
	c.Highlights().Put(h)
	return view.Highlight(c.Creator, h)
}

func updateHighlight(c *wire.Call, h *row.Highlight, in *highlightInput) (any, error) {
	if c.Has("title") {
		h.Title = in.Title
	}
	if c.Has("story_ids") {
		h.Stories = in.Stories
	}
	if c.Has("cover_story_id") {
		h.Cover = in.Cover
	}
	return saveHighlight(c, h), nil
}

func addStory(c *wire.Call, h *row.Highlight) (any, error) {
	s, err := story(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(h.Stories, s.ID) {
		h.Stories = append(slices.Clone(h.Stories), s.ID)
	}
	return saveHighlight(c, h), nil
}

func removeStory(c *wire.Call, h *row.Highlight) (any, error) {
	gone := c.ID("story_id")
	h.Stories = slices.DeleteFunc(slices.Clone(h.Stories), func(id int64) bool { return id == gone })
	if h.Cover == gone {
		h.Cover = 0
	}
	return saveHighlight(c, h), nil
}
