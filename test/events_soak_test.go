package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// soakCases are the faults of the soak: those that leave the processes of the nodes alone, so that a leak shows.
var soakCases = []string{
	"calm", "sockets", "redis", "leader", "log", "postgres", "pause", "both", "silent", "loss", "slow", "quorum", "disk", "power", "fd", "overload",
}

// appetite is what a node uses.
type appetite struct {
	at         time.Duration
	residentKB int
	goroutines int
}

// For hours, one fault follows another, in random order, on the same processes. Every case is checked, and memory and
// goroutines of the nodes stay flat: the last third of the time needs hardly more than the second. make soak runs it.
func TestSoak(t *testing.T) {
	minutes := setting("STAGEDOOR_SOAK", 0)
	if minutes == 0 {
		t.Skip("make soak runs it")
	}
	sc := readScale()
	s := newEventsFixture(t, sc)
	defer linkNodes(s)() // once, because it restarts the nodes
	var (
		table   []string
		cases   []faultCase
		history = make([][]appetite, len(s.nodes))
		began   = time.Now()
		over    = began.Add(time.Duration(minutes) * time.Minute)
	)
	for _, c := range faultCases {
		if slices.Contains(soakCases, c.name) {
			c.calm = false // what the fault before it or a busy machine interrupted may be delivered again
			cases = append(cases, c)
		}
	}
	pids := s.pids()
	for round := 1; time.Now().Before(over); round++ {
		rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		for _, c := range cases {
			if time.Now().After(over) {
				break
			}
			t.Run(fmt.Sprintf("%d-%s", round, c.name), func(t *testing.T) { table = append(table, s.runCase(t, c)) })
			for i, n := range s.nodes {
				a := measureAppetite(t, n, time.Since(began))
				t.Logf("node %d after %s: %d kB resident, %d goroutines", i+1, a.at.Round(time.Second), a.residentKB, a.goroutines)
				history[i] = append(history[i], a)
			}
			saveReport(t, table)
		}
	}
	t.Log("\n" + tableOf(table))
	if !slices.Equal(pids, s.pids()) {
		t.Error("a node was restarted")
	}
	for i, list := range history {
		checkFlat(t, i, list)
	}
}

func (s *eventsFixture) pids() (list []int) {
	for _, n := range s.nodes {
		list = append(list, n.Process.PID())
	}
	return list
}

// measureAppetite reads what a node uses.
func measureAppetite(t *testing.T, n *testnode.Node, at time.Duration) appetite {
	t.Helper()
	a := appetite{at: at}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(n.Process.PID()), "status"))
	must.OK(t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			a.residentKB, err = strconv.Atoi(fields[1])
			must.OK(t, err)
		}
	}
	for line := range strings.Lines(string(n.Operate(t, http.MethodGet, "/metrics", nil).Body)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "go_goroutines "); found {
			a.goroutines, err = strconv.Atoi(text)
			must.OK(t, err)
		}
	}
	return a
}

// checkFlat compares the medians of the second and of the last third.
func checkFlat(t *testing.T, node int, list []appetite) {
	t.Helper()
	third := len(list) / 3
	if third == 0 {
		t.Fatal("the soak was too short to compare anything")
	}
	median := func(list []appetite, of func(appetite) int) int {
		values := make([]int, len(list))
		for i, a := range list {
			values[i] = of(a)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, m := range []struct {
		name string
		of   func(appetite) int
		most int // the growth that is noise, in percent
	}{
		{"resident memory in kB", func(a appetite) int { return a.residentKB }, 15},
		{"goroutines", func(a appetite) int { return a.goroutines }, 10},
	} {
		first, before, after := median(list[:third], m.of), median(list[third:2*third], m.of), median(list[2*third:], m.of)
		t.Logf("node %d, %s: %d, %d, %d in the thirds of %s", node+1, m.name, first, before, after, list[len(list)-1].at.Round(time.Minute))
		if after > before+before*m.most/100 {
			t.Errorf("node %d: %s grew from %d to %d", node+1, m.name, before, after)
		}
	}
}
