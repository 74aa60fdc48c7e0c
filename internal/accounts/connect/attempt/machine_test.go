package attempt_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var start = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// newLeased returns a new attempt whose first step is leased to a worker.
func newLeased(kind attempt.Kind) attempt.Attempt {
	a := attempt.New(attempt.Attempt{ID: "att_x", Kind: kind}, start)
	a.LeaseStep("w", a.StepSeq, start)
	return a
}

var channelOf = map[attempt.State]string{attempt.NeedsOTP: "sms", attempt.NeedsApp: "app", attempt.NeedsEmail: "email",
	attempt.NeedsFace: "face"}

func challenge(channel string) attempt.Challenge {
	return attempt.Challenge{Channel: channel, Available: []string{"sms", "app", "email", "face"}, Mask: "••42", Sent: true}
}

// inState returns an attempt that took the edges to a state.
func inState(t *testing.T, s attempt.State) attempt.Attempt {
	t.Helper()
	a := newLeased(attempt.Credentials)
	var err error
	switch s {
	case attempt.Pending:
	case attempt.AwaitingMobile:
		a = newLeased(attempt.Mobile)
		err = a.ShowQR(start.Add(time.Minute), start.Add(10*time.Minute), false, start)
	case attempt.NeedsOTP, attempt.NeedsApp, attempt.NeedsEmail, attempt.NeedsFace:
		err = a.SetChallenge(challenge(channelOf[s]), start)
	case attempt.WrongCode:
		err = errors.Join(a.SetChallenge(challenge("sms"), start), a.Submit(start), a.RejectCode(start))
	case attempt.Success:
		err = errors.Join(a.SignedIn(start), a.Succeed("acct_1", start))
	case attempt.Failed:
		err = a.Cancel(start)
	}
	if err != nil || a.State != s {
		t.Fatalf("cannot reach %s: %s, %v", s, a.State, err)
	}
	return a
}

// withStep returns an attempt in a state with a step in progress.
func withStep(t *testing.T, s attempt.State, step attempt.Step) attempt.Attempt {
	t.Helper()
	a := inState(t, s)
	var err error
	now := start.Add(time.Minute)
	if step == attempt.StepResend {
		err = a.Resend(now)
	} else {
		others := slices.DeleteFunc([]string{"sms", "app", "email", "face"}, func(one string) bool { return one == a.Channel })
		err = a.RequestChannel(others[0], now)
	}
	must.OK(t, err)
	return a
}

// takeEdge takes an edge by calling the method that it belongs to.
func takeEdge(t *testing.T, e attempt.Edge) (attempt.Attempt, error) {
	t.Helper()
	now := start.Add(time.Minute)
	if e.From == "" {
		kind := map[attempt.Trigger]attempt.Kind{attempt.Start: attempt.Credentials, attempt.StartMobile: attempt.Mobile}[e.Trigger]
		return attempt.New(attempt.Attempt{Kind: kind}, start), nil
	}
	a := inState(t, e.From)
	var err error
	switch e.Trigger { //nolint:exhaustive // the starts are above
	case attempt.QROpened, attempt.QRRotated:
		err = a.ShowQR(now.Add(time.Minute), now.Add(9*time.Minute), false, now)
	case attempt.Challenged:
		err = a.SetChallenge(challenge(channelOf[e.To]), now)
	case attempt.Rejected:
		a = inState(t, attempt.NeedsOTP)
		err = errors.Join(a.Submit(now), a.RejectCode(now))
	case attempt.Verified:
		err = errors.Join(a.SignedIn(now), a.Succeed("acct_1", now))
	case attempt.FatalResponse:
		err = a.Fail(attempt.Failure{Code: "account_locked"}, now)
	case attempt.Denied:
		err = a.Fail(attempt.Failure{Code: "mobile_denied"}, now)
	case attempt.Resent:
		a = withStep(t, e.From, attempt.StepResend)
		err = a.CodeResent(challenge(channelOf[e.To]), now)
	case attempt.Switched:
		a = withStep(t, e.From, attempt.StepSwitch)
		err = a.ChannelSwitched(challenge(channelOf[e.To]), now)
	case attempt.SelfiePassed, attempt.Approved:
		err = a.SignedIn(now)
	case attempt.Submitted:
		err = a.Submit(now)
	case attempt.SelfieDone:
		err = a.ConfirmSelfie(now)
	case attempt.Cancel:
		err = a.Cancel(now)
	case attempt.Deadline:
		a.Lease = ""
		_, err = a.Due(start.Add(time.Hour))
	case attempt.Stop:
		err = a.Stop(attempt.CodeSuperseded, now)
	case attempt.StepRetried:
		_, err = a.Due(start.Add(attempt.Lease))
	default:
		t.Fatalf("no method takes %v", e)
	}
	return a, err
}

