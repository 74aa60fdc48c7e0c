package attempt_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/test/testenv/simulation"
)

// The simulated world has a database whose transactions fail or do not say that they were committed, a queue of steps,
// workers that crash and pause, a creator who acts at any time, and a platform that answers late or not at all. The
// attempts are the real ones.

// simulated is a world.
type simulated struct {
	s *simulation.Scheduler
	// calm means that nothing fails any more.
	calm     bool
	downTo   time.Time
	workers  []*simWorker
	attempts []*simAttempt
	count    int
}

// simAttempt is the row of an attempt, and what the platform has got of it.
type simAttempt struct {
	w   *simulated
	row attempt.Attempt
	// passwords counts how often the platform got the password, lost how often it may get it again because a worker, a
	// transaction or a response was lost. codes has the number of every code that the platform got.
	passwords, lost int
	codes           map[int]bool
}

type simWorker struct {
	w       *simulated
	name    string
	process *simulation.Process
	// running are the attempts whose steps the worker runs.
	running map[*simAttempt]bool
}

func newSimulated(s *simulation.Scheduler) *simulated {
	w := &simulated{s: s}
	for i := range 1 + s.IntN(3) {
		w.workers = append(w.workers, &simWorker{w: w, name: "worker" + strconv.Itoa(i), process: s.NewProcess(), running: map[*simAttempt]bool{}})
	}
	w.handleDue()
	w.startAttempts()
	w.injectFaults()
	return w
}

func (w *simulated) fails(n int) bool {
	return !w.calm && (w.s.Chance(n) || w.s.Now().Before(w.downTo))
}

func (w *simulated) startAttempts() {
	if w.calm {
		return
	}
	w.s.After(w.s.Upto(time.Minute), w.startAttempts)
	kinds := []attempt.Kind{attempt.Credentials, attempt.Mobile, attempt.OAuth, attempt.Cookie}
	a := &simAttempt{w: w, codes: map[int]bool{}}
	a.row = attempt.New(attempt.Attempt{ID: "att_x", Kind: kinds[w.s.IntN(len(kinds))]}, w.s.Now())
	w.attempts = append(w.attempts, a)
	if w.count++; a.row.Step != attempt.StepNone {
		a.enqueue()
	}
	a.act()
}

// transact changes the row. ok is false if it failed; it may have been committed nevertheless.
func (a *simAttempt) transact(change func(r *attempt.Attempt) (commit bool)) (ok bool) {
	w := a.w
	if w.fails(60) {
		return false
	}
	r, version := a.row, a.row.Version
	if !change(&r) {
		return true
	}
	if r.Version < version || r.State != a.row.State && r.Version == version {
		w.s.Fail("the version went from %d to %d with a change from %s to %s", version, r.Version, a.row.State, r.State)
	}
	if !r.State.Final() && r.Wake().IsZero() {
		w.s.Fail("nothing wakes the attempt in %s with step %q", r.State, r.Step)
	}
	next := r.Step != attempt.StepNone && r.StepSeq != a.row.StepSeq && r.Lease == ""
	w.s.Trace("row", r.Version, r.StepSeq, int64(len(r.State)))
	a.row = r
	if next {
		a.enqueue() // the job is written in the same transaction
	}
	if w.fails(60) {
		a.lost++
		return false
	}
	return true
}

// enqueue gives the current step to a worker, once or, now and then, twice.
func (a *simAttempt) enqueue() {
	w, seq := a.w, a.row.StepSeq
	for range 1 + w.s.IntN(2) {
		worker := w.workers[w.s.IntN(len(w.workers))]
		if w.fails(50) {
			continue // it died with the job
		}
		worker.process.After(w.s.Upto(200*time.Millisecond), func() { worker.take(a, seq) })
	}
}

// handleDue does what is due.
func (w *simulated) handleDue() {
	w.s.After(200*time.Millisecond, w.handleDue)
	for _, a := range w.attempts {
		if wake := a.row.Wake(); wake.IsZero() || w.s.Now().Before(wake) {
			continue
		}
		a.transact(func(r *attempt.Attempt) bool {
			before := r.StepSeq
			run, err := r.Due(w.s.Now())
			if err != nil {
				w.s.Fail("due in %s with step %q: %v", r.State, r.Step, err)
			}
			if run && r.StepSeq == before {
				a.enqueue() // the same step, again
			}
			return true
		})
	}
}

