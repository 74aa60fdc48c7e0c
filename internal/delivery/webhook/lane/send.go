package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Job is a delivery to be carried out.
type Job struct {
	Lane  *Lane
	Hook  *Hook
	Event event.Stored
	// Attempt counts from 1. Prev is the wanted event before this one, 0 if it is not known.
	Attempt int
	Prev    int64
	// Grant is to be called with the job, for one who waited by Enter; the other fields are empty then.
	Grant func(*Job)

	// By is what Take was given for the bucket.
	By any

	host   *host
	class  class
	run    int
	beside bool
}

// Next is a delivery that may begin; nil if none may. It must be answered by Done.
func (m *Machine) Next(now time.Time) *Job {
	for !m.halted {
		w, h, c, ok := m.gate.pick()
		if !ok {
			return nil
		}
		h.used = now
		if w.lane == nil {
			return &Job{Grant: w.grant, host: h, class: c}
		}
		if job := m.begin(w.lane, h, now); job != nil {
			job.class = c
			return job
		}
		m.gate.release(h, c, 0)
	}
	return nil
}

// begin starts a lane's next delivery if it still wants to.
func (m *Machine) begin(l *Lane, h *host, now time.Time) *Job {
	l.queued = false
	able := l.row.State.sends() || l.row.State == Backoff && l.probing
	if m.lanes[l.source] != l || !l.bucket.runs() || !able || m.Held(l.org) || !l.known || l.hook == nil || l.strays > 0 || l.flying >= l.atOnce() {
		return nil
	}
	if m.host(l) != h || h.open && h.probe != l && !l.volunteer {
		m.act(l, now)
		return nil
	}
	one := l.next()
	if l.beside {
		one = l.second()
	}
	if one == nil {
		l.beside = false
		m.act(l, now)
		return nil
	}
	one.flying = true
	l.flying++
	l.bucket.flying++
	job := &Job{Lane: l, Hook: l.hook, Event: one.event, Attempt: 1, Prev: one.prev, By: l.bucket.by, host: h, run: l.run, beside: l.beside}
	if one == &l.items[0] {
		job.Attempt += l.row.HeadTries
	}
	m.act(l, now)
	return job
}

// Enter lets somebody wait for a slot to a host who has no lane. grant is called by whoever carries out the job from Next; Done must follow.
func (m *Machine) Enter(org id.Org, hostName string, grant func(*Job)) {
	m.gate.enqueue(m.hostOf(org, hostName), waiter{grant: grant}, troubled)
}

// Open says whether a host is known to be down.
func (m *Machine) Open(org id.Org, hostName string) bool {
	h := m.hosts[hostKey{org, hostName}]
	return h != nil && h.open
}

// Done tells how a delivery went.
func (m *Machine) Done(job *Job, r Result, now time.Time) Verdict {
	if m.isSuspended(job.host.key.org) && Judge(r) != Delivered {
		r = Result{Took: r.Took, Aborted: true} // nobody's endpoint fails while its org is suspended
	}
	h, verdict := job.host, Judge(r)
	h.learn(r, now, m.HostMost)
	m.gate.release(h, job.class, r.Took)
	l := job.Lane
	if l == nil {
		return verdict
	}
	l.bucket.flying--
	l.volunteer = false
	switch verdict {
	case Down:
		m.hostFailed(h, job, r, now)
	case Delivered, Refused, Gone:
		m.hostWorks(h, now)
	case Aborted:
	}
	if h.probe == l {
		h.probe, h.elected = nil, false
	}
	if job.run != l.run || m.lanes[l.source] != l {
		l.strays--
		m.act(l, now)
		return verdict
	}
	l.flying--
	one := l.find(job.Event.Seq)
	if one == nil {
		m.act(l, now)
		return verdict
	}
	one.flying = false
	m.judge(l, one, job, r, verdict, now)
	m.look(l)
	m.act(l, now)
	if m.Held(l.org) || l.row.State != Live && !l.row.State.sends() && !l.probing {
		l.forget()
	}
	return verdict
}

