package publish

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// streamLife is how long a stream runs if it is not stopped.
const streamLife = time.Hour

func streamRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /streams", Handle: listStreams},
		{Pattern: "POST /streams", Handle: wire.Read(scheduleStream)},
		{Pattern: "GET /streams/{stream_id}", Handle: wire.Show(stream, view.Stream)},
		{Pattern: "PATCH /streams/{stream_id}", Handle: wire.ReadOn(stream, updateStream)},
		{Pattern: "DELETE /streams/{stream_id}", Handle: wire.On(stream, cancelStream)},
		{Pattern: "POST /streams/{stream_id}/stop", Handle: wire.On(stream, endStream)},
		{Pattern: "GET /streams/{stream_id}/comments", Handle: wire.On(stream, streamComments)},
		{Pattern: "GET /streams/{stream_id}/stats", Handle: wire.Show(stream, view.StreamStats)},
	}
}

// listStreams lists the streams in a state, or by default all except cancelled ones.
func listStreams(c *wire.Call) (any, error) {
	state := c.Query("status")
	rows := wire.Filter(c.Streams().All(), func(s *row.Stream) bool {
		if state == "" {
			return s.State != "canceled"
		}
		return view.StreamStates[s.State] == state
	})
	order := wire.Order[*row.Stream]{Rank: func(s *row.Stream) int64 { return s.Starts.UnixMilli() }}
	return wire.Page(c, rows, order, func(s *row.Stream) any { return view.Stream(c.Creator, s) })
}

func stream(c *wire.Call) (*row.Stream, error) {
	return wire.Found("stream", c.Streams().Get(c.ID("stream_id")))
}

type streamInput struct {
	Title       string       `json:"title"`
	Description string       `json:"description"`
	Starts      view.Stamp   `json:"starts_at"`
	Audience    string       `json:"audience"`
	Lists       []int64      `json:"list_ids"`
	Goal        view.Dollars `json:"tip_goal"`
}

func (in *streamInput) check(c *wire.Call) error {
	if in.Goal < 0 {
		return wire.Invalid("tip_goal", "The goal must not be negative.")
	}
	return exist("list_ids", in.Lists, func(id int64) bool { return c.Lists().Get(id) != nil })
}

func scheduleStream(c *wire.Call, in *streamInput) (any, error) {
	if err := in.check(c); err != nil {
		return nil, err
	}
	if time.Time(in.Starts).IsZero() {
		return nil, wire.Invalid("starts_at", "A stream needs a start time.")
	}
	s := planStream(c.Creator, &row.Stream{
		Title: in.Title, Description: in.Description, Audience: cmp.Or(in.Audience, "fans"), Lists: in.Lists, TipGoal: int64(in.Goal),
		Starts: time.Time(in.Starts),
	})
	return view.Stream(c.Creator, s), nil
}

// planStream creates a stream and sends its frame. If its start time has passed, the stream starts in a moment.
func planStream(c *world.Creator, s *row.Stream) *row.Stream {
	s.ID, s.State, s.At = c.Streams().NextID(), "scheduled", c.Now()
	moveStream(c, s, s.Starts)
	c.Emit(framePlanned, map[string]any{"stream": view.Stream(c, s)})
	return s
}

func moveStream(c *world.Creator, s *row.Stream, to time.Time) {
	s.Starts = to
	if soon := c.Now().Add(moment); s.Starts.Before(soon) {
		s.Starts = soon
	}
	c.Streams().Put(s)
	c.At(s.Starts, dueStart, s.ID)
}

// startStream starts a stream that is due, unless it was rescheduled or cancelled.
func startStream(c *world.Creator, id int64) {
	s := c.Streams().Get(id)
	if s == nil || s.State != "scheduled" || s.Starts.After(c.Now()) {
		return
	}
	item := queueItem("stream", s.ID, s.Starts, "published")
	s.State, s.Started = "live", s.Starts
	c.Streams().Put(s)
	c.At(s.Started.Add(streamLife), dueStop, s.ID)
	c.Emit(frameStarted, map[string]any{"stream": view.Stream(c, s)})
	c.Emit(frameQueueDone, map[string]any{"item": item})
}

// stopStream ends a stream that has reached its maximum length. It computes the end from the start, because the clock
// may have been set forward.
func stopStream(c *world.Creator, id int64) {
	if s := c.Streams().Get(id); s != nil && s.State == "live" {
		closeStream(c, s, s.Started.Add(streamLife))
	}
}

func closeStream(c *world.Creator, s *row.Stream, at time.Time) {
	s.State, s.Ended, s.Viewers = "ended", at, 0
	c.Streams().Put(s)
	c.Emit(frameStopped, map[string]any{"stream": view.Stream(c, s)})
}

// updateStream changes the given fields. It refuses to change the start time of a live stream.
func updateStream(c *wire.Call, s *row.Stream, in *streamInput) (any, error) {
	switch {
	case s.State == "ended" || s.State == "canceled":
		return nil, wire.Conflict("This stream has ended.")
	case s.State == "live" && c.Has("starts_at"):
		return nil, wire.Conflict("This stream has already started.")
	}
	if err := in.check(c); err != nil {
		return nil, err
	}
	if c.Has("title") {
		s.Title = in.Title
	}
	if c.Has("description") {
		s.Description = in.Description
	}
	if c.Has("starts_at") {
		moveStream(c.Creator, s, time.Time(in.Starts))
	}
	return saveStream(c.Creator, s), nil
}

func saveStream(c *world.Creator, s *row.Stream) view.StreamView {
	c.Streams().Put(s)
	v := view.Stream(c, s)
	c.Emit(frameStream, map[string]any{"stream": v})
	return v
}

func cancelStream(c *wire.Call, s *row.Stream) (any, error) {
	if s.State == "live" || s.State == "ended" {
		return nil, wire.Conflict("This stream has already started. Stop it instead.")
	}
	s.State = "canceled"
	saveStream(c.Creator, s)
	return wire.OK, nil
}

func endStream(c *wire.Call, s *row.Stream) (any, error) {
	if s.State == "scheduled" || s.State == "canceled" {
		return nil, wire.Conflict("This stream is not live.")
	}
	if s.State == "live" {
		closeStream(c.Creator, s, c.Now())
	}
	return wire.OK, nil
}

func streamComments(c *wire.Call, s *row.Stream) (any, error) {
	order := wire.Order[*row.Comment]{Rank: commentTime}
	return wire.Page(c, c.StreamComments(s.ID).All(), order, func(m *row.Comment) any { return view.Comment(c.Creator, m) })
}
