package money

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func topRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /statistics/top/posts", Handle: wire.On(days, topPosts)},
		{Pattern: "GET /statistics/top/messages", Handle: wire.On(days, topMessages)},
		{Pattern: "GET /statistics/top/stories", Handle: wire.On(days, topStories)},
		{Pattern: "GET /statistics/top/streams", Handle: wire.On(days, topStreams)},
		{Pattern: "GET /statistics/top/links", Handle: wire.On(days, topLinks)},
	}
}

type keyed interface{ Key() int64 }

// top returns the rows with the highest ranks, the newest first among equals, up to the limit of the call.
func top[P keyed](c *wire.Call, rows []P, rank func(P) int64, show func(P) any) any {
	ranks := map[int64]int64{}
	for _, r := range rows {
		ranks[r.Key()] = rank(r)
	}
	sorted := slices.SortedFunc(slices.Values(rows), func(a, b P) int {
		return cmp.Or(cmp.Compare(ranks[b.Key()], ranks[a.Key()]), cmp.Compare(b.Key(), a.Key()))
	})
	return wire.Whole(sorted[:min(len(sorted), c.Limit())], show)
}

// postsUntil returns the creator's posts that were published before the end of a span, or if only is set, within it.
func postsUntil(c *wire.Call, in wire.Span, only bool) []*row.Post {
	return wire.Filter(c.Posts().All(), func(p *row.Post) bool {
		return p.Author == c.Profile.ID && !p.Published.IsZero() && !p.Published.After(in.To) && (!only || in.Has(p.Published))
	})
}

// massesUntil is postsUntil for mass messages.
func massesUntil(c *wire.Call, in wire.Span, only bool) []*row.Mass {
	return wire.Filter(c.Masses().All(), func(m *row.Mass) bool {
		return !m.SentAt.IsZero() && !m.SentAt.After(in.To) && (!only || in.Has(m.SentAt))
	})
}

func storiesIn(c *wire.Call, in wire.Span) []*row.Story {
	return wire.Filter(c.Stories().All(), func(s *row.Story) bool { return in.Has(s.At) })
}

func streamsIn(c *wire.Call, in wire.Span) []*row.Stream {
	return wire.Filter(c.Streams().All(), func(s *row.Stream) bool { return !s.Started.IsZero() && in.Has(s.Started) })
}

// topPosts ranks the posts published before the end of the span, by their earnings or tips in the span or by their
// views or likes so far.
func topPosts(c *wire.Call, in wire.Span) (any, error) {
	paid := func(id int64) view.Earned {
		return view.Paid(c.Creator, id, func(t *row.Tx) bool { return in.Has(t.At) })
	}
	rank := func(p *row.Post) int64 { return paid(p.ID).Net }
	switch c.Query("by") {
	case "views":
		rank = func(p *row.Post) int64 { return int64(p.Views) }
	case "likes":
		rank = func(p *row.Post) int64 { return int64(view.Likes(p)) }
	case "tips":
		rank = func(p *row.Post) int64 { return paid(p.ID).Tips }
	}
	return top(c, postsUntil(c, in, false), rank, func(p *row.Post) any { return view.PostStats(c.Creator, p, in.Has) }), nil
}

// topMessages is topPosts for mass messages.
func topMessages(c *wire.Call, in wire.Span) (any, error) {
	stats := func(m *row.Mass) view.MassStatsView { return view.MassStats(c.Creator, m, in.Has) }
	rank := func(m *row.Mass) int64 { return int64(stats(m).Net) }
	switch c.Query("by") {
	case "purchases":
		rank = func(m *row.Mass) int64 { return int64(stats(m).Purchased) }
	case "views":
		rank = func(m *row.Mass) int64 { return int64(m.Viewed) }
	}
	return top(c, massesUntil(c, in, false), rank, func(m *row.Mass) any { return stats(m) }), nil
}

// topStories ranks the stories that were posted in the span.
func topStories(c *wire.Call, in wire.Span) (any, error) {
	stats := func(s *row.Story) view.StoryStatsView { return view.StoryStats(c.Creator, s) }
	rank := func(s *row.Story) int64 { return int64(stats(s).Views) }
	switch c.Query("by") {
	case "tips":
		rank = func(s *row.Story) int64 { return int64(stats(s).Tips) }
	case "likes":
		rank = func(s *row.Story) int64 { return int64(stats(s).Likes) }
	}
	return top(c, storiesIn(c, in), rank, func(s *row.Story) any { return stats(s) }), nil
}

// topStreams ranks the streams that started in the span.
func topStreams(c *wire.Call, in wire.Span) (any, error) {
	stats := func(s *row.Stream) view.StreamStatsView { return view.StreamStats(c.Creator, s) }
	rank := func(s *row.Stream) int64 { return int64(stats(s).Net) }
	if c.Query("by") == "viewers" {
		rank = func(s *row.Stream) int64 { return int64(stats(s).Peak) }
	}
	return top(c, streamsIn(c, in), rank, func(s *row.Stream) any { return stats(s) }), nil
}

// topLinks ranks links or promotions by what their subscribers paid in the span.
func topLinks(c *wire.Call, in wire.Span) (any, error) {
	if c.Query("kind") == promotion {
		came := yields(c.Creator, promotion, in)
		return top(c, c.Promotions().All(), func(p *row.Promotion) int64 { return came[p.ID].Revenue }, func(p *row.Promotion) any {
			return linkStats(c, p.ID, promotion, cmp.Or(p.Message, fmt.Sprintf("A %s for %s fans", p.Type, p.Audience)), came[p.ID])
		}), nil
	}
	kind := tracking
	if c.Query("kind") == trials.name {
		kind = trials
	}
	came := yields(c.Creator, kind.name, in)
	return top(c, kind.table(c.Creator).All(), func(l *row.Link) int64 { return came[l.ID].Revenue }, func(l *row.Link) any {
		return linkStats(c, l.ID, kind.name, l.Name, withClicks(came[l.ID], clicked(l, in)))
	}), nil
}
