package settings

import (
	"maps"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func noticeRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /notifications", Handle: notices},
		{Pattern: "GET /notifications/counts", Handle: noticeCounts},
		{Pattern: "POST /notifications/read", Handle: wire.Read(readNotices)},
		{Pattern: "POST /notifications/read_all", Handle: readAllNotices},
		{Pattern: "GET /notifications/preferences", Handle: preferences},
		{Pattern: "PATCH /notifications/preferences", Handle: wire.Read(setPreferences)},
	}
}

func notices(c *wire.Call) (any, error) {
	kind, unread := c.Query("category"), c.Query("unread") == "1"
	rows := wire.Filter(c.Notices().All(), func(n *row.Notice) bool {
		return (kind == "" || kind == "all" || kind == n.Type) && (!unread || !n.Read)
	})
	order := wire.Order[*row.Notice]{Rank: func(n *row.Notice) int64 { return n.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(n *row.Notice) any { return view.Notice(c.Creator, n) })
}

func noticeCounts(c *wire.Call) (any, error) { return view.Counts(c.Creator, nil), nil }

type readNoticesInput struct {
	IDs []int64 `json:"ids"`
}

func readNotices(c *wire.Call, in *readNoticesInput) (any, error) {
	return markRead(c, func(n *row.Notice) bool { return slices.Contains(in.IDs, n.ID) }), nil
}

func readAllNotices(c *wire.Call) (any, error) {
	return markRead(c, func(*row.Notice) bool { return true }), nil
}

// markRead marks the matching notices as read and returns how many were unread.
func markRead(c *wire.Call, fits func(*row.Notice) bool) any {
	count := 0
	for _, n := range c.Notices().All() {
		if !n.Read && fits(n) {
			n.Read = true
			c.Notices().Put(n)
			count++
		}
	}
	if count > 0 && c.Sockets() > 0 {
		c.Flash(frameCounts, view.Counts(c.Creator, nil))
	}
	return map[string]int{"read": count}
}

func preferences(c *wire.Call) (any, error) { return c.Settings().Preferences, nil }

type setPreferencesInput struct {
	Preferences map[string]bool `json:"preferences"`
}

// setPreferences changes the given preferences and refuses unknown ones.
func setPreferences(c *wire.Call, in *setPreferencesInput) (any, error) {
	s := c.Settings()
	for name := range in.Preferences {
		if _, ok := s.Preferences[name]; !ok {
			return nil, wire.Invalid("preferences", "There is no such preference.")
		}
	}
	maps.Copy(s.Preferences, in.Preferences)
	c.SaveSettings()
	return s.Preferences, nil
}
