package flow

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Action is what a fill does next.
type Action int

// The actions.
const (
	// Done means that the fill has ended: frames of the socket are published directly.
	Done Action = iota
	// List means to ask the platform for the frames after Step.After, and to call Listed or CannotList.
	List
	// ReportGap means to publish that events since Step.From may be missing.
	ReportGap
	// Publish means to publish Step.Frames.
	Publish
)

// Step is one step of a fill.
type Step struct {
	Do    Action
	After string
	// From is zero if it is unknown since when events may be missing. Watermark, if not empty, becomes the new start.
	From      time.Time
	Watermark string
	Frames    []catalog.Event
	// Settled means that newer frames follow, so that these have settled.
	Settled bool
}

// Fill fetches and publishes the frames after a frame, then the frames that the socket received in the meantime. If too
// many of those had to wait, it fetches again. It is not safe for concurrent use.
type Fill struct {
	flow *Flow
	// after is the last frame that was listed; empty if the platform cannot list frames.
	after string
	// gapFrom is since when events may be missing; zero if that is unknown.
	gapFrom time.Time
	// isFirst means that the platform has not listed anything in this fill.
	isFirst, mustList bool
	// next are the steps before the next list.
	next []Step
}

// NewFill returns a fill of a flow, after BeginFill. after is empty if the platform cannot list frames.
func NewFill(f *Flow, after string, gapFrom time.Time) *Fill {
	l := &Fill{flow: f, after: after, gapFrom: gapFrom, isFirst: true, mustList: after != ""}
	if after == "" && !gapFrom.IsZero() {
		l.next = append(l.next, Step{Do: ReportGap, From: gapFrom})
	}
	return l
}

// Next returns the next step.
func (l *Fill) Next(now time.Time) Step {
	if len(l.next) > 0 {
		step := l.next[0]
		l.next = l.next[1:]
		return step
	}
	if l.mustList {
		return Step{Do: List, After: l.after}
	}
	list, spilled := l.flow.TakeWaiting()
	if spilled {
		l.flow.DiscardWaiting()
	}
	switch {
	case spilled && l.after == "": // the platform cannot list them again
		return Step{Do: ReportGap, From: now}
	case spilled:
		l.mustList = true
		return Step{Do: List, After: l.after}
	case len(list) == 0:
		return Step{Do: Done}
	}
	return Step{Do: Publish, Frames: list}
}

// CannotList records that the platform does not list frames.
func (l *Fill) CannotList() {
	if l.isFirst {
		l.next = append(l.next, Step{Do: ReportGap, From: l.gapFrom})
	}
	l.after, l.isFirst, l.mustList = "", false, false
}

// Listed records a page of frames. If the platform has dropped some before it, the page says so, and a gap is reported:
// also after the first page, because the fill may have waited for the log in between.
func (l *Fill) Listed(m *driver.Missed) {
	if m.Gap {
		gap := Step{Do: ReportGap, From: l.gapFrom}
		if len(m.Events) == 0 {
			gap.Watermark = m.Newest // otherwise every new socket would report the same gap
		}
		l.next = append(l.next, gap)
	}
	page := Step{Do: Publish, Settled: m.More}
	for i := range m.Events {
		if m.Events[i].Class == catalog.Ephemeral {
			continue // ephemeral events are only for the moment
		}
		l.flow.RecordFetched(m.Events[i].UpstreamID)
		page.Frames = append(page.Frames, m.Events[i])
	}
	if len(page.Frames) > 0 {
		l.next = append(l.next, page)
	}
	if m.Last != "" {
		l.after = m.Last
	}
	l.isFirst, l.mustList = false, m.More && m.Last != ""
}
