package view

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// SettingsView is the view of the creator's settings.
type SettingsView struct {
	Handle   string   `json:"handle"`
	Name     string   `json:"display_name"`
	Email    string   `json:"email"`
	About    *string  `json:"about"`
	Location *string  `json:"location"`
	Website  *string  `json:"website"`
	Price    Dollars  `json:"subscribe_price"`
	Currency string   `json:"currency"`
	Welcome  bool     `json:"is_welcome_on"`
	Blocked  []string `json:"blocked_countries"`
	Payouts  string   `json:"payout_interval"`
}

// Settings returns the view of the creator's settings. It has the same profile fields as Me.
func Settings(c *world.Creator) SettingsView {
	p, s := &c.Profile, c.Settings()
	return SettingsView{
		Handle: p.Username, Name: p.Name, Email: p.Login, About: Optional(p.Bio), Location: Optional(p.Location),
		Website: Optional(p.Website),
		Price:   Dollars(p.Price), Currency: "USD", Welcome: s.WelcomeOn, Blocked: NotNull(s.BlockedStates),
		Payouts: s.PayoutEvery,
	}
}

// WelcomeView is the view of the welcome message.
type WelcomeView struct {
	On    bool        `json:"is_on"`
	Text  string      `json:"text"`
	Media []MediaView `json:"attachments"`
	Price Dollars     `json:"price"`
}

// Welcome returns the view of the welcome message.
func Welcome(c *world.Creator) WelcomeView {
	s := c.Settings()
	return WelcomeView{On: s.WelcomeOn, Text: s.WelcomeText, Media: MediaList(c, s.WelcomeMedia), Price: Dollars(s.WelcomePrice)}
}

// SocialLinkView is the view of a link on the profile.
type SocialLinkView struct {
	ID    int64  `json:"id"`
	Label string `json:"title"`
	URL   string `json:"url"`
	At    Stamp  `json:"created_at"`
}

// SocialLink returns the view of a link on the profile.
func SocialLink(l *row.SocialLink) SocialLinkView {
	return SocialLinkView{ID: l.ID, Label: l.Label, URL: l.URL, At: Stamp(l.At)}
}

// SessionView is the view of a session.
type SessionView struct {
	ID      int64  `json:"id"`
	Device  string `json:"device"`
	Agent   string `json:"user_agent"`
	Region  string `json:"region"` // that it was opened from
	At      Stamp  `json:"created_at"`
	Seen    Stamp  `json:"last_seen"`
	Expires Stamp  `json:"expires_at"`
	Current bool   `json:"is_current"`
}

// Session returns the view of a session. It shows only the first characters of the device id, because the full id is
// part of the credentials.
func Session(s, current world.Session) SessionView {
	return SessionView{
		ID: s.SessionNumber(), Device: s.Device[:min(len(s.Device), 6)], Agent: s.Agent, Region: s.Egress, At: Stamp(s.At), Seen: Stamp(s.Seen),
		Expires: Stamp(s.ExpiresAt), Current: s.ID == current.ID,
	}
}
