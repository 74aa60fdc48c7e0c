package people

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func meRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /me", Handle: getMe},
		{Pattern: "PATCH /me", Handle: wire.Read(updateMe)},
		{Pattern: "GET /me/counts", Handle: myCounts},
		{Pattern: "GET /me/since", Handle: mySince},
		{Pattern: "GET /me/ranking", Handle: myRanking},
		{Pattern: "GET /me/features", Handle: myFeatures},
	}
}

func getMe(c *wire.Call) (any, error) { return showMe(c.Creator), nil }

// showMe returns the view of the creator. The two-factor methods follow from the persona.
func showMe(c *world.Creator) view.MeView {
	steps := strings.Split(c.Profile.Persona, "-")
	return view.Me(c, view.SecondView{
		SMS: slices.Contains(steps, "sms"), App: slices.Contains(steps, "app"), Face: slices.Contains(steps, "face"),
	})
}

type updateMeInput struct {
	Name     string `json:"display_name"`
	About    string `json:"about"`
	Location string `json:"location"`
	Website  string `json:"website"`
	Avatar   int64  `json:"avatar_id"`
	Cover    int64  `json:"header_id"`
}

func updateMe(c *wire.Call, in *updateMeInput) (any, error) {
	if n := utf8.RuneCountInString(in.Name); c.Has("display_name") && (n < 1 || n > 50) {
		return nil, wire.Invalid("display_name", "A name must have 1 to 50 characters.")
	}
	if utf8.RuneCountInString(in.About) > 1000 {
		return nil, wire.Invalid("about", "The text about you must have at most 1000 characters.")
	}
	for field, id := range map[string]int64{"avatar_id": in.Avatar, "header_id": in.Cover} {
		if m := c.Media().Get(id); c.Has(field) && (m == nil || m.Type != "photo") {
			return nil, wire.Invalid(field, "This is not a picture in your vault.")
		}
	}
	p := &c.Profile
	changes := []string{}
	for _, f := range []struct {
		name  string
		field *string
		value string
	}{{"display_name", &p.Name, in.Name}, {"about", &p.Bio, in.About}, {"location", &p.Location, in.Location}, {"website", &p.Website, in.Website}} {
		if c.Has(f.name) {
			*f.field = f.value
			changes = append(changes, f.name)
		}
	}
	if c.Has("avatar_id") {
		p.AvatarID = in.Avatar
		changes = append(changes, "avatar")
	}
	if c.Has("header_id") {
		p.CoverID = in.Cover
		changes = append(changes, "header")
	}
	tellProfile(c.Creator, changes)
	return showMe(c.Creator), nil
}

// tellProfile saves the profile and sends a frame with the names of the changed fields.
func tellProfile(c *world.Creator, changes []string) {
	c.SaveProfile()
	c.Emit(frameProfile, map[string]any{"changes": changes})
}

func myCounts(c *wire.Call) (any, error) { return view.Counts(c.Creator, nil), nil }

func mySince(c *wire.Call) (any, error) {
	return map[string]any{"joined_at": view.Stamp(c.Profile.JoinedAt)}, nil
}

// myRanking returns the creator's rank by income of the last thirty days, as "top n percent".
func myRanking(c *wire.Call) (any, error) {
	var net int64
	from := c.Now().Add(-month)
	for _, t := range c.Txs().All() {
		if t.Status != "reversed" && t.At.After(from) {
			net += t.Net()
		}
	}
	const middle = 50_00 // the median income in cents
	top := 100 / (1 + float64(net)/middle)
	return map[string]float64{"top_percent": max(math.Round(top*100)/100, 0.01)}, nil
}

func myFeatures(c *wire.Call) (any, error) {
	features := []string{"chats"}
	if !c.Profile.IsFan {
		features = append(features, "paid_messages", "mass_messages", "posts", "stories", "streams", "tracking_links", "trial_links",
			"promotions", "bundles", "payouts")
	}
	return map[string]any{"features": features}, nil
}
