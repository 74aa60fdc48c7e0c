package view

import (
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// PostStatsView is the view of a post's statistics. Tips, purchases and amounts are of the requested span, all other
// numbers of all time.
type PostStatsView struct {
	ID        int64     `json:"post_id"`
	Text      string    `json:"text"`
	Published Stamp     `json:"published_at"`
	Views     int       `json:"views_count"`
	Likes     int       `json:"likes_count"`
	Comments  int       `json:"comments_count"`
	Purchases int       `json:"purchases_count"`
	Sales     Dollars   `json:"purchases_sum"`
	TipCount  int       `json:"tips_count"`
	Tips      Dollars   `json:"tips_sum"`
	Gross     Dollars   `json:"gross"`
	Net       Dollars   `json:"net"`
	Days      []DayView `json:"days"`
}

// DayView is the view of a post's income on one day.
type DayView struct {
	Date      string  `json:"date"`
	Purchases int     `json:"purchases_count"`
	Tips      Dollars `json:"tips_sum"`
	Gross     Dollars `json:"gross"`
	Net       Dollars `json:"net"`
}

// PostStats returns the statistics of a post, with the days that have payments. A nil in means all time.
func PostStats(c *world.Creator, p *row.Post, in func(time.Time) bool) PostStatsView {
	fits := func(t *row.Tx) bool { return in == nil || in(t.At) }
	e := Paid(c, p.ID, fits)
	v := PostStatsView{
		ID: p.ID, Text: p.Text, Published: Stamp(p.Published), Views: p.Views, Likes: Likes(p), Comments: c.Comments(p.ID).Len(),
		Purchases: e.Purchases, Sales: Dollars(e.Sales), TipCount: e.TipCount, Tips: Dollars(e.Tips), Gross: Dollars(e.Tips + e.Sales),
		Net: Dollars(e.Net), Days: []DayView{},
	}
	for _, t := range c.Paid(p.ID) { // oldest first
		if t.Status == "reversed" || !fits(t) {
			continue
		}
		date := t.At.Format(time.DateOnly)
		if n := len(v.Days); n == 0 || v.Days[n-1].Date != date {
			v.Days = append(v.Days, DayView{Date: date})
		}
		d := &v.Days[len(v.Days)-1]
		d.Gross += Dollars(t.Gross)
		d.Net += Dollars(t.Net())
		if t.Type == "tip" {
			d.Tips += Dollars(t.Gross)
		} else {
			d.Purchases++
		}
	}
	return v
}

// StoryStatsView is the view of a story's statistics.
type StoryStatsView struct {
	ID       int64   `json:"story_id"`
	Views    int     `json:"views_count"`
	Likes    int     `json:"likes_count"`
	TipCount int     `json:"tips_count"`
	Tips     Dollars `json:"tips_sum"`
	Net      Dollars `json:"net"`
	At       Stamp   `json:"created_at"`
}

// StoryStats returns the statistics of a story.
func StoryStats(c *world.Creator, s *row.Story) StoryStatsView {
	e := Paid(c, s.ID, nil)
	return StoryStatsView{
		ID: s.ID, Views: s.Views + len(s.Seen), Likes: StoryLikes(s), TipCount: e.TipCount, Tips: Dollars(e.Tips), Net: Dollars(e.Net), At: Stamp(s.At),
	}
}

// StreamStatsView is the view of a stream's statistics.
type StreamStatsView struct {
	ID       int64   `json:"stream_id"`
	Title    string  `json:"title"`
	Viewers  int     `json:"viewers_count"`
	Peak     int     `json:"viewers_peak"`
	Likes    int     `json:"likes_count"`
	Comments int     `json:"comments_count"`
	TipCount int     `json:"tips_count"`
	Tips     Dollars `json:"tips_sum"`
	Net      Dollars `json:"net"`
	Seconds  int     `json:"duration"`
	Starts   Stamp   `json:"starts_at"`
}

// StreamStats returns the statistics of a stream.
func StreamStats(c *world.Creator, s *row.Stream) StreamStatsView {
	e := Paid(c, s.ID, nil)
	v := StreamStatsView{
		ID: s.ID, Title: s.Title, Viewers: Stream(c, s).Viewers, Peak: s.Peak, Likes: s.Likes, Comments: c.StreamComments(s.ID).Len(),
		TipCount: e.TipCount, Tips: Dollars(e.Tips), Net: Dollars(e.Net), Starts: Stamp(s.Starts),
	}
	switch s.State {
	case "live":
		v.Seconds = int(c.Now().Sub(s.Started) / time.Second)
	case "ended":
		v.Seconds = int(s.Ended.Sub(s.Started) / time.Second)
	}
	return v
}