// take leases a step and runs it.
func (k *simWorker) take(a *simAttempt, seq int64) {
	w, leased := k.w, false
	var mine attempt.Attempt
	ok := a.transact(func(r *attempt.Attempt) bool {
		leased = r.LeaseStep(k.name, seq, w.s.Now())
		mine = *r
		return leased
	})
	if !ok || !leased {
		return
	}
	k.running[a] = true
	k.renew(a, mine)
	k.process.After(w.s.Upto(100*time.Millisecond), func() { k.send(a, mine) })
}

func (a *simAttempt) isLeasedBy(mine attempt.Attempt) bool {
	return a.row.Lease == mine.Lease && a.row.StepSeq == mine.StepSeq
}

// renew renews the lease of a step as long as the step runs.
func (k *simWorker) renew(a *simAttempt, mine attempt.Attempt) {
	k.process.After(2*time.Second, func() {
		if !k.running[a] {
			return
		}
		if k.w.fails(40) {
			a.lost++ // several of these in a row lose the step
		} else if a.isLeasedBy(mine) {
			a.row.LeaseEnd = k.w.s.Now().Add(attempt.Lease)
		}
		k.renew(a, mine)
	})
}

// send makes the request of a step to the platform.
func (k *simWorker) send(a *simAttempt, mine attempt.Attempt) {
	w := k.w
	switch mine.Step {
	case attempt.StepCode, attempt.StepResend, attempt.StepSwitch, attempt.StepExchange:
		if w.fails(60) || !a.isLeasedBy(mine) {
			k.end(a, mine)
			return
		}
		a.row.Sent = true
		if w.fails(60) { // committed, but the worker does not know
			k.end(a, mine)
			return
		}
	case attempt.StepSignIn, attempt.StepOpenQR, attempt.StepCheck, attempt.StepVerify, attempt.StepNone:
	}
	takes := w.s.Upto(3 * time.Second)
	if !w.calm && w.s.Chance(20) {
		takes = w.s.Upto(80 * time.Second)
	}
	k.process.After(w.s.Upto(50*time.Millisecond), func() {
		accepts := !w.fails(10)
		if accepts {
			a.receive(mine)
		}
		k.process.After(takes, func() { k.answer(a, mine, accepts) })
	})
}

// receive is what the platform gets.
func (a *simAttempt) receive(mine attempt.Attempt) {
	switch mine.Step {
	case attempt.StepSignIn:
		if a.passwords++; a.passwords > 1+a.lost {
			a.w.s.Fail("the platform got the password %d times, although at most %d steps were lost", a.passwords, a.lost)
		}
	case attempt.StepCode, attempt.StepExchange:
		code := 100*mine.Challenges + mine.Submissions
		if a.codes[code] {
			a.w.s.Fail("the platform got code %d twice", code)
		}
		a.codes[code] = true
	case attempt.StepOpenQR, attempt.StepResend, attempt.StepSwitch, attempt.StepCheck, attempt.StepVerify, attempt.StepNone:
	}
}

// end releases the lease of a step that failed because of a fault in our own service.
func (k *simWorker) end(a *simAttempt, mine attempt.Attempt) {
	delete(k.running, a)
	a.lost++
	if !k.w.fails(10) && a.isLeasedBy(mine) {
		a.row.LeaseEnd = k.w.s.Now()
	}
}

// answer records the response of the platform.
func (k *simWorker) answer(a *simAttempt, mine attempt.Attempt, accepted bool) {
	w := k.w
	delete(k.running, a)
	ok := a.transact(func(r *attempt.Attempt) bool {
		if !a.isLeasedBy(mine) {
			return false
		}
		if err := w.apply(r, accepted); err != nil {
			w.s.Fail("a response to %q in %s: %v", mine.Step, mine.State, err)
		}
		return true
	})
	if !ok {
		a.lost++
	}
}

