package money

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const promotion = "promotion"

func promotionRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /promotions", Handle: promotions},
		{Pattern: "POST /promotions", Handle: wire.Read(createPromotion)},
		{Pattern: "GET /promotions/{promotion_id}", Handle: wire.On(findPromotion, getPromotion)},
		{Pattern: "PATCH /promotions/{promotion_id}", Handle: wire.ReadOn(findPromotion, updatePromotion)},
		{Pattern: "DELETE /promotions/{promotion_id}", Handle: wire.Remove(findPromotion, (*world.Creator).Promotions)},
		{Pattern: "POST /promotions/{promotion_id}/finish", Handle: wire.On(findPromotion, stopPromotion)},
		{Pattern: "GET /promotions/{promotion_id}/claimers", Handle: wire.On(findPromotion, claimers)},
	}
}

func promoted(p *row.Promotion, claims int, now time.Time) bool {
	return !p.Stopped && !p.Starts.After(now) && (p.Ends.IsZero() || p.Ends.After(now)) && (p.MaxClaims == 0 || claims < p.MaxClaims)
}

func showPromotion(c *wire.Call, p *row.Promotion) (any, error) {
	claims := len(cameBy(c.Creator, promotion, p.ID))
	return view.Promotion(p, claims, promoted(p, claims, c.Now())), nil
}

func promotions(c *wire.Call) (any, error) {
	state, came, now := c.Query("state"), yields(c.Creator, promotion, wire.Span{}), c.Now()
	running := func(p *row.Promotion) bool { return promoted(p, came[p.ID].Subscribers, now) }
	rows := wire.Filter(c.Promotions().All(), func(p *row.Promotion) bool {
		return state == "" || state == "all" || (state == "running") == running(p)
	})
	order := wire.Order[*row.Promotion]{Rank: func(p *row.Promotion) int64 { return p.Starts.UnixMilli() }}
	return wire.Page(c, rows, order, func(p *row.Promotion) any { return view.Promotion(p, came[p.ID].Subscribers, running(p)) })
}

func findPromotion(c *wire.Call) (*row.Promotion, error) {
	return wire.Found(promotion, c.Promotions().Get(c.ID("promotion_id")))
}

func getPromotion(c *wire.Call, p *row.Promotion) (any, error) {
	return showPromotion(c, p)
}

type promotionInput struct {
	Audience  string `json:"audience"`
	Type      string `json:"type"`
	Percent   int    `json:"discount_percent"`
	TrialDays int    `json:"trial_days"`
	MaxClaims int    `json:"claims_limit"`
	Days      int    `json:"duration"`
	Message   string `json:"message"`
}

// Defaults and limits of a promotion.
const (
	usualPercent = 10
	usualTrial   = 7
	longestTrial = 365
	longestRun   = 3650 // days
)

func createPromotion(c *wire.Call, in *promotionInput) (any, error) {
	p := &row.Promotion{Audience: in.Audience, Type: in.Type, Message: in.Message, MaxClaims: max(in.MaxClaims, 0), Starts: c.Now()}
	switch in.Audience {
	case "new", "expired", "both":
	default:
		return nil, wire.Invalid("audience", "The audience must be new, expired or both.")
	}
	switch in.Type {
	case "discount":
		p.Percent = min(cmp.Or(max(in.Percent, 0), usualPercent), 100)
	case "trial":
		p.TrialDays = min(cmp.Or(max(in.TrialDays, 0), usualTrial), longestTrial)
	default:
		return nil, wire.Invalid("type", "The type must be discount or trial.")
	}
	endIn(p, in.Days, c.Now())
	p.ID = c.Promotions().NextID()
	c.Promotions().Put(p)
	return showPromotion(c, p)
}

// endIn makes a promotion end after the given number of days, or never if days is not positive.
func endIn(p *row.Promotion, days int, now time.Time) {
	p.Ends = time.Time{}
	if days > 0 {
		p.Ends = now.AddDate(0, 0, min(days, longestRun))
	}
}

func updatePromotion(c *wire.Call, p *row.Promotion, in *promotionInput) (any, error) {
	if c.Has("message") {
		p.Message = in.Message
	}
	if c.Has("duration") {
		endIn(p, in.Days, c.Now())
	}
	if c.Has("claims_limit") {
		p.MaxClaims = max(in.MaxClaims, 0)
	}
	c.Promotions().Put(p)
	return showPromotion(c, p)
}

func stopPromotion(c *wire.Call, p *row.Promotion) (any, error) {
	if !p.Stopped {
		p.Stopped = true
		if p.Ends.IsZero() || p.Ends.After(c.Now()) {
			p.Ends = c.Now()
		}
		c.Promotions().Put(p)
	}
	return showPromotion(c, p)
}

func claimers(c *wire.Call, p *row.Promotion) (any, error) {
	return showFans(c, cameBy(c.Creator, promotion, p.ID))
}

func bundleRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /bundles", Handle: bundles},
		{Pattern: "POST /bundles", Handle: wire.Read(createBundle)},
		{Pattern: "GET /bundles/{bundle_id}", Handle: wire.Show(findBundle, view.Bundle)},
		{Pattern: "PATCH /bundles/{bundle_id}", Handle: wire.ReadOn(findBundle, updateBundle)},
		{Pattern: "DELETE /bundles/{bundle_id}", Handle: wire.Remove(findBundle, (*world.Creator).Bundles)},
	}
}

func bundles(c *wire.Call) (any, error) {
	return wire.Whole(c.Bundles().All(), func(b *row.Bundle) any { return view.Bundle(c.Creator, b) }), nil
}

func findBundle(c *wire.Call) (*row.Bundle, error) {
	return wire.Found("bundle", c.Bundles().Get(c.ID("bundle_id")))
}

type bundleInput struct {
	Months  int `json:"duration"`
	Percent int `json:"discount_percent"`
}

func (in *bundleInput) Check(*wire.Call) error {
	if in.Percent < 5 || in.Percent > 50 {
		return wire.Invalid("discount_percent", "The discount of a bundle must be 5 to 50 percent.")
	}
	return nil
}

func createBundle(c *wire.Call, in *bundleInput) (any, error) {
	if in.Months != 3 && in.Months != 6 && in.Months != 12 {
		return nil, wire.Invalid("duration", "A bundle must have 3, 6 or 12 months.")
	}
	return saveBundle(c, &row.Bundle{Rec: row.Rec{ID: c.Bundles().NextID()}, Months: in.Months, Percent: in.Percent, At: c.Now()})
}

func saveBundle(c *wire.Call, b *row.Bundle) (any, error) {
	c.Bundles().Put(b)
	return view.Bundle(c.Creator, b), nil
}

func updateBundle(c *wire.Call, b *row.Bundle, in *bundleInput) (any, error) {
	b.Percent = in.Percent
	return saveBundle(c, b)
}
