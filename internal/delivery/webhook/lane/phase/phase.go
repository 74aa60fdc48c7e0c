// Package phase is the state machine of a webhook lane, as one table: what a lane does in each phase, and which phase
// follows when something happens to it. It has no state and does nothing itself; package lane carries out the effects.
package phase

import (
	"fmt"
	"slices"
	"strings"
)

// Phase is what a lane does.
type Phase string

// The phases. The database has fewer states: Waiting, Probing, ProbingNext and HostDown are all stored as backoff, and
// a Live lane has no row.
const (
	// Live lanes keep up: they deliver events as they are committed.
	Live Phase = "live"
	// Lagging lanes deliver, but do not keep up.
	Lagging Phase = "lagging"
	// Draining lanes deliver a backlog that built up while they could not deliver.
	Draining Phase = "draining"
	// Waiting lanes wait for the time of their next attempt.
	Waiting Phase = "waiting"
	// Probing lanes send one event to find out whether the endpoint works.
	Probing Phase = "probing"
	// ProbingNext lanes send the event after a first event that has failed for long, to find out which of the two is
	// at fault: the event or the endpoint. If it is accepted, the first event is set aside.
	ProbingNext Phase = "probing_next"
	// HostDown lanes wait until another lane has found their host working.
	HostDown Phase = "host_down"
	// Paused lanes wait until their owner or an operator resumes them.
	Paused Phase = "paused"
	// Disabled lanes failed for too long, or their receiver responded with 410 Gone.
	Disabled Phase = "disabled"

	// same is the target of an edge that does not change the phase.
	same Phase = ""
)

// All lists the phases.
func All() []Phase {
	return []Phase{Live, Lagging, Draining, Waiting, Probing, ProbingNext, HostDown, Paused, Disabled}
}

// Sends reports whether the lane delivers events as fast as its limits allow.
func (p Phase) Sends() bool { return slices.Contains(sending, p) }

// Probes reports whether the lane sends one event to find out whether the endpoint works.
func (p Phase) Probes() bool { return p == Probing || p == ProbingNext }

// Tries reports whether the lane sends at all.
func (p Phase) Tries() bool { return slices.Contains(trying, p) }

// Trigger is something that happens to a lane. Its text labels the edges in the diagram of docs/webhooks.md.
type Trigger string

// The triggers.
const (
	// Delivered is a 2xx response.
	Delivered Trigger = "delivered"
	// EventRefused is a response that rejects this event only.
	EventRefused Trigger = "event refused"
	// EndpointFailed is any other failure, with or without a response.
	EndpointFailed Trigger = "endpoint failed"
	// EndpointGone is a 410.
	EndpointGone Trigger = "410"
	// Aborted is an attempt that says nothing about the endpoint: it was cancelled, or there was nothing to send.
	Aborted Trigger = "aborted"
	// RetryDue means that the lane's timer has expired.
	RetryDue Trigger = "timer"
	// HostWentDown means that the lane wants to send and its host is down.
	HostWentDown Trigger = "host down"
	// HostReleased means that the lane may try its host.
	HostReleased Trigger = "host released"
	// FellBehind means that an event has waited for longer than a live lane may let it.
	FellBehind Trigger = "fell behind"
	// CaughtUp means that no event waits for long.
	CaughtUp Trigger = "caught up"
	// OwnerPaused and OwnerResumed come from the owner or an operator.
	OwnerPaused  Trigger = "pause"
	OwnerResumed Trigger = "resume"
	// HookReplaced means that the owner has set the webhook again, HookRemoved that there is none.
	HookReplaced Trigger = "webhook set"
	HookRemoved  Trigger = "webhook deleted"
	// OrgSuspended means that an operator has suspended the organisation.
	OrgSuspended Trigger = "suspended"
)

// Triggers lists the triggers.
func Triggers() []Trigger {
	return []Trigger{
		Delivered, EventRefused, EndpointFailed, EndpointGone, Aborted, RetryDue, HostWentDown, HostReleased, FellBehind,
		CaughtUp, OwnerPaused, OwnerResumed, HookReplaced, HookRemoved, OrgSuspended,
	}
}

// guard is an additional condition of an edge. Its text appears in the diagram.
type guard string

const (
	always      guard = ""
	headBlocked guard = "first event blocks"
	triesLeft   guard = "tries left"
	noTriesLeft guard = "no tries left"
	gaveUp      guard = "72 h"
)

// Facts are the inputs of the guards.
type Facts struct {
	// HeadBlocked means that the first event has failed for so long that the one after it is to be tried.
	HeadBlocked bool
	// TriesLeft means that the first event may be refused again before it is set aside.
	TriesLeft bool
	// GaveUp means that the endpoint has failed for so long that it is to be disabled.
	GaveUp bool
}

func (f Facts) satisfy(g guard) bool {
	switch g {
	case headBlocked:
		return f.HeadBlocked
	case triesLeft:
		return f.TriesLeft
	case noTriesLeft:
		return !f.TriesLeft
	case gaveUp:
		return f.GaveUp
	case always:
	}
	return true
}

// Effect is what the machine does when a lane takes an edge, apart from changing its phase.
type Effect uint8

