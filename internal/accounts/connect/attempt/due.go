package attempt

import "time"

// Wake returns when Due must be called next; zero if the attempt has ended.
func (a *Attempt) Wake() time.Time {
	if a.State.Final() {
		return time.Time{}
	}
	wake := a.Deadline
	if a.Step != StepNone {
		switch {
		case a.Lease != "":
			return earliest(a.LeaseEnd, wake)
		case !a.RetryAt.IsZero():
			return earliest(a.RetryAt, wake)
		}
		return earliest(a.StepAt.Add(RequeueAfter), wake)
	}
	return earliest(a.PollAt, wake)
}

// Due applies what is due at now: a lost worker, a deadline, a retry, a poll. run means that the current step must be
// put into the queue.
func (a *Attempt) Due(now time.Time) (run bool, err error) {
	switch {
	case a.State.Final():
		return false, nil
	case a.Step != StepNone && a.Lease != "" && !now.Before(a.LeaseEnd):
		// This comes before the deadline, so that a lost step is reported as such and not as expired.
		return a.recoverStep(now)
	case !now.Before(a.Deadline):
		return false, a.expire(now)
	case a.Step != StepNone && a.Lease == "" && !a.RetryAt.IsZero() && !now.Before(a.RetryAt):
		a.RetryAt, a.StepAt = time.Time{}, now
		return true, nil
	case a.Step != StepNone && a.Lease == "" && a.RetryAt.IsZero() && !now.Before(a.StepAt.Add(RequeueAfter)):
		a.StepAt = now
		return true, nil
	case a.Step == StepNone && !a.PollAt.IsZero() && !now.Before(a.PollAt):
		a.startStep(StepCheck, now)
		return true, nil
	}
	return false, nil
}

// maxLostWorkers bounds how many workers may die during one step. Beyond that, the step itself is the likely cause.
const maxLostWorkers = 12

// recoverStep handles a step whose worker has lost its lease: it repeats the step if that is safe.
func (a *Attempt) recoverStep(now time.Time) (run bool, err error) {
	switch {
	case a.Sent && (a.Step == StepCode || a.Step == StepExchange):
		// The platform may have received the code and must not get it twice.
		return false, a.Fail(Failure{Code: CodeInterrupted}, now)
	case a.Sent:
		// The platform may have sent a message. The challenge stays, and the creator can request another one.
		a.endStepUnchanged()
		return false, nil
	case a.State == Pending:
		if err := a.transition(StepRetried, Pending, now); err != nil {
			return false, err
		}
	}
	if a.Tries >= maxLostWorkers {
		return false, a.Fail(Failure{Code: CodeInternal}, now)
	}
	tries := a.Tries
	step, target := a.Step, a.Target
	a.startStep(step, now)
	a.Tries, a.Target = tries, target
	return true, nil
}

// LeaseStep leases the step with number seq to a worker and reports whether the worker got it.
func (a *Attempt) LeaseStep(worker string, seq int64, now time.Time) bool {
	if a.Step == StepNone || a.StepSeq != seq || a.Lease != "" || !a.RetryAt.IsZero() {
		return false
	}
	a.Lease, a.LeaseEnd = worker, now.Add(Lease)
	a.Tries++
	if a.State == Pending && a.Progress == Queued {
		a.Progress, a.UpdatedAt = SigningIn, now
		if a.Step == StepVerify {
			a.Progress = Verifying
		}
		a.Version++
	}
	return true
}

// StepNotAccepted handles a step that had no effect on the platform: it is retried later, or the attempt falls back to
// its challenge, or fails.
func (a *Attempt) StepNotAccepted(f Failure, now time.Time) error {
	polled := a.Step == StepCheck && a.State != Pending
	switch {
	case polled: // the next poll repeats it
		a.endStep()
		a.PollAt = now.Add(FaceEvery)
		return nil
	case f.Known().Code == f.Code && f.Retryable() && a.Tries < MaxTries:
		a.Lease, a.LeaseEnd, a.Sent = "", time.Time{}, false
		a.RetryAt = now.Add(max(f.RetryAfter, time.Second<<(a.Tries-1)))
		if a.RetryAt.After(a.Deadline) {
			return a.Fail(f, now)
		}
		return nil
	case a.Step == StepResend || a.Step == StepSwitch:
		a.endStepUnchanged()
		return nil
	case a.Channel != "" && a.State == Pending && (a.Step == StepCode || a.Step == StepCheck):
		// Back to the challenge, as it was before the step.
		return a.SetChallenge(a.Challenge, now)
	}
	return a.Fail(f, now)
}
