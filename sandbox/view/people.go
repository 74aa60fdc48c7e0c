package view

import (
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// CountsView is the view of the creator's unread and scheduled counts.
type CountsView struct {
	Chats    int `json:"unread_chats"`
	Priority int `json:"unread_priority_chats"`
	Notices  int `json:"unread_notices"`
	Tips     int `json:"unread_tips"`
	Queue    int `json:"scheduled"`
}

// Counts returns the counts. If whose is not nil, they include only chats and notices of the people for whom it is
// true, and nothing that is scheduled.
func Counts(c *world.Creator, whose func(person int64) bool) CountsView {
	var v CountsView
	for _, chat := range c.Chats().All() {
		if (chat.Unread == 0 && !chat.Marked) || chat.Hidden || (whose != nil && !whose(chat.ID)) {
			continue
		}
		v.Chats++
		if chat.Priority {
			v.Priority++
		}
	}
	for _, n := range c.Notices().All() {
		if n.Read || (whose != nil && !whose(n.Person)) {
			continue
		}
		v.Notices++
		if n.Type == "tips" {
			v.Tips++
		}
	}
	if whose == nil {
		v.Queue = len(Queue(c))
	}
	return v
}

// MeView is the creator's view of their own account.
type MeView struct {
	ID        int64      `json:"id"`
	Handle    string     `json:"handle"`
	Name      string     `json:"display_name"`
	Email     string     `json:"email"`
	Avatar    *string    `json:"avatar"`
	Cover     *string    `json:"header"`
	About     *string    `json:"about"`
	Location  *string    `json:"location"`
	Website   *string    `json:"website"`
	IsCreator bool       `json:"is_creator"`
	Verified  bool       `json:"is_verified"`
	Joined    Stamp      `json:"joined_at"`
	Price     Dollars    `json:"subscribe_price"`
	Currency  string     `json:"currency"`
	Fans      int        `json:"subscribers_count"`
	Posts     int        `json:"posts_count"`
	Media     int        `json:"media_count"`
	Counts    CountsView `json:"counts"`
	Second    SecondView `json:"two_factor"`
}

// SecondView lists which two-factor methods are on.
type SecondView struct {
	SMS  bool `json:"sms"`
	App  bool `json:"otp"`
	Face bool `json:"face"`
}

// Me returns the view of the creator. Every sign-in is checked with it, so it loads neither the people nor the
// transactions.
func Me(c *world.Creator, second SecondView) MeView {
	p := &c.Profile
	v := MeView{
		ID: p.ID, Handle: p.Username, Name: p.Name, Email: p.Login, Avatar: picture(c, p.AvatarID), Cover: picture(c, p.CoverID),
		About: Optional(p.Bio), Location: Optional(p.Location), Website: Optional(p.Website), IsCreator: !p.IsFan,
		Verified: !p.IsFan,
		Joined:   Stamp(p.JoinedAt), Price: Dollars(p.Price), Currency: "USD", Fans: p.Fans, Media: c.Media().Len(),
		Counts: Counts(c, nil), Second: second,
	}
	for _, post := range c.Posts().All() {
		if post.Author == p.ID && !post.Published.IsZero() && !post.Archived && !post.Private && !post.Expired {
			v.Posts++
		}
	}
	return v
}

func picture(c *world.Creator, media int64) *string {
	if media == 0 {
		return nil
	}
	url := MediaURL(c, media, "thumb")
	return &url
}

// FanView is the view of a current or former subscriber.
type FanView struct {
	User     User         `json:"user"`
	Status   string       `json:"status"` // active, expired
	Since    Stamp        `json:"subscribed_at"`
	Until    Stamp        `json:"expires_at"`
	Renews   bool         `json:"is_rebill_on"`
	Price    Dollars      `json:"price"`
	Discount *DiscountOff `json:"discount"`
	Alias    *string      `json:"alias"`
	Note     *string      `json:"note"`
	Spent    Dollars      `json:"spent_total"`
	Seen     Stamp        `json:"last_activity"`
	Source   SourceView   `json:"source"`
}

// DiscountOff is the view of a fan's discount.
type DiscountOff struct {
	Percent int   `json:"percent"`
	Ends    Stamp `json:"expires_at"`
}

// SourceView is the view of the source of a subscription.
type SourceView struct {
	Kind string `json:"kind"` // profile, tracking, trial, promotion
	Link *int64 `json:"link_id"`
}

// Fan returns the view of a fan. The person must have a subscription, which may have ended.
func Fan(c *world.Creator, p *row.Person) FanView {
	return FanView{
		User: Person(c, p), Status: status(p.Sub, c.Now()), Since: Stamp(p.Sub.Since), Until: Stamp(p.Sub.Until), Renews: p.Sub.AutoRenew,
		Price: Dollars(p.Sub.Price), Discount: Discount(p, c.Now()), Alias: Optional(p.CustomName), Note: Optional(p.Note),
		Spent: Dollars(c.Spent(p.ID).Total), Seen: Stamp(p.LastSeen), Source: Source(p.Sub),
	}
}

func status(s *row.Subscription, now time.Time) string {
	if s.Active(now) {
		return "active"
	}
	return "expired"
}

// Discount returns the view of a person's current discount, or nil.
func Discount(p *row.Person, now time.Time) *DiscountOff {
	if !p.Discount.Holds(now) {
		return nil
	}
	return &DiscountOff{Percent: p.Discount.Percent, Ends: Stamp(p.Discount.EndsAt)}
}

// Source returns the view of the source of a subscription.
func Source(s *row.Subscription) SourceView {
	return SourceView{Kind: s.SourceKind, Link: Optional(s.SourceID)}
}

// SpendView is the view of a person's payments within a time span, by purpose.
type SpendView struct {
	User          User    `json:"user"`
	Total         Dollars `json:"total"`
	Subscriptions Dollars `json:"subscriptions"`
	Messages      Dollars `json:"messages"`
	Posts         Dollars `json:"posts"`
	Tips          Dollars `json:"tips"`
	Streams       Dollars `json:"streams"`
	From          string  `json:"from"`
	To            string  `json:"to"`
}

// Spend returns the view of a person's payments. A zero from means the day the creator joined, a zero to means today.
func Spend(c *world.Creator, p *row.Person, s world.Spend, from, to time.Time) SpendView {
	if from.IsZero() {
		from = c.Profile.JoinedAt
	}
	if to.IsZero() {
		to = c.Now()
	}
	return SpendView{
		User: Person(c, p), Total: Dollars(s.Total), Subscriptions: Dollars(s.Subscriptions), Messages: Dollars(s.Messages),
		Posts: Dollars(s.Posts), Tips: Dollars(s.Tips), Streams: Dollars(s.Streams),
		From: from.Format(time.DateOnly), To: to.Format(time.DateOnly),
	}
}

// PeriodView is the view of one period of a subscription.
type PeriodView struct {
	From   Stamp   `json:"started_at"`
	To     Stamp   `json:"ended_at"` // null until it has ended
	Price  Dollars `json:"price"`
	Kind   string  `json:"type"` // regular, trial, bundle, free
	Months int     `json:"months"`
}

// Period returns the view of a period.
func Period(c *world.Creator, p row.Period) PeriodView {
	v := PeriodView{From: Stamp(p.From), Price: Dollars(p.Price), Kind: PeriodWord(p.Kind), Months: p.Months}
	if !p.To.After(c.Now()) {
		v.To = Stamp(p.To)
	}
	return v
}

// PeriodWord returns the platform's name for a kind of period.
func PeriodWord(kind string) string {
	if kind == "paid" {
		return "regular"
	}
	return kind
}

// FollowingView is the view of a creator whom this one follows or has followed.
type FollowingView struct {
	User   User    `json:"user"`
	Status string  `json:"status"` // active, expired
	Since  Stamp   `json:"subscribed_at"`
	Until  Stamp   `json:"expires_at"`
	Renews bool    `json:"is_rebill_on"`
	Price  Dollars `json:"price"`
}

// Following returns the view of a followed creator. p.Follow must not be nil.
func Following(c *world.Creator, p *row.Person) FollowingView {
	return FollowingView{
		User: Person(c, p), Status: status(p.Follow, c.Now()), Since: Stamp(p.Follow.Since), Until: Stamp(p.Follow.Until),
		Renews: p.Follow.AutoRenew, Price: Dollars(p.Follow.Price),
	}
}
