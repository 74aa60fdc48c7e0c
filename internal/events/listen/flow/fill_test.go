package flow_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// page returns a page with the frames from first to last.
func page(first, last int, more, gap bool) *driver.Missed {
	m := &driver.Missed{More: more, Gap: gap, Newest: strconv.Itoa(last)}
	for n := first; n <= last; n++ {
		m.Events = append(m.Events, *frame(n))
		m.Last = strconv.Itoa(n)
	}
	return m
}

// nextStep fails unless the next step of a fill is do, with these frames.
func nextStep(t *testing.T, l *flow.Fill, do flow.Action, frames ...string) flow.Step {
	t.Helper()
	step := l.Next(noon)
	var got []string
	for i := range step.Frames {
		got = append(got, step.Frames[i].UpstreamID)
	}
	if step.Do != do || !slices.Equal(got, frames) {
		t.Fatalf("step %d with %v, want %d with %v", step.Do, got, do, frames)
	}
	return step
}

func newFill(after string, gapFrom time.Time) (*flow.Flow, *flow.Fill) {
	f := newFlow(3, 10, time.Second, 100)
	f.BeginFill(after)
	return f, flow.NewFill(f, after, gapFrom)
}

func TestFillPublishesListedFramesAndThenThoseThatWaited(t *testing.T) {
	t.Parallel()
	f, l := newFill("1", noon)
	for n := 3; n <= 5; n++ {
		f.Buffer(frame(n))
	}
	if step := nextStep(t, l, flow.List); step.After != "1" {
		t.Fatalf("listed after %s", step.After)
	}
	first := page(2, 3, true, false)
	first.Events = append(first.Events, catalog.Event{Kind: "typing", Class: catalog.Ephemeral, UpstreamID: "x"})
	l.Listed(first)
	if step := nextStep(t, l, flow.Publish, "2", "3"); !step.Settled {
		t.Fatal("newer frames follow, so these have settled")
	}
	if step := nextStep(t, l, flow.List); step.After != "3" {
		t.Fatalf("listed after %s", step.After)
	}
	l.Listed(page(4, 4, false, false))
	if step := nextStep(t, l, flow.Publish, "4"); step.Settled {
		t.Fatal("the newest frames have not settled")
	}
	nextStep(t, l, flow.Publish, "5")
	nextStep(t, l, flow.Done)
}

func TestFillListsAgainIfTooManyFramesWaited(t *testing.T) {
	t.Parallel()
	f, l := newFill("0", noon)
	nextStep(t, l, flow.List)
	l.Listed(page(1, 1, false, false))
	nextStep(t, l, flow.Publish, "1")
	for n := 2; n <= 6; n++ {
		f.Buffer(frame(n))
	}
	if step := nextStep(t, l, flow.List); step.After != "1" {
		t.Fatalf("listed after %s", step.After)
	}
	l.Listed(page(2, 6, false, false))
	nextStep(t, l, flow.Publish, "2", "3", "4", "5", "6")
	nextStep(t, l, flow.Done)
}

// A platform may drop frames while a fill waits for the log between two pages.
func TestFillReportsAGapBeforeEveryPage(t *testing.T) {
	t.Parallel()
	_, l := newFill("0", noon)
	nextStep(t, l, flow.List)
	l.Listed(page(1, 2, true, false))
	nextStep(t, l, flow.Publish, "1", "2")
	nextStep(t, l, flow.List)
	l.Listed(page(50, 51, false, true))
	if step := nextStep(t, l, flow.ReportGap); !step.From.Equal(noon) || step.Watermark != "" {
		t.Fatalf("gap since %s with the watermark %q", step.From, step.Watermark)
	}
	nextStep(t, l, flow.Publish, "50", "51")
	nextStep(t, l, flow.Done)
}

func TestFillReportsAGapIfThePlatformListsNothing(t *testing.T) {
	t.Parallel()
	_, l := newFill("0", noon)
	nextStep(t, l, flow.List)
	l.Listed(&driver.Missed{Gap: true, Newest: "9"})
	if step := nextStep(t, l, flow.ReportGap); step.Watermark != "9" {
		t.Fatalf("the watermark is %q", step.Watermark)
	}
	nextStep(t, l, flow.Done)
}

func TestFillReportsAGapIfThePlatformCannotList(t *testing.T) {
	t.Parallel()
	f, l := newFill("0", noon)
	nextStep(t, l, flow.List)
	l.CannotList()
	nextStep(t, l, flow.ReportGap)
	for n := 1; n <= 5; n++ {
		f.Buffer(frame(n))
	}
	if step := nextStep(t, l, flow.ReportGap); !step.From.Equal(noon) {
		t.Fatalf("gap since %s", step.From)
	}
	nextStep(t, l, flow.Done)
}
