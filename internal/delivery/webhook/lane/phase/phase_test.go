package phase_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// allFacts returns every combination of facts.
func allFacts() []phase.Facts {
	var list []phase.Facts
	for i := range 8 {
		list = append(list, phase.Facts{HeadBlocked: i&1 != 0, TriesLeft: i&2 != 0, GaveUp: i&4 != 0})
	}
	return list
}

// Every trigger has a defined result in every phase, for all facts.
func TestEveryTriggerIsDefinedInEveryPhase(t *testing.T) {
	t.Parallel()
	for _, from := range phase.All() {
		for _, on := range phase.Triggers() {
			for _, f := range allFacts() {
				if step, ok := phase.Next(from, on, f); !ok || step.From != from || step.On != on || step.To == "" {
					t.Errorf("%s in %s with %+v: %+v, %t", on, from, f, step, ok)
				}
			}
		}
	}
}

// A result that arrives when the lane no longer sends changes nothing.
func TestLateResultsChangeNothing(t *testing.T) {
	t.Parallel()
	results := []phase.Trigger{
		phase.Delivered, phase.EventRefused, phase.EndpointFailed, phase.EndpointGone, phase.Aborted,
	}
	for _, from := range phase.All() {
		for _, on := range results {
			for _, f := range allFacts() {
				step, _ := phase.Next(from, on, f)
				if !from.Tries() && (step.To != from || step.Do != phase.None) {
					t.Errorf("%s in %s: %+v", on, from, step)
				}
			}
		}
	}
}

// Only its owner or an operator starts a lane that is paused or disabled.
func TestStoppedLanesStartOnRequestOnly(t *testing.T) {
	t.Parallel()
	may := map[phase.Trigger]bool{
		phase.OwnerPaused: true, phase.OwnerResumed: true, phase.HookReplaced: true, phase.HookRemoved: true,
	}
	for _, from := range []phase.Phase{phase.Paused, phase.Disabled} {
		for _, on := range phase.Triggers() {
			for _, f := range allFacts() {
				if step, _ := phase.Next(from, on, f); step.To != from && !may[on] {
					t.Errorf("%s in %s: %+v", on, from, step)
				}
			}
		}
	}
}

// Every phase can be reached from Live, and Live from every phase.
func TestEveryPhaseCanBeReachedAndLeft(t *testing.T) {
	t.Parallel()
	reach := func(start phase.Phase) map[phase.Phase]bool {
		seen, todo := map[phase.Phase]bool{start: true}, []phase.Phase{start}
		for len(todo) > 0 {
			from := todo[0]
			todo = todo[1:]
			for _, on := range phase.Triggers() {
				for _, f := range allFacts() {
					if step, _ := phase.Next(from, on, f); !seen[step.To] {
						seen[step.To] = true
						todo = append(todo, step.To)
					}
				}
			}
		}
		return seen
	}
	for _, p := range phase.All() {
		if !reach(phase.Live)[p] || !reach(p)[phase.Live] {
			t.Errorf("%s cannot be reached from live, or not be left", p)
		}
	}
}

// docs/webhooks.md contains exactly the diagram that the table renders.
func TestDocumentHasTheCurrentDiagram(t *testing.T) {
	t.Parallel()
	root, err := testenv.Root()
	must.OK(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "webhooks.md"))
	must.OK(t, err)
	want := "```mermaid\n" + phase.Diagram() + "```\n"
	if strings.Count(string(text), "```mermaid") != 1 || !strings.Contains(string(text), want) {
		t.Fatalf("docs/webhooks.md must contain exactly this diagram:\n%s", want)
	}
}