// The effects.
const (
	None Effect = iota
	// Recover forgets the failures and notifies the owner if they lasted for long.
	Recover
	// SetEventAside makes a side delivery of the event that was refused.
	SetEventAside
	// KeepHeadResult remembers the result of the first event while the one after it is tried.
	KeepHeadResult
	// ScheduleRetry counts a failure and sets the timer. After ProbingNext it uses the result of the first event.
	ScheduleRetry
	// ScheduleEventRetry sets the timer for another try of a refused event.
	ScheduleEventRetry
	// Disable notifies the owner.
	Disable
	// WaitForHost adds the lane to those that wait for its host.
	WaitForHost
	// DropMemory drops the events in memory.
	DropMemory
	// ClearFailures forgets the failures of the endpoint, ClearTries also those of the first event.
	ClearFailures
	ClearTries
	// StartAfresh forgets everything except how far the lane has delivered.
	StartAfresh
)

// edge is one line of the table: a trigger moves a lane from any of the phases in from to one phase.
type edge struct {
	from []Phase
	on   Trigger
	when guard
	to   Phase
	do   Effect
}

func phases(list ...Phase) []Phase { return list }

var (
	sending = phases(Live, Lagging, Draining)
	trying  = phases(Live, Lagging, Draining, Probing, ProbingNext)
	// direct are the phases in which the lane sends its first event first.
	direct = phases(Live, Lagging, Draining, Probing)
	// stopped are the phases in which the lane sends nothing, so that a result is a late one.
	stopped = phases(Waiting, HostDown, Paused, Disabled)
)

// edges is the complete state machine; the first edge that matches counts.
var edges = []edge{
	{sending, Delivered, always, same, Recover},
	{phases(Probing, ProbingNext), Delivered, always, Draining, Recover},
	{direct, EventRefused, triesLeft, Waiting, ScheduleEventRetry},
	{sending, EventRefused, noTriesLeft, same, SetEventAside},
	{phases(Probing), EventRefused, noTriesLeft, Draining, SetEventAside},
	{phases(ProbingNext), EventRefused, gaveUp, Disabled, Disable},
	{phases(ProbingNext), EventRefused, always, Waiting, ScheduleRetry},
	{direct, EndpointFailed, headBlocked, ProbingNext, KeepHeadResult},
	{phases(Probing, ProbingNext), EndpointFailed, gaveUp, Disabled, Disable},
	{trying, EndpointFailed, always, Waiting, ScheduleRetry},
	{trying, EndpointGone, always, Disabled, Disable},
	{phases(ProbingNext), Aborted, always, Probing, None},
	{phases(Waiting), RetryDue, always, Probing, None},
	{phases(HostDown), RetryDue, gaveUp, Disabled, Disable},
	{direct, HostWentDown, always, HostDown, WaitForHost},
	{phases(HostDown), HostReleased, always, Probing, None},
	{phases(Live), FellBehind, always, Lagging, None},
	{phases(Lagging, Draining, Probing, ProbingNext), CaughtUp, always, Live, ClearFailures},
	{All(), OwnerPaused, always, Paused, DropMemory},
	{All(), OwnerResumed, always, Draining, None},
	{phases(Waiting, Probing, ProbingNext, HostDown, Paused, Disabled), HookReplaced, always, Draining, StartAfresh},
	{All(), HookRemoved, always, Live, None},
	{sending, OrgSuspended, always, same, ClearTries},
	{phases(Waiting, Probing, ProbingNext, HostDown), OrgSuspended, always, Draining, ClearTries},
}

// stays lists the phases in which a trigger changes nothing unless an edge matches: late results, and repeats.
var stays = map[Trigger][]Phase{
	Delivered:      stopped,
	EventRefused:   stopped,
	EndpointFailed: stopped,
	EndpointGone:   stopped,
	Aborted:        {Live, Lagging, Draining, Waiting, Probing, HostDown, Paused, Disabled},
	RetryDue:       {Live, Lagging, Draining, Probing, ProbingNext, HostDown, Paused, Disabled},
	// The event after the first is tried although the host is down: the first was allowed to, and the two belong together.
	HostWentDown: {Waiting, ProbingNext, HostDown, Paused, Disabled},
	HostReleased: {Live, Lagging, Draining, Waiting, Probing, ProbingNext, Paused, Disabled},
	FellBehind:   {Lagging, Draining, Waiting, Probing, ProbingNext, HostDown, Paused, Disabled},
	CaughtUp:     {Live, Waiting, HostDown, Paused, Disabled},
	HookReplaced: sending,
	OrgSuspended: {Paused, Disabled},
}

// Step is the result of a trigger.
type Step struct {
	From, To Phase
	On       Trigger
	Do       Effect
}

// Next returns what a trigger does to a lane in a phase. ok is false if neither edges nor stays lists the pair; the
// lane then stays as it is.
func Next(from Phase, on Trigger, f Facts) (step Step, ok bool) {
	for _, e := range edges {
		if e.on != on || !slices.Contains(e.from, from) || !f.satisfy(e.when) {
			continue
		}
		if e.to == same {
			return Step{from, from, on, e.do}, true
		}
		return Step{from, e.to, on, e.do}, true
	}
	return Step{From: from, To: from, On: on}, slices.Contains(stays[on], from)
}

// Diagram renders the machine as the Mermaid diagram of docs/webhooks.md. Edges that apply to every phase start at
// "any". It does not show edges that keep the phase.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range edges {
		from := e.from
		if len(from) == len(All()) {
			from = phases("any")
		}
		for _, p := range from {
			if e.to != same {
				fmt.Fprintf(&b, "  %s --> %s: %s\n", p, e.to, e.label())
			}
		}
	}
	return b.String()
}

func (e edge) label() string {
	if e.when == always {
		return string(e.on)
	}
	return string(e.on) + " (" + string(e.when) + ")"
}
