package publish

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// usualHours is the default interval at which automation publishes drafts.
const usualHours = 24

func draftRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /drafts/{kind}", Handle: listDrafts},
		{Pattern: "GET /drafts/{kind}/automation", Handle: getAutomation},
		{Pattern: "PUT /drafts/{kind}/automation", Handle: setAutomation},
		{Pattern: "GET /drafts/{kind}/items/{draft_id}", Handle: wire.On(oneDraft, getDraft)},
		{Pattern: "POST /drafts/{kind}/items/{draft_id}/publish", Handle: wire.ReadOn(oneDraft, publishDraft)},
		{Pattern: "DELETE /drafts/{kind}/items/{draft_id}", Handle: wire.On(oneDraft, deleteDraft)},
	}
}

// draft is a post or message saved for later, with its actions.
type draft struct {
	id      int64
	at      time.Time
	view    func() view.DraftView
	publish func(at time.Time)
	drop    func()
}

func (d *draft) Key() int64 { return d.id }

// drafts returns the drafts of a kind, oldest first.
func drafts(c *world.Creator, kind string) ([]*draft, error) {
	var list []*draft
	switch kind {
	case "post":
		for _, p := range c.Posts().All() {
			if p.Saved {
				list = append(list, postDraft(c, p))
			}
		}
	case "message":
		for _, d := range c.Drafts().All() {
			list = append(list, messageDraft(c, d))
		}
	default:
		return nil, wire.NotFound("kind of draft")
	}
	return list, nil
}

func postDraft(c *world.Creator, p *row.Post) *draft {
	return &draft{
		id: p.ID, at: p.At,
		view: func() view.DraftView { return view.PostDraft(c, p) },
		publish: func(at time.Time) {
			p.Saved = false
			schedule(c, p, at)
		},
		drop: func() { removePost(c, p) },
	}
}

// messageDraft returns the draft of a message. Publishing it sends the message to all fans.
func messageDraft(c *world.Creator, d *row.Draft) *draft {
	return &draft{
		id: d.ID, at: d.At,
		view: func() view.DraftView { return view.MessageDraft(c, d) },
		publish: func(at time.Time) {
			c.Drafts().Delete(d.ID)
			m := &row.Mass{Rec: row.Rec{ID: c.Masses().NextID()}, Text: d.Text, Media: d.Media, Price: d.Price, At: c.Now()}
			messages.Schedule(c, m, at)
		},
		drop: func() { c.Drafts().Delete(d.ID) },
	}
}

func listDrafts(c *wire.Call) (any, error) {
	list, err := drafts(c.Creator, c.Request.PathValue("kind"))
	if err != nil {
		return nil, err
	}
	order := wire.Order[*draft]{Rank: func(d *draft) int64 { return d.at.UnixMilli() }}
	return wire.Page(c, list, order, func(d *draft) any { return d.view() })
}

func oneDraft(c *wire.Call) (*draft, error) {
	list, err := drafts(c.Creator, c.Request.PathValue("kind"))
	if err != nil {
		return nil, err
	}
	id := c.ID("draft_id")
	for _, d := range list {
		if d.id == id {
			return d, nil
		}
	}
	return nil, wire.NotFound("draft")
}

func getDraft(_ *wire.Call, d *draft) (any, error) {
	return d.view(), nil
}

type publishDraftInput struct {
	At view.Stamp `json:"publish_at"`
}

func publishDraft(_ *wire.Call, d *draft, in *publishDraftInput) (any, error) {
	v := d.view()
	d.publish(time.Time(in.At))
	return v, nil
}

func deleteDraft(_ *wire.Call, d *draft) (any, error) {
	d.drop()
	return wire.OK, nil
}

type automationView struct {
	Kind  string     `json:"type"`
	On    bool       `json:"is_enabled"`
	Hours int        `json:"interval_hours"`
	Zone  string     `json:"time_zone"`
	Next  view.Stamp `json:"next_at"`
}

func showAutomation(kind string, a row.Automation) automationView {
	v := automationView{Kind: kind, On: a.On, Hours: cmp.Or(a.Hours, usualHours), Zone: cmp.Or(a.Zone, "UTC")}
	if a.On {
		v.Next = view.Stamp(a.Next)
	}
	return v
}

func getAutomation(c *wire.Call) (any, error) {
	kind := c.Request.PathValue("kind")
	if _, err := drafts(c.Creator, kind); err != nil {
		return nil, err
	}
	return showAutomation(kind, c.Settings().Automation[kind]), nil
}

func setAutomation(c *wire.Call) (any, error) {
	var in struct {
		On    bool   `json:"is_enabled"`
		Hours int    `json:"interval_hours"`
		Zone  string `json:"time_zone"`
	}
	kind := c.Request.PathValue("kind")
	_, err := drafts(c.Creator, kind)
	if err := cmp.Or(err, c.Body(&in)); err != nil {
		return nil, err
	}
	if c.Has("interval_hours") && (in.Hours < 1 || in.Hours > 24*365) {
		return nil, wire.Invalid("interval_hours", "The interval must be from 1 hour to a year.")
	}
	a := c.Settings().Automation[kind]
	a.On, a.Hours, a.Zone = in.On, cmp.Or(in.Hours, a.Hours, usualHours), cmp.Or(in.Zone, a.Zone)
	a.Next = c.Now().Add(time.Duration(a.Hours) * time.Hour)
	saveAutomation(c.Creator, kind, a)
	return showAutomation(kind, a), nil
}

// saveAutomation stores the automation of a kind and sets its next timer.
func saveAutomation(c *world.Creator, kind string, a row.Automation) {
	s := c.Settings()
	if s.Automation == nil {
		s.Automation = map[string]row.Automation{}
	}
	s.Automation[kind] = a
	c.SaveSettings()
	if a.On {
		c.At(a.Next, automationDues[kind], 0)
	}
}

var automationDues = map[string]string{"post": duePostDraft, "message": dueMessageDraft}

func nextPostDraft(c *world.Creator, _ int64)    { nextDraft(c, "post") }
func nextMessageDraft(c *world.Creator, _ int64) { nextDraft(c, "message") }

// nextDraft publishes the oldest draft of a kind, if there is one, and sets the timer for the next.
func nextDraft(c *world.Creator, kind string) {
	a := c.Settings().Automation[kind]
	if !a.On || a.Next.After(c.Now()) {
		return
	}
	from := c.Now()
	if list, err := drafts(c, kind); err == nil && len(list) > 0 {
		list[0].publish(time.Time{})
		from = a.Next // the clock may have been set forward by several intervals
	}
	a.Next = from.Add(time.Duration(a.Hours) * time.Hour)
	saveAutomation(c, kind, a)
}
