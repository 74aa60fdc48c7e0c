// Package settings implements the creator's settings and sessions (settings.go) and notification inbox
// (notifications.go).
package settings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of this package. No driver knows the last one: it stands for the unknown frames that platforms sometimes send.
const (
	frameNotice     = "notice.new"
	frameCounts     = "counts.changed"
	frameSettings   = "settings.changed"
	frameToast      = "toast.shown"
	frameExperiment = "system.experiment"
)

// Routes returns the operations of this package.
func Routes() []wire.Route { return slices.Concat(noticeRoutes(), settingRoutes()) }

// Dues returns nil, because this package sets no timers.
func Dues() map[string]world.Handler { return nil }

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameNotice: announce, frameSettings: changeOnPhone, frameToast: toast, frameExperiment: experiment,
	}
}

// announce adds a notice from the platform to the inbox.
func announce(c *world.Creator, in fanaction.Input) error {
	if in.User != 0 {
		if _, err := in.Person(c); err != nil {
			return err
		}
	}
	ledger.Notify(c, &row.Notice{Type: "system", Text: in.Words("There is a new way to sort your fans."), Person: in.User})
	return nil
}

// changeOnPhone makes the creator change their location in the platform's own app.
func changeOnPhone(c *world.Creator, in fanaction.Input) error {
	places := []string{"Lisbon", "Berlin", "Toronto", "Bristol"}
	next := places[(slices.Index(places, c.Profile.Location)+1)%len(places)]
	c.Profile.Location = in.Words(next)
	c.SaveProfile()
	tellChanged(c, "location")
	return nil
}

// toast sends a note that is shown once and not stored.
func toast(c *world.Creator, in fanaction.Input) error {
	c.Flash(frameToast, map[string]any{
		"id": c.Now().UnixMilli(), "title": "Good news", "text": in.Words("Your profile was visited more often than last week."),
	})
	return nil
}

// experiment sends a frame that the platform does not document.
func experiment(c *world.Creator, in fanaction.Input) error {
	c.Emit(frameExperiment, map[string]any{"name": in.Words("new_profile_header"), "group": "b", "share": 0.5})
	return nil
}

// maxPrice is the maximum price of a month in cents.
const maxPrice = 4999

func settingRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /settings", Handle: settings},
		{Pattern: "PATCH /settings/profile", Handle: wire.Read(updateProfile)},
		{Pattern: "PUT /settings/price", Handle: wire.Read(setPrice)},
		{Pattern: "GET /settings/handle_check", Handle: checkHandle},
		{Pattern: "GET /settings/welcome", Handle: welcome},
		{Pattern: "PUT /settings/welcome", Handle: wire.Read(setWelcome)},
		{Pattern: "GET /settings/blocked_countries", Handle: blockedCountries},
		{Pattern: "PUT /settings/blocked_countries", Handle: wire.Read(setBlockedCountries)},
		{Pattern: "GET /settings/links", Handle: socialLinks},
		{Pattern: "POST /settings/links", Handle: wire.Read(addSocialLink)},
		{Pattern: "PATCH /settings/links/{link_id}", Handle: wire.ReadOn(findSocialLink, updateSocialLink)},
		{Pattern: "DELETE /settings/links/{link_id}", Handle: wire.Remove(findSocialLink, (*world.Creator).SocialLinks)},
		{Pattern: "GET /settings/sessions", Handle: sessions},
		{Pattern: "DELETE /settings/sessions/{session_id}", Handle: endSession},
	}
}

// tellChanged sends a frame with the names of the changed settings.
func tellChanged(c *world.Creator, changes ...string) {
	c.Emit(frameSettings, map[string]any{"changes": changes})
}

func settings(c *wire.Call) (any, error) { return view.Settings(c.Creator), nil }

type updateProfileInput struct {
	Name     string `json:"display_name"`
	Bio      string `json:"about"`
	Location string `json:"location"`
	Website  string `json:"website"`
}

func updateProfile(c *wire.Call, in *updateProfileInput) (any, error) {
	changes := []string{}
	set := func(field string, at *string, to string) {
		if c.Has(field) && *at != to {
			*at = to
			changes = append(changes, field)
		}
	}
	// A profile must have a name, so an empty one is ignored.
	set("display_name", &c.Profile.Name, cmp.Or(strings.TrimSpace(in.Name), c.Profile.Name))
	set("about", &c.Profile.Bio, in.Bio)
	set("location", &c.Profile.Location, in.Location)
	set("website", &c.Profile.Website, in.Website)
	if len(changes) > 0 {
		c.SaveProfile()
		tellChanged(c.Creator, changes...)
	}
	return view.Settings(c.Creator), nil
}

type setPriceInput struct {
	Price view.Dollars `json:"price"`
}