func (m *Machine) judge(l *Lane, one *item, job *Job, r Result, verdict Verdict, now time.Time) {
	if verdict == Aborted || verdict != Delivered && job.Hook.Gen != l.row.Gen || verdict != Delivered && !l.row.State.sends() && !l.probing {
		l.beside = false
		return // it says nothing of the endpoint as it is now
	}
	l.row.LastStatus, l.row.LastError = r.Status, r.Failure
	l.dirty = l.dirty || l.hasRow
	switch verdict {
	case Delivered:
		m.delivered(l, one, job, now)
	case Gone:
		m.disable(l, ReasonGone, now)
	case Refused:
		if job.beside {
			m.beaten(l, r, now)
			return
		}
		m.tried(l, one, r, now)
		if l.row.HeadTries > len(m.EventDelays) {
			m.aside(l, one, now)
			l.settle()
			m.resume(l)
			return
		}
		m.wait(l, now.Add(m.EventDelays[max(l.row.HeadTries, 1)-1]))
	case Down:
		if job.beside {
			m.beaten(l, r, now)
			return
		}
		m.tried(l, one, r, now)
		if one == &l.items[0] && l.flying == 0 && l.second() != nil && m.blocked(l, now) {
			l.beside, l.headResult, l.probing = true, r, true
			return
		}
		m.backoff(l, r, now)
	case Aborted:
	}
}

// beaten means that the event behind a failing head failed as well: it is the endpoint, not the head.
func (m *Machine) beaten(l *Lane, _ Result, now time.Time) {
	l.beside = false
	m.backoff(l, l.headResult, now)
}

// tried counts a failed try of the first event.
func (m *Machine) tried(l *Lane, one *item, r Result, now time.Time) {
	if one != &l.items[0] {
		return
	}
	l.row.HeadTries++
	switch {
	case r.Status == 0:
		l.row.HeadSince = time.Time{}
	case l.row.HeadSince.IsZero():
		l.row.HeadSince = now
	}
}

// blocked says whether the first event has stood in the way for so long that the next may show whether it is to blame.
func (m *Machine) blocked(l *Lane, now time.Time) bool {
	return l.row.HeadTries >= m.BlockTries && !l.row.HeadSince.IsZero() && now.Sub(l.row.HeadSince) >= m.BlockFor
}

func (m *Machine) delivered(l *Lane, one *item, job *Job, now time.Time) {
	one.done = true
	if job.beside {
		l.beside = false
		m.aside(l, &l.items[0], now)
	}
	l.settle()
	if !l.row.State.sends() && !l.probing {
		return // it was under way when another failed, or the owner paused
	}
	if since := l.row.FailSince; !since.IsZero() && now.Sub(since) >= m.TellAfter || l.row.Reason != "" {
		m.told = append(m.told, Told{Org: l.org, Source: l.source, Recovered: true, Reason: l.row.Reason, Since: since, At: now, Hook: l.hook})
	}
	m.resume(l)
}

// resume lets a lane go on that waited.
func (m *Machine) resume(l *Lane) {
	l.probing = false
	if !l.row.FailSince.IsZero() || l.row.FailCount > 0 {
		l.row.FailSince, l.row.FailCount, l.dirty = time.Time{}, 0, true
	}
	l.row.Reason = ""
	if l.row.State == Backoff {
		l.row.State, l.row.NextAt, l.dirty = Draining, time.Time{}, true
	}
}

// aside takes an event out of the lane, to be tried beside it.
func (m *Machine) aside(l *Lane, one *item, now time.Time) {
	one.done = true
	tries := l.row.HeadTries
	m.errands = append(m.errands, Errand{
		Org: l.org, Source: l.source, Seq: one.event.Seq, Attempt: tries, Since: now, NextAt: now.Add(m.Delay(max(tries, 1), m.chance())),
	})
}

// backoff lets a lane wait because its endpoint fails.
func (m *Machine) backoff(l *Lane, r Result, now time.Time) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	if now.Sub(l.row.FailSince) >= m.GiveUp {
		m.disable(l, ReasonFailing, now)
		return
	}
	l.row.FailCount++
	at := now.Add(m.Delay(l.row.FailCount, m.chance()))
	if r.RetryAfter > 0 {
		at = now.Add(min(r.RetryAfter, m.MaxRetryAfter))
	}
	if end := l.row.FailSince.Add(m.GiveUp); at.After(end) {
		at = end
	}
	m.wait(l, at)
}

func (m *Machine) wait(l *Lane, until time.Time) {
	l.clean = false
	l.row.State, l.row.NextAt, l.probing = Backoff, until, false
	l.wantsRow, l.dirty = true, true
	m.timers.set(&l.timer, until)
}

// Why a webhook is disabled.
const (
	ReasonGone    = "gone"
	ReasonFailing = "failing"
	// ReasonOperator is why a lane is paused that an operator has paused.
	ReasonOperator = "operator"
)

func (m *Machine) disable(l *Lane, reason string, now time.Time) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.row.State, l.row.Reason, l.row.NextAt, l.probing, l.beside = Disabled, reason, time.Time{}, false, false
	l.wantsRow, l.dirty = true, true
	m.timers.stop(&l.timer)
	m.told = append(m.told, Told{Org: l.org, Source: l.source, Reason: reason, Since: l.row.FailSince, At: now, Hook: l.hook})
}
