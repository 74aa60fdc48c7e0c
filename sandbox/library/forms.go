package library

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

// inviteLife is how long the invitation to sign a release form is valid.
const inviteLife = 14 * 24 * time.Hour

func formRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /release-forms", Handle: listForms},
		{Pattern: "GET /release-forms/people", Handle: taggable},
		{Pattern: "POST /release-forms/invites", Handle: wire.Read(invite)},
		{Pattern: "PUT /vault/media/{media_id}/release-forms", Handle: wire.ReadOn(medium, tagMedia)},
		{Pattern: "GET /gifs/trending", Handle: gifs},
		{Pattern: "GET /gifs/search", Handle: gifs},
	}
}

// formStatus returns the current status of a form, because invitations expire.
func formStatus(f *row.Form, now time.Time) string {
	if f.Status == "pending" && !f.Expires.IsZero() && !f.Expires.After(now) {
		return "expired"
	}
	return f.Status
}

func listForms(c *wire.Call) (any, error) {
	status := c.Query("status")
	rows := wire.Filter(c.Forms().All(), func(f *row.Form) bool { return status == "" || formStatus(f, c.Now()) == status })
	return wire.Page(c, rows, wire.Order[*row.Form]{}, func(f *row.Form) any {
		v := view.Form(c.Creator, f)
		v.Status = formStatus(f, c.Now())
		return v
	})
}

// taggable lists the people who may be tagged in media: those who signed a form, and verified creators.
func taggable(c *wire.Call) (any, error) {
	query := strings.ToLower(c.Query("q"))
	signed := map[int64]bool{}
	for _, f := range c.Forms().All() {
		signed[f.Person] = signed[f.Person] || f.Status == "approved"
	}
	rows := wire.Filter(c.People().All(), func(p *row.Person) bool {
		return (signed[p.ID] || p.Verified) && strings.Contains(strings.ToLower(p.Name+" "+p.Username), query)
	})
	return wire.Page(c, rows, wire.Order[*row.Person]{Up: true}, func(p *row.Person) any { return view.Person(c.Creator, p) })
}

type inviteInput struct {
	Name  string `json:"full_name"`
	Email string `json:"email"`
}

func invite(c *wire.Call, in *inviteInput) (any, error) {
	f := &row.Form{
		Rec: row.Rec{ID: c.Forms().NextID()}, Name: in.Name, Email: in.Email, Status: "pending", Code: strings.ToLower(rand.Text()),
		At: c.Now(), Expires: c.Now().Add(inviteLife),
	}
	c.Forms().Put(f)
	return map[string]any{"url": c.Origin() + "/release/" + f.Code, "expires_at": view.Stamp(f.Expires)}, nil
}

type tagMediaInput struct {
	Forms []int64 `json:"form_ids"`
}

func tagMedia(c *wire.Call, m *row.Media, in *tagMediaInput) (any, error) {
	for _, id := range in.Forms {
		if _, err := wire.Found("release form", c.Forms().Get(id)); err != nil {
			return nil, err
		}
	}
	m.Forms = slices.Clone(in.Forms)
	c.Media().Put(m)
	return view.Media(c.Creator, m), nil
}

type gifView struct {
	ID     int64  `json:"id"`
	Title  string `json:"title"`
	URL    string `json:"url"`
	Still  string `json:"still_url"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// gifs lists the GIFs of the picker, the most popular first. With ?q= it lists only those whose title has all the
// words.
func gifs(c *wire.Call) (any, error) {
	words := strings.Fields(strings.ToLower(c.Query("q")))
	rows := wire.Filter(seed.Gifs(), func(g *seed.Gif) bool {
		title := strings.ToLower(g.Title)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(title, word) })
	})
	return wire.Page(c, rows, wire.Order[*seed.Gif]{Up: true}, func(g *seed.Gif) any {
		address := c.Origin() + "/media/gif/" + strconv.FormatInt(g.ID, 10)
		return gifView{ID: g.ID, Title: g.Title, URL: address + ".gif", Still: address + ".png", Width: gifWidth, Height: gifHeight}
	})
}
