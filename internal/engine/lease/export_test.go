package lease

import (
	"context"
	"time"
)

// PreferredNode is preferredNode, for tests.
var PreferredNode = preferredNode

// GenerationShift is generationShift, for tests.
const GenerationShift = generationShift

// Assignment and Snapshot are the parts of a run without I/O.
type (
	Assignment = assignment
	Snapshot   = snapshot
	HeldSlot   = heldSlot
)

// NewAssignment returns an assignment without slots.
func NewAssignment(c Config, kind string, slots int, node string) *Assignment {
	return &assignment{config: c.withDefaults(), kind: kind, slots: slots, node: node, held: map[int]*heldSlot{}}
}

// NewSnapshot returns what the database returned at a renewal.
func NewSnapshot(nodes []string, mine map[int]int64, firstEpoch int64) Snapshot {
	return snapshot{nodes, mine, firstEpoch}
}

func (a *assignment) LenienceAt(now time.Time) time.Duration { return a.lenienceAt(now) }
func (a *assignment) Renewed(began time.Time, s *Snapshot) time.Time {
	a.renewed(began, s)
	return a.lapsesAt
}

func (a *assignment) Lapse(now time.Time) bool           { return a.lapse(now) }
func (a *assignment) StopLost(s Snapshot, now time.Time) { a.stopLost(s, now) }
func (a *assignment) AbandonStuck(now time.Time) []Held  { return a.abandonStuck(now) }
func (a *assignment) Wanted(s Snapshot) []int32          { return a.wanted(s) }
func (a *assignment) Returned(h *HeldSlot)               { a.returned(h) }
func (a *assignment) Leave()                             { a.isLeaving = true }
func (a *assignment) IsLeaving() bool                    { return a.isLeaving }
func (a *assignment) HeldCount() int                     { return len(a.held) }

func (a *assignment) Start(h Held, cancel context.CancelCauseFunc) *HeldSlot {
	return a.start(h, cancel)
}

// Unreleased returns the slots to release, and SetReleased records that they are.
func (a *assignment) Unreleased() []Held { return a.unreleased }
func (a *assignment) SetReleased()       { a.unreleased = nil }
