package messages

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func massRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /campaigns", Handle: masses},
		{Pattern: "POST /campaigns", Handle: wire.Read(sendMass)},
		{Pattern: "GET /campaigns/estimate", Handle: estimate},
		{Pattern: "GET /campaigns/chart", Handle: massChart},
		{Pattern: "GET /campaigns/{campaign_id}", Handle: wire.On(mass, getMass)},
		{Pattern: "PATCH /campaigns/{campaign_id}", Handle: wire.ReadOn(mass, updateMass)},
		{Pattern: "DELETE /campaigns/{campaign_id}", Handle: wire.On(mass, cancelMass)},
		{Pattern: "POST /campaigns/{campaign_id}/withdraw", Handle: wire.On(mass, unsendMass)},
		{Pattern: "GET /campaigns/{campaign_id}/statistics", Handle: wire.On(mass, massStatistics)},
		{Pattern: "GET /campaigns/{campaign_id}/buyers", Handle: wire.On(mass, massBuyers)},
	}
}

func mass(c *wire.Call) (*row.Mass, error) {
	return wire.Found("campaign", c.Masses().Get(c.ID("campaign_id")))
}

func masses(c *wire.Call) (any, error) {
	state := c.Query("status")
	rows := wire.Filter(c.Masses().All(), func(m *row.Mass) bool { return state == "" || state == view.MassState(m) })
	order := wire.Order[*row.Mass]{Rank: func(m *row.Mass) int64 { return m.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(m *row.Mass) any { return showMass(c.Creator, m) })
}

func getMass(c *wire.Call, m *row.Mass) (any, error) {
	return showMass(c.Creator, m), nil
}

// audience selects the recipients of a mass message.
type audience struct {
	Include []int64 `json:"to_lists"`
	Exclude []int64 `json:"not_to_lists"`
	People  []int64 `json:"to_users"`
}

func (in *audience) check(c *wire.Call) error {
	for _, ids := range [][]int64{in.Include, in.Exclude} {
		for _, id := range ids {
			if c.Lists().Get(id) == nil {
				return wire.NotFound("list")
			}
		}
	}
	for _, id := range in.People {
		if _, err := c.PersonByID(id); err != nil {
			return err
		}
	}
	return nil
}

type sendMassInput struct {
	content
	audience
	Scheduled view.Stamp `json:"publish_at"`
	UnsendIn  int        `json:"withdraw_after"`
}

func sendMass(c *wire.Call, in *sendMassInput) (any, error) {
	if err := cmp.Or(in.content.check(c), in.audience.check(c)); err != nil {
		return nil, err
	}
	m := &row.Mass{
		Rec: row.Rec{ID: c.Masses().NextID()}, Text: in.Text, Media: in.Media, Previews: in.Previews, Price: int64(in.Price), Locked: in.Locked,
		Include: in.Include, Exclude: in.Exclude, People: in.People, UnsendIn: max(in.UnsendIn, 0), At: c.Now(),
	}
	Schedule(c.Creator, m, time.Time(in.Scheduled))
	return showMass(c.Creator, m), nil
}

func estimate(c *wire.Call) (any, error) {
	in := audience{Include: c.QueryIDs("to_lists"), Exclude: c.QueryIDs("not_to_lists"), People: c.QueryIDs("to_users")}
	if err := in.check(c); err != nil {
		return nil, err
	}
	n := len(recipients(c.Creator, &row.Mass{Include: in.Include, Exclude: in.Exclude, People: in.People}))
	return map[string]int{"recipients_count": n}, nil
}

// lead is the minimum time between a change and sending, so that a mistake can be corrected.
const lead = time.Minute

type updateMassInput struct {
	content
	audience
	Scheduled view.Stamp `json:"publish_at"`
}

func updateMass(c *wire.Call, m *row.Mass, in *updateMassInput) (any, error) {
	if err := cmp.Or(in.content.check(c), in.audience.check(c)); err != nil {
		return nil, err
	}
	if m.State != "scheduled" {
		return nil, wire.Conflict("Only a scheduled message can be changed.")
	}
	if c.Has("text") {
		m.Text = in.Text
	}
	if c.Has("attachments") {
		m.Media = in.Media
	}
	if c.Has("price") {
		m.Price = int64(in.Price)
	}
	if c.Has("to_lists") {
		m.Include = in.Include
	}
	if c.Has("not_to_lists") {
		m.Exclude = in.Exclude
	}
	c.Masses().Put(m)
	if c.Has("publish_at") {
		Schedule(c.Creator, m, later(time.Time(in.Scheduled), c.Now().Add(lead)))
	}
	return showMass(c.Creator, m), nil
}

func cancelMass(c *wire.Call, m *row.Mass) (any, error) {
	if !Cancel(c.Creator, m) {
		return nil, wire.Conflict("This message has already been sent. You can withdraw it.")
	}
	return wire.OK, nil
}

// unsendMass withdraws a mass message. Buyers keep the copies that they paid for.
func unsendMass(c *wire.Call, m *row.Mass) (any, error) {
	if m.State != "sent" {
		return nil, wire.Conflict("This message has not been sent.")
	}
	if !m.Unsent {
		m.Unsent = true
		c.Masses().Put(m)
		c.At(c.Now().Add(moment), dueUnsend, m.ID)
	}
	return wire.OK, nil
}

func massStatistics(c *wire.Call, m *row.Mass) (any, error) {
	return view.MassStats(c.Creator, m, nil), nil
}

func massBuyers(c *wire.Call, m *row.Mass) (any, error) {
	return buyers(c, m.ID, 0, m.ID)
}
