package link

import "time"

// Status is where a session stands.
type Status string

// The statuses. The last three are the end.
const (
	Open       Status = "open"
	InProgress Status = "in_progress"
	Success    Status = "success"
	Exited     Status = "exited"
	Expired    Status = "expired"
)

// trigger is what happens to a session.
type trigger string

const (
	begun      trigger = "an attempt begins"
	succeeded  trigger = "an attempt succeeds"
	exited     trigger = "the creator leaves"
	walkedAway trigger = "nothing happens for long"
	ranOut     trigger = "its time is over"
)

// moves is the whole machine; what is not listed is refused. An attempt that fails leaves its session in progress: the creator may try
// again. A session that nobody has begun cannot be walked away from, so that a link opened by a mail scanner stays good until it expires.
var moves = map[Status]map[trigger]Status{
	Open:       {begun: InProgress, exited: Exited, ranOut: Expired},
	InProgress: {begun: InProgress, succeeded: Success, exited: Exited, walkedAway: Exited, ranOut: Expired},
}

func (s Status) next(t trigger) (Status, bool) {
	to, ok := moves[s][t]
	return to, ok
}

// Over says whether a session has ended.
func (s Status) Over() bool { return moves[s] == nil }

const (
	// idle is how long nothing may happen between two attempts before the creator is thought to have left.
	idle = 10 * time.Minute
	// longest is more than any attempt takes, which tells of its end itself; it bounds what a bug could leave behind.
	longest = 45 * time.Minute
	// kept is how long an ended session can be read.
	kept = 30 * 24 * time.Hour
	// sweepAtMost bounds the rows of one sweep.
	sweepAtMost = 200
)