// Every edge of the table can be taken and leads to its state.
func TestEveryEdgeCanBeTaken(t *testing.T) {
	t.Parallel()
	seen := map[attempt.Edge]bool{}
	for _, e := range attempt.Edges() {
		if seen[e] {
			t.Errorf("%v is listed twice", e)
		}
		seen[e] = true
		t.Run(fmt.Sprintf("%s by %s to %s", e.From, e.Trigger, e.To), func(t *testing.T) {
			t.Parallel()
			a, err := takeEdge(t, e)
			if err != nil || a.State != e.To {
				t.Errorf("state %q: %v", a.State, err)
			}
			if a.State.Final() != a.Wake().IsZero() {
				t.Errorf("wakes at %s in %s", a.Wake(), a.State)
			}
		})
	}
}

// Every state can be reached. Every state that is not final can lead to success and has a deadline. Final states have
// no edges.
func TestTheTableIsSound(t *testing.T) {
	t.Parallel()
	next := map[attempt.State][]attempt.State{}
	for _, e := range attempt.Edges() {
		next[e.From] = append(next[e.From], e.To)
	}
	reach := func(from attempt.State) map[attempt.State]bool {
		seen := map[attempt.State]bool{}
		for todo := []attempt.State{from}; len(todo) > 0; todo = todo[1:] {
			for _, to := range next[todo[0]] {
				if !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		return seen
	}
	for _, s := range attempt.States() {
		switch {
		case !reach("")[s]:
			t.Errorf("%s cannot be reached", s)
		case s.Final() && len(next[s]) > 0:
			t.Errorf("%s is final but has edges", s)
		case !s.Final() && !reach(s)[attempt.Success]:
			t.Errorf("%s cannot lead to success", s)
		case !s.Final() && !slices.Contains(attempt.Edges(), attempt.Edge{From: s, Trigger: attempt.Deadline, To: attempt.Failed}):
			t.Errorf("%s has no deadline", s)
		}
	}
}

// docs/connect.md contains exactly the diagram that the table renders.
func TestTheDiagramIsCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/connect.md")
	must.OK(t, err)
	if !strings.Contains(string(text), "```mermaid\n"+attempt.Diagram()+"```") {
		t.Errorf("docs/connect.md does not contain the current diagram:\n```mermaid\n%s```", attempt.Diagram())
	}
}

// In every random history only edges of the table are taken, final states stay final, at most five codes
// are sent for one challenge, versions increase with every visible change, and every attempt wakes up until it has
// ended.
func TestRandomSequencesKeepTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, checkRules())
}

// FuzzSequencesKeepTheRules is TestRandomSequencesKeepTheRules with the fuzzer's input.
func FuzzSequencesKeepTheRules(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRules())) }

