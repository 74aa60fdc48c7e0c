package test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// firstPrevious is the revision that stands for the previous release while there is none. Its schema is older.
const firstPrevious = "66686594ba5d31296679ce35e6a3ab96cfe00b84"

// previousRelease returns the last release before this commit.
func previousRelease(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
	cmd.Dir = testenv.Path(t)
	tag, err := cmd.Output() // it fails without a tag
	if err != nil {
		tag = nil
	}
	return cmp.Or(os.Getenv("STAGEDOOR_PREVIOUS"), strings.TrimSpace(string(tag)), firstPrevious)
}

// The nodes of the previous release are replaced by those of this one, and these by the previous ones again, one at a
// time, on one database, as docs/operations/upgrade.md describes. Under load no call fails, and every event reaches its
// account's log, receiver and streams once and in order.
func TestRollingUpgradeAndBackFailsNoCallAndLosesNoEvent(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	if !proof.Running() {
		t.Skip("make proof runs it: it compiles the previous release")
	}
	u := newUpgrade(t)
	var balancing sync.WaitGroup
	balanced, stopBalancing := context.WithCancel(t.Context())
	u.calls.pick = newBalancer(balanced, &balancing, u.nodes).pick
	u.startCase()
	ctx, stop := context.WithCancel(t.Context())
	load, calls := u.generate(ctx, 0), u.startCalls(ctx)

	u.awaitLoad("the previous release")
	u.runCommand(u.current, "migrate")
	u.awaitLoad("the previous release on the new schema")
	u.replaceAll(dress{program: u.current}, "upgraded")
	u.replaceAll(u.old, "taken back")
	u.replaceAll(dress{program: u.current}, "upgraded again")

	stop()
	load.Wait()
	calls.Wait()
	stopBalancing() // after the last call: without it no node counts as ready
	balancing.Wait()
	v, caughtUp := u.awaitFindings(time.Now())
	if faults := v.faults(false); len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, ", "), strings.Join(v.examples, "\n"))
		u.logWaiting(v)
	}
	made, failed := u.checkCalls()
	if failed > 0 {
		t.Errorf("%d of %d calls failed: %v", failed, made, u.calls.problems)
	}
	t.Logf("%d replacements of nodes: %d calls, %d failed; %d frames, %d lost; %d events delivered, %d more than once; %d streamed on %d connections; caught up after %s",
		3*len(u.nodes), made, failed, v.frames, v.lost, v.delivered, v.redelivered, v.streamed, v.connections, caughtUp.Round(time.Millisecond))
}

// upgrade is a system whose nodes begin as the previous release.
type upgrade struct {
	*eventsFixture
	// current is the program of this commit, old that of the previous release.
	current string
	old     dress
}

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{current: testnode.BuildServer(t)}
	release := previousRelease(t)
	previous := testnode.BuildRevision(t, release)
	sc := readScale()
	sc.calls, sc.perSecond = true, setting("STAGEDOOR_CHAOS_RATE", 100)
	u.eventsFixture = prepareEventsFixture(t, sc, func(s *eventsFixture, setup *testnode.Setup) {
		u.eventsFixture = s
		s.ownerURL = createDatabase(t, s.ownerURL, "upgraded")
		// Both releases connect as the owner: a change to two roles comes after an upgrade (docs/operations/upgrade.md).
		s.databaseURL = s.ownerURL
		setup.Database, setup.AsOwner, setup.DrainDelay = s.ownerURL, true, 3*time.Second
		u.old = dress{program: previous, knows: settingsOf(t, previous)}
		u.runCommand(previous, "migrate")
		setup.Change = func(cmd *exec.Cmd) { u.old.put(cmd) }
	})
	for i, n := range u.nodes {
		u.dresses[i] = u.old
		n.Change = func(cmd *exec.Cmd) { u.dresses[i].put(cmd) }
	}
	t.Logf("the previous release is %s", release)
	return u
}

// createDatabase creates an empty database on the server of another, and returns its address.
func createDatabase(t *testing.T, owner secret.String, name string) secret.String {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), owner.Reveal())
	must.OK(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name)
	must.OK(t, err)
	must.OK(t, conn.Close(t.Context()))
	return secret.New(strings.Replace(owner.Reveal(), "/postgres?", "/"+name+"?", 1))
}

// settingsOf returns the list of the settings that a program knows.
func settingsOf(t *testing.T, program string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), program, "config")
	list.Env = []string{"PATH=" + os.Getenv("PATH")}
	text, _ := list.CombinedOutput() // it also complains that some are missing
	return string(text)
}

// runCommand runs a command of a program on the database, as its owner.
func (u *upgrade) runCommand(program string, args ...string) {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + u.ownerURL.Reveal()}
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// replaceAll replaces one node after the other, with load after each.
func (u *upgrade) replaceAll(by dress, what string) {
	u.t.Helper()
	for i, n := range u.nodes {
		u.change(i, func(d *dress) { *d = by })
		n.AwaitReady(u.t)
		u.awaitLoad(what)
	}
}

// awaitLoad waits until a number of further calls and frames have been made.
func (u *upgrade) awaitLoad(what string) {
	u.t.Helper()
	calls, frames := u.calls.sent.Load()+100, u.written.Load()+500
	testenv.Await(u.t, "calls and frames: "+what, func() bool {
		return u.calls.sent.Load() >= calls && u.written.Load() >= frames
	})
}