func setPrice(c *wire.Call, in *setPriceInput) (any, error) {
	if in.Price < 0 || in.Price > maxPrice {
		return nil, wire.Invalid("price", "The price of a month must be at most $49.99.")
	}
	c.Profile.Price = int64(in.Price)
	c.SaveProfile()
	tellChanged(c.Creator, "subscribe_price")
	return view.Settings(c.Creator), nil
}

var handle = regexp.MustCompile(`^[a-z0-9._-]{3,30}$`)

// checkHandle reports whether a handle is available. A taken or invalid handle is not.
func checkHandle(c *wire.Call) (any, error) {
	name := strings.ToLower(c.Query("handle"))
	taken := name == strings.ToLower(c.Profile.Username) || slices.ContainsFunc(c.People().All(), func(p *row.Person) bool {
		return strings.ToLower(p.Username) == name
	})
	return map[string]bool{"is_available": !taken && handle.MatchString(name)}, nil
}

func welcome(c *wire.Call) (any, error) { return view.Welcome(c.Creator), nil }

type setWelcomeInput struct {
	On    bool         `json:"is_on"`
	Text  string       `json:"text"`
	Media []int64      `json:"media_ids"`
	Price view.Dollars `json:"price"`
}

// setWelcome changes the given fields and keeps the others.
func setWelcome(c *wire.Call, in *setWelcomeInput) (any, error) {
	for _, id := range in.Media {
		if c.Media().Get(id) == nil {
			return nil, wire.Invalid("media_ids", "At least one of these media does not exist.")
		}
	}
	s := c.Settings()
	s.WelcomeOn = in.On
	if c.Has("text") {
		s.WelcomeText = in.Text
	}
	if c.Has("media_ids") {
		s.WelcomeMedia = in.Media
	}
	if c.Has("price") {
		s.WelcomePrice = max(int64(in.Price), 0)
	}
	c.SaveSettings()
	tellChanged(c.Creator, "welcome")
	return view.Welcome(c.Creator), nil
}

func showCountries(c *wire.Call) any {
	return map[string][]string{"countries": view.Settings(c.Creator).Blocked}
}

func blockedCountries(c *wire.Call) (any, error) { return showCountries(c), nil }

type setBlockedCountriesInput struct {
	Countries []string `json:"countries"`
}

// setBlockedCountries does not check that the countries exist.
func setBlockedCountries(c *wire.Call, in *setBlockedCountriesInput) (any, error) {
	blocked := []string{}
	for _, name := range in.Countries {
		if name = strings.ToUpper(strings.TrimSpace(name)); name != "" && !slices.Contains(blocked, name) {
			blocked = append(blocked, name)
		}
	}
	c.Settings().BlockedStates = blocked
	c.SaveSettings()
	tellChanged(c.Creator, "blocked_countries")
	return showCountries(c), nil
}

func socialLinks(c *wire.Call) (any, error) {
	return wire.Whole(c.SocialLinks().All(), func(l *row.SocialLink) any { return view.SocialLink(l) }), nil
}

type socialInput struct {
	Label string `json:"title"`
	URL   string `json:"url"`
}

func addSocialLink(c *wire.Call, in *socialInput) (any, error) {
	if in.URL == "" {
		return nil, wire.Invalid("url", "A link needs a URL.")
	}
	l := &row.SocialLink{Rec: row.Rec{ID: c.SocialLinks().NextID()}, Label: in.Label, URL: in.URL, At: c.Now()}
	c.SocialLinks().Put(l)
	return view.SocialLink(l), nil
}

func findSocialLink(c *wire.Call) (*row.SocialLink, error) {
	return wire.Found("link", c.SocialLinks().Get(c.ID("link_id")))
}

func updateSocialLink(c *wire.Call, l *row.SocialLink, in *socialInput) (any, error) {
	if c.Has("title") {
		l.Label = in.Label
	}
	l.URL = cmp.Or(in.URL, l.URL)
	c.SocialLinks().Put(l)
	return view.SocialLink(l), nil
}

func sessions(c *wire.Call) (any, error) {
	return wire.Whole(c.Sessions(), func(s world.Session) any { return view.Session(s, c.Session) }), nil
}

// endSession ends a session. Ended sessions are forgotten, so it accepts every id that a session may have had.
func endSession(c *wire.Call) (any, error) {
	id := c.ID("session_id")
	first := row.MadeID(c.Profile.ID, row.KindSession, 1)
	if id < first || id >= row.SeedID(c.Profile.ID, row.KindSession+1, 0) {
		return nil, wire.NotFound("session")
	}
	for _, s := range c.Sessions() {
		if s.SessionNumber() == id {
			c.EndSession(s.ID)
		}
	}
	return wire.OK, nil
}