func checkRules() func(*rapid.T) {
	table := map[[2]attempt.State]bool{}
	for _, e := range attempt.Edges() {
		table[[2]attempt.State{e.From, e.To}] = true
	}
	return func(t *rapid.T) {
		kind := rapid.SampledFrom([]attempt.Kind{attempt.Credentials, attempt.Mobile, attempt.Cookie, attempt.Reauth}).Draw(t, "kind")
		now := start
		a := attempt.New(attempt.Attempt{Kind: kind}, now)
		channel := rapid.SampledFrom([]string{"sms", "app", "email", "face", "carrier pigeon"})
		codes := 0
		question := 0
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			before := a
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			what := rapid.IntRange(0, 15).Draw(t, "what")
			ch := attempt.Challenge{Channel: channel.Draw(t, "channel"), Available: []string{"sms", "email"}, Sent: rapid.Bool().Draw(t, "sent")}
			err := apply(&a, what, ch, now)
			if before.State != a.State && !table[[2]attempt.State{before.State, a.State}] &&
				!reachableInTwo(table, before.State, a.State) {
				t.Fatalf("from %s to %s by %d", before.State, a.State, what)
			}
			if before.State.Final() && (a.State != before.State || a.Version != before.Version) {
				t.Fatalf("something happened after the end: %s to %s by %d (%v)", before.State, a.State, what, err)
			}
			if a.Challenges != question {
				question, codes = a.Challenges, 0
			}
			if what == 5 && err == nil {
				if codes++; codes > attempt.MaxSubmissions {
					t.Fatalf("%d codes for one challenge", codes)
				}
			}
			if a.State != before.State && a.Version == before.Version || a.Version < before.Version {
				t.Fatalf("version %d after %d, %s to %s", a.Version, before.Version, before.State, a.State)
			}
			if a.State.Final() != (a.Wake().IsZero()) {
				t.Fatalf("%s wakes at %s", a.State, a.Wake())
			}
			if !a.State.Final() && a.Wake().After(start.Add(attempt.WholeLife)) {
				t.Fatalf("%s wakes at %s, after its whole life", a.State, a.Wake())
			}
		}
		for n := 0; !a.State.Final(); n++ {
			if now = now.Add(time.Second); a.Wake().After(now) {
				now = a.Wake()
			}
			if _, err := a.Due(now); err != nil || n > 2000 {
				t.Fatalf("the attempt does not end: %s, %v", a.State, err)
			}
			a.LeaseStep("w", a.StepSeq, now) // a worker that never answers
		}
	}
}

// reachableInTwo reports whether two edges lead from one state to another: one call may take two edges.
func reachableInTwo(table map[[2]attempt.State]bool, from, to attempt.State) bool {
	for _, middle := range attempt.States() {
		if table[[2]attempt.State{from, middle}] && table[[2]attempt.State{middle, to}] {
			return true
		}
	}
	return false
}

// apply calls the method with the number what.
func apply(a *attempt.Attempt, what int, ch attempt.Challenge, now time.Time) error {
	switch what {
	case 0:
		a.LeaseStep("w", a.StepSeq, now)
		return nil
	case 1:
		return a.SetChallenge(ch, now)
	case 2:
		return a.RejectCode(now)
	case 3:
		return a.SignedIn(now)
	case 4:
		return a.Fail(attempt.Failure{Code: "account_locked"}, now)
	case 5:
		return a.Submit(now)
	case 6:
		return a.Resend(now)
	case 7:
		return a.RequestChannel(ch.Channel, now)
	case 8:
		return a.ConfirmSelfie(now)
	case 9:
		return a.ShowQR(now.Add(time.Minute), now.Add(10*time.Minute), ch.Sent, now)
	case 10, 11:
		_, err := a.Due(now)
		return err
	case 12:
		if a.Step == attempt.StepNone || a.Lease == "" {
			return nil
		}
		return a.StepNotAccepted(attempt.Failure{Code: "upstream_unavailable"}, now)
	case 13:
		if a.Step != attempt.StepResend {
			return nil
		}
		return a.CodeResent(ch, now)
	case 14:
		if a.Step != attempt.StepSwitch {
			return nil
		}
		return a.ChannelSwitched(ch, now)
	}
	if a.Step != attempt.StepVerify {
		return nil
	}
	return a.Succeed("acct_1", now)
}

// A step that no worker leases is put into the queue again and stays the same step.
func TestStepThatNoWorkerLeasesIsQueuedAgain(t *testing.T) {
	t.Parallel()
	a := attempt.New(attempt.Attempt{Kind: attempt.Credentials}, start)
	seq := a.StepSeq
	if run, err := a.Due(start.Add(attempt.RequeueAfter - time.Second)); run || err != nil {
		t.Errorf("too early: %v %v", run, err)
	}
	if run, err := a.Due(start.Add(attempt.RequeueAfter)); !run || err != nil || a.StepSeq != seq {
		t.Errorf("%v %v, step %d after %d", run, err, a.StepSeq, seq)
	}
	if !a.LeaseStep("w", seq, start.Add(attempt.RequeueAfter)) || a.LeaseStep("v", seq, start.Add(attempt.RequeueAfter)) {
		t.Error("a step must be leased exactly once")
	}
}