// apply applies a response that fits the step.
func (w *simulated) apply(r *attempt.Attempt, accepted bool) error {
	now := w.s.Now()
	if !accepted {
		return r.StepNotAccepted(attempt.Failure{Code: "upstream_unavailable"}, now)
	}
	asks := challenge([]string{"sms", "app", "email", "face"}[w.s.IntN(4)])
	asks.Sent = asks.Channel != "email" || w.s.Chance(2)
	switch r.Step {
	case attempt.StepSignIn, attempt.StepCode:
		switch w.s.IntN(5) {
		case 0:
			return r.Fail(attempt.Failure{Code: attempt.CodeCredentials}, now)
		case 1, 2:
			return r.SetChallenge(asks, now)
		case 3:
			if r.Step == attempt.StepCode {
				return r.RejectCode(now)
			}
		}
		return r.SignedIn(now)
	case attempt.StepOpenQR:
		return r.ShowQR(now.Add(time.Minute), now.Add(9*time.Minute), false, now)
	case attempt.StepResend:
		asks.Channel, asks.Sent = r.Channel, true
		return r.CodeResent(asks, now)
	case attempt.StepSwitch:
		asks.Channel = r.Target
		return r.ChannelSwitched(asks, now)
	case attempt.StepCheck:
		switch {
		case w.s.Chance(4):
			return r.SignedIn(now)
		case r.State == attempt.AwaitingMobile:
			return r.ShowQR(r.QRExpiresAt.Add(time.Duration(w.s.IntN(2))*time.Minute), now.Add(9*time.Minute), w.s.Chance(2), now)
		case r.State == attempt.NeedsFace:
			return r.SelfiePending(now)
		}
		return r.SetChallenge(r.Challenge, now)
	case attempt.StepExchange:
		return r.SignedIn(now)
	case attempt.StepVerify:
		return r.Succeed("acct_1", now)
	case attempt.StepNone:
	}
	return nil
}

// act is the creator, who does something now and then, allowed or not.
func (a *simAttempt) act() {
	w := a.w
	if a.row.State.Final() {
		return
	}
	w.s.After(w.s.Upto(40*time.Second), a.act)
	a.transact(func(r *attempt.Attempt) bool {
		now := w.s.Now()
		var err error
		switch w.s.IntN(9) {
		case 0, 1, 2:
			err = r.Submit(now)
		case 3:
			err = r.Resend(now)
		case 4:
			err = r.RequestChannel([]string{"sms", "app", "email", "face"}[w.s.IntN(4)], now)
		case 5:
			err = r.ConfirmSelfie(now)
		case 6, 7:
			err = r.Authorized(now)
		default:
			if w.s.Chance(10) {
				err = r.Cancel(now)
			}
		}
		return err == nil
	})
}

// injectFaults makes something fail, again and again.
func (w *simulated) injectFaults() {
	if w.calm {
		return
	}
	w.s.After(w.s.Upto(20*time.Second), w.injectFaults)
	k := w.workers[w.s.IntN(len(w.workers))]
	lose := func() {
		for a := range k.running { // any order
			a.lost++
		}
	}
	switch w.s.IntN(5) {
	case 0:
		lose()
		clear(k.running)
		k.process.Crash()
	case 1:
		lose()
		k.process.Pause(w.s.Upto(30 * time.Second))
	case 2:
		w.downTo = w.s.Now().Add(w.s.Upto(20 * time.Second))
	default:
	}
	// What has ended is forgotten.
	w.attempts = slices.DeleteFunc(w.attempts, func(a *simAttempt) bool { return a.row.State.Final() })
}

// end ends all faults. Then every attempt must end, too.
func (w *simulated) end() {
	w.calm = true
	w.s.Settle(attempt.WholeLife+time.Minute, "every attempt has ended", func() bool {
		return !slices.ContainsFunc(w.attempts, func(a *simAttempt) bool { return !a.row.State.Final() })
	})
	if w.count == 0 {
		w.s.Fail("no attempt was made")
	}
}

// Whatever fails, the platform gets no code twice, and a password again only if a worker was lost; and every attempt
// ends.
func TestSimulatedFaultsRepeatNoStep(t *testing.T) {
	t.Parallel()
	simulation.Run(t, 200_000, func(s *simulation.Scheduler) func() { return newSimulated(s).end })
}
