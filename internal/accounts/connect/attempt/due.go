package attempt

import "time"

// Wake is when somebody must look at the attempt although nobody asks; zero if never.
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
		return earliest(a.StepAt.Add(TakenWithin), wake)
	}
	return earliest(a.PollAt, wake)
}

// Due does what the time has come for, and says whether a step is to be taken now.
func (a *Attempt) Due(now time.Time) (run bool, err error) {
	switch {
	case a.State.Final():
		return false, nil
	case a.Step != StepNone && a.Lease != "" && !now.Before(a.LeaseEnd):
		// Before the deadline: a step that was lost is told as what it was.
		return a.lost(now)
	case !now.Before(a.Deadline):
		return false, a.expire(now)
	case a.Step != StepNone && a.Lease == "" && !a.RetryAt.IsZero() && !now.Before(a.RetryAt):
		a.RetryAt, a.StepAt = time.Time{}, now
		return true, nil
	case a.Step != StepNone && a.Lease == "" && a.RetryAt.IsZero() && !now.Before(a.StepAt.Add(TakenWithin)):
		a.StepAt = now
		return true, nil
	case a.Step == StepNone && !a.PollAt.IsZero() && !now.Before(a.PollAt):
		a.begin(StepCheck, now)
		return true, nil
	}
	return false, nil
}

// maxLost is how many workers may vanish over one step: after that it is the step that makes them vanish.
const maxLost = 12

// lost deals with a step whose worker gave no more sign of life.
func (a *Attempt) lost(now time.Time) (run bool, err error) {
	switch {
	case a.Sent && a.Step == StepCode:
		// The platform may have taken the code: it must not get it twice.
		return false, a.Fail(Failure{Code: CodeInterrupted}, now)
	case a.Sent:
		// A message may be on its way to the creator. The challenge stands; they can ask again.
		a.again()
		return false, nil
	case a.State == Pending:
		if err := a.move(Retake, Pending, now); err != nil {
			return false, err
		}
	}
	if a.Tries >= maxLost {
		return false, a.Fail(Failure{Code: CodeInternal}, now)
	}
	tries := a.Tries
	step, target := a.Step, a.Target
	a.begin(step, now)
	a.Tries, a.Target = tries, target
	return true, nil
}

// Take gives the step to a worker and says whether it got it.
func (a *Attempt) Take(worker string, seq int64, now time.Time) bool {
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

// NotTaken deals with a step that the platform did nothing with: it is taken again in a while, or given up.
func (a *Attempt) NotTaken(f Failure, now time.Time) error {
	polled := a.Step == StepCheck && a.State != Pending
	switch {
	case polled: // it comes round by itself
		a.rest()
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
		a.again()
		return nil
	case a.Channel != "" && a.State == Pending && (a.Step == StepCode || a.Step == StepCheck):
		// The challenge stands as it stood.
		return a.Ask(a.Challenge, now)
	}
	return a.Fail(f, now)
}
