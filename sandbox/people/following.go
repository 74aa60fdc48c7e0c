package people

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func followingRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /following", Handle: listFollowing},
		{Pattern: "GET /following/counts", Handle: followingCounts},
		{Pattern: "GET /following/{user_id}", Handle: wire.Show(followed, view.Following)},
		{Pattern: "PUT /following/{user_id}/rebill", Handle: wire.ReadOn(followed, setFollowRenewal)},
		{Pattern: "GET /following/{user_id}/periods", Handle: wire.On(followed, followPeriods)},
	}
}

func listFollowing(c *wire.Call) (any, error) {
	state, now := c.Query("status"), c.Now()
	rows := wire.Filter(c.People().All(), func(p *row.Person) bool {
		return p.Follow != nil && (state == "all" || (state == "expired") != p.Follow.Active(now))
	})
	order := wire.Order[*row.Person]{Rank: func(p *row.Person) int64 { return p.Follow.Since.UnixMilli() }}
	return wire.Page(c, rows, order, func(p *row.Person) any { return view.Following(c.Creator, p) })
}

// followingCounts returns the unread counts for the people whom the creator follows.
func followingCounts(c *wire.Call) (any, error) {
	now := c.Now()
	return view.Counts(c.Creator, func(id int64) bool {
		p := c.People().Get(id)
		return p != nil && p.Follow.Active(now)
	}), nil
}

// followed returns the person named in the path, whom the creator must follow or have followed.
func followed(c *wire.Call) (*row.Person, error) {
	p, err := c.Person("user_id")
	if err != nil {
		return nil, err
	}
	if p.Follow == nil {
		return nil, wire.NotFound("subscription")
	}
	return p, nil
}

type setFollowRenewalInput struct {
	On bool `json:"is_rebill_on"`
}

func setFollowRenewal(c *wire.Call, p *row.Person, in *setFollowRenewalInput) (any, error) {
	if in.On && !p.Follow.Active(c.Now()) {
		return nil, wire.Conflict("This subscription has ended. Follow the user again.")
	}
	p.Follow.AutoRenew = in.On
	c.People().Put(p)
	return view.Following(c.Creator, p), nil
}

func followPeriods(c *wire.Call, p *row.Person) (any, error) {
	return periods(c, p.Follow)
}

// follow subscribes the creator to another creator for a month, with automatic renewal.
func follow(c *wire.Call) (any, error) {
	p, err := c.Person("user_id")
	switch {
	case err != nil:
		return nil, err
	case !p.IsCreator:
		return nil, wire.Forbidden("Only creators can be followed.")
	case p.Blocked:
		return nil, wire.Forbidden("You have blocked this user.")
	}
	now := c.Now()
	if !p.Follow.Active(now) {
		f := p.Follow
		if f == nil {
			f = &row.Subscription{Since: now, Price: p.ID % 4 * 500, SourceKind: "profile"}
		}
		f.Until, f.Ended, f.AutoRenew = now, false, true
		extend(f, month, "paid")
		p.Follow = f
		c.People().Put(p)
	}
	return view.Following(c.Creator, p), nil
}

// unfollow ends the creator's subscription to a person immediately and keeps its history.
func unfollow(c *wire.Call, p *row.Person) {
	if now := c.Now(); p.Follow.Active(now) {
		cut(p.Follow, now)
		p.Follow.Ended, p.Follow.AutoRenew = true, false
	}
}
