package library

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func vaultRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /vault/media", Handle: listMedia},
		{Pattern: "GET /vault/media/{media_id}", Handle: wire.Show(medium, view.Media)},
		{Pattern: "GET /vault/media/{media_id}/download", Handle: wire.On(medium, downloadMedia)},
		{Pattern: "GET /vault/media/{media_id}/usage", Handle: wire.On(medium, mediaUsage)},
		{Pattern: "POST /vault/media/delete", Handle: wire.Read(deleteMedia)},
	}
}

func listMedia(c *wire.Call) (any, error) {
	folder, query := c.QueryID("folder_id"), strings.ToLower(c.Query("q"))
	if folder != 0 {
		if _, err := wire.Found("folder", c.Folders().Get(folder)); err != nil {
			return nil, err
		}
	}
	return pageMedia(c, func(m *row.Media) bool {
		return (folder == 0 || slices.Contains(m.Folders, folder)) && strings.Contains(strings.ToLower(m.Name), query)
	})
}

// pageMedia lists the media for which fits is true, filtered and sorted as the call asks.
func pageMedia(c *wire.Call, fits func(*row.Media) bool) (any, error) {
	kind := c.Query("type")
	if kind == "image" {
		kind = "photo"
	}
	rows := wire.Filter(c.Media().All(), func(m *row.Media) bool { return (kind == "" || m.Type == kind) && fits(m) })
	order := wire.Order[*row.Media]{Rank: func(m *row.Media) int64 { return m.At.UnixMilli() }}
	switch c.Query("sort") {
	case "oldest":
		order.Up = true
	case "most_liked":
		order.Rank = postsRank(c, func(p *row.Post) int64 { return int64(view.Likes(p)) })
	case "most_tipped":
		order.Rank = postsRank(c, func(p *row.Post) int64 { return view.Paid(c.Creator, p.ID, nil).Tips })
	}
	return wire.Page(c, rows, order, func(m *row.Media) any { return view.Media(c.Creator, m) })
}

// postsRank ranks media by the sum of a value over all posts that show them.
func postsRank(c *wire.Call, of func(*row.Post) int64) func(*row.Media) int64 {
	sums := map[int64]int64{}
	for _, p := range c.Posts().All() {
		for _, id := range p.Media {
			sums[id] += of(p)
		}
	}
	return func(m *row.Media) int64 { return sums[m.ID] }
}

func medium(c *wire.Call) (*row.Media, error) {
	return wire.Found("media", c.Media().Get(c.ID("media_id")))
}

// downloadLife is how long a download URL is valid.
const downloadLife = time.Hour

func downloadMedia(c *wire.Call, m *row.Media) (any, error) {
	if m.State != "ready" {
		return nil, wire.Conflict("This media is not ready.")
	}
	quality := cmp.Or(c.Query("quality"), "full")
	if _, ok := sizes[quality]; !ok {
		return nil, wire.Invalid("quality", "The quality must be thumb, preview, full or source.")
	}
	until := c.Now().Add(downloadLife)
	address := view.MediaURL(c.Creator, m.ID, quality) + "?" + grant(c.Creator, until, "media", m.ID, quality)
	return map[string]any{"url": address, "expires_at": view.Stamp(until)}, nil
}

type mediaIDs struct {
	Media []int64 `json:"media_ids"`
}

// deleteMedia deletes the given media and ignores ids that do not exist. Posts and messages that showed them remain.
func deleteMedia(c *wire.Call, in *mediaIDs) (any, error) {
	deleted := []int64{}
	for _, id := range in.Media {
		m := c.Media().Get(id)
		if m == nil {
			continue
		}
		if u := c.Uploads().Get(m.Upload); u != nil && m.State == "ready" {
			forget(c.Creator, u)
		}
		c.Media().Delete(id)
		deleted = append(deleted, id)
	}
	return map[string]any{"deleted": deleted}, nil
}

// use is one place where a medium is shown.
type use struct {
	id   int64
	kind string
	at   time.Time
}

func (u *use) Key() int64 { return u.id }

type useView struct {
	Kind string     `json:"entity"`
	ID   int64      `json:"entity_id"`
	At   view.Stamp `json:"used_at"`
}

func mediaUsage(c *wire.Call, m *row.Media) (any, error) {
	order := wire.Order[*use]{Rank: func(u *use) int64 { return u.at.UnixMilli() }}
	return wire.Page(c, uses(c, m.ID), order, func(u *use) any { return useView{Kind: u.kind, ID: u.id, At: view.Stamp(u.at)} })
}

func uses(c *wire.Call, media int64) []*use {
	var list []*use
	add := func(kind string, id int64, at time.Time, shown ...int64) {
		if slices.Contains(shown, media) {
			list = append(list, &use{id: id, kind: kind, at: at})
		}
	}
	for _, p := range c.Posts().All() {
		kind := "post"
		if p.Saved {
			kind = "draft"
		}
		add(kind, p.ID, p.At, p.Media...)
	}
	for _, s := range c.Stories().All() {
		add("story", s.ID, s.At, s.Media)
	}
	for _, d := range c.Drafts().All() {
		add("draft", d.ID, d.At, d.Media...)
	}
	for _, m := range c.Masses().All() {
		add("mass_message", m.ID, m.At, m.Media...)
	}
	for _, chat := range c.Chats().All() {
		for _, m := range c.Messages(chat.ID).All() {
			add("message", m.ID, m.At, m.Media...)
		}
	}
	return list
}
