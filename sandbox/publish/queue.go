package publish

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func queueRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /queue", Handle: listQueue},
		{Pattern: "GET /queue/counts", Handle: countQueue},
		{Pattern: "POST /queue/{item_id}/publish", Handle: wire.On(findQueued, publishQueued)},
		{Pattern: "PATCH /queue/{item_id}", Handle: moveQueued},
		{Pattern: "DELETE /queue/{item_id}", Handle: wire.On(findQueued, deleteQueued)},
	}
}

func queueItem(kind string, id int64, at time.Time, state string) view.QueueView {
	return view.QueueView{ID: id, Ref: id, Kind: kind, At: view.Stamp(at), State: state}
}

func listQueue(c *wire.Call) (any, error) {
	in, kind := days(c), c.Query("entity")
	rows := wire.Filter(view.Queue(c.Creator), func(q *view.QueueView) bool { return in.Has(q.Time()) && (kind == "" || q.Kind == kind) })
	order := wire.Order[*view.QueueView]{Up: true, Rank: func(q *view.QueueView) int64 { return q.Time().UnixMilli() }}
	return wire.Page(c, rows, order, func(q *view.QueueView) any { return q })
}

// countQueue counts the scheduled items by day or month. It skips days and months without items.
func countQueue(c *wire.Call) (any, error) {
	in := days(c)
	s := view.Series{Unit: "items", Points: []view.Point{}}
	for _, q := range view.Queue(c.Creator) {
		if !in.Has(q.Time()) {
			continue
		}
		at := q.Time().Truncate(24 * time.Hour)
		if c.Query("by") == "month" {
			at = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		}
		if n := len(s.Points); n == 0 || !time.Time(s.Points[n-1].At).Equal(at) {
			s.Points = append(s.Points, view.Point{At: view.Stamp(at)})
		}
		s.Points[len(s.Points)-1].Value++
		s.Total++
	}
	return s, nil
}

// queued is a scheduled item with its actions.
type queued struct {
	view.QueueView
	// publish, move and drop act on the post, mass message or stream of the item.
	publish func()
	move    func(time.Time)
	drop    func()
}

// find returns the scheduled item with an id.
func find(c *world.Creator, id int64) (*queued, error) {
	all := view.Queue(c)
	at := slices.IndexFunc(all, func(q *view.QueueView) bool { return q.ID == id })
	if at < 0 {
		return nil, wire.NotFound("item")
	}
	q := &queued{QueueView: *all[at]}
	switch q.Kind {
	case "post":
		q.post(c, c.Posts().Get(id))
	case "mass_message":
		q.mass(c, c.Masses().Get(id))
	default:
		q.stream(c, c.Streams().Get(id))
	}
	return q, nil
}

func findQueued(c *wire.Call) (*queued, error) { return find(c.Creator, c.ID("item_id")) }

func (q *queued) post(c *world.Creator, p *row.Post) {
	q.publish = func() {
		p.Scheduled = c.Now()
		c.Posts().Put(p)
		c.At(c.Now().Add(moment), duePublish, p.ID)
	}
	q.move = func(to time.Time) {
		schedule(c, p, to)
		if p.Scheduled.IsZero() {
			q.publish()
		}
	}
	q.drop = func() { removePost(c, p) }
}

// mass sets the actions for a mass message, which package messages implements. The queue frame is sent here, because
// messages.Schedule does not send one when it sends immediately.
func (q *queued) mass(c *world.Creator, m *row.Mass) {
	q.publish = func() {
		messages.Schedule(c, m, c.Now())
		item := q.QueueView
		item.State = "published"
		c.Emit(frameQueueDone, map[string]any{"item": item})
	}
	q.move = func(to time.Time) { messages.Schedule(c, m, to) }
	q.drop = func() { messages.Cancel(c, m) }
}

func (q *queued) stream(c *world.Creator, s *row.Stream) {
	q.publish = func() { moveStream(c, s, c.Now()) }
	q.move = func(to time.Time) { moveStream(c, s, to) }
	q.drop = func() {
		s.State = "canceled"
		saveStream(c, s)
	}
}

func publishQueued(_ *wire.Call, q *queued) (any, error) {
	q.publish()
	q.State = "publishing"
	return q.QueueView, nil
}

func moveQueued(c *wire.Call) (any, error) {
	var in struct {
		At view.Stamp `json:"publish_at"`
	}
	q, err := findQueued(c)
	if err != nil {
		return nil, err
	}
	if err := c.Body(&in); err != nil {
		return nil, err
	}
	if time.Time(in.At).IsZero() {
		return nil, wire.Invalid("publish_at", "Give a time.")
	}
	q.move(time.Time(in.At))
	q.At = in.At
	return q.QueueView, nil
}

func deleteQueued(_ *wire.Call, q *queued) (any, error) {
	q.drop()
	return wire.OK, nil
}
