package link

import "time"

// Status is the state of a session.
type Status string

// The statuses. The last three are final.
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
	attemptStarted   trigger = "an attempt begins"
	attemptSucceeded trigger = "an attempt succeeds"
	creatorLeft      trigger = "the creator leaves"
	idleTooLong      trigger = "nothing happens for long"
	timedOut         trigger = "its time is over"
)

// transitions is the complete state machine; what is not listed is not allowed. A failed attempt leaves its session in
// progress, because the creator may try again. A session without an attempt cannot become idle, so a link that only a
// mail scanner has opened works until it expires.
var transitions = map[Status]map[trigger]Status{
	Open: {attemptStarted: InProgress, creatorLeft: Exited, timedOut: Expired},
	InProgress: {attemptStarted: InProgress, attemptSucceeded: Success, creatorLeft: Exited, idleTooLong: Exited,
		timedOut: Expired},
}

func (s Status) next(t trigger) (Status, bool) {
	to, ok := transitions[s][t]
	return to, ok
}

// Over reports whether a session has ended.
func (s Status) Over() bool { return transitions[s] == nil }

const (
	// idleTimeout is the time after an attempt without a new one after which the creator is assumed to have left.
	idleTimeout = 10 * time.Minute
	// attemptTimeout is longer than any attempt. Attempts report their end, so it only matters if one never does.
	attemptTimeout = 45 * time.Minute
	// retention is how long an ended session is kept.
	retention = 30 * 24 * time.Hour
	// sweepRows bounds the rows of one sweep.
	sweepRows = 200
)
