package auth

import (
	"crypto/subtle"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/world"
)

// seedShown is how much of a QR sign-in's seed is in its address, after the turn.
const seedShown = 10

// Asked is a QR sign-in as the phone that opened its address sees it.
type Asked struct {
	QR
	Agent  string
	Device string
	Egress string
	// Stale says that the address was shown too long ago; the sign-in itself may still wait.
	Stale bool

	ending string
}

// Asked resolves the token of a QR address. The address of this turn and of the one before are good, and so is the one that was
// scanned. Every address is good to see how a sign-in was answered.
func (a *Auth) Asked(token string) (Asked, error) {
	id, ending, _ := strings.Cut(token, ".")
	s, err := a.findQR(id)
	if err != nil {
		return Asked{}, err
	}
	cut := len(ending) - seedShown
	if cut < 1 || subtle.ConstantTimeCompare([]byte(ending[cut:]), []byte(s.Seed[:seedShown])) != 1 {
		return Asked{}, errNoQR
	}
	turn, err := strconv.Atoi(ending[:cut])
	if err != nil {
		return Asked{}, errNoQR
	}
	now := s.turn(a.World.Now())
	asked := Asked{QR: a.seen(s), Agent: s.Agent, Device: s.Device, Egress: s.Egress, ending: ending}
	asked.Stale = asked.Waits() && ending != s.Scanned && (turn < now-1 || turn > now)
	return asked, nil
}

// Waits says whether it can still be answered.
func (q QR) Waits() bool { return q.Status == "pending" || q.Status == "scanned" }

// Proposed is the login it is approved as when none is named.
func (q QR) Proposed() string { return "mobile+" + strings.ToLower(q.ID) + "@" + world.Domain }

// Scan is Asked for a phone that opens the address now: from then on this address stays good.
func (a *Auth) Scan(token string) (Asked, error) {
	a.steps.Lock()
	defer a.steps.Unlock()
	asked, err := a.Asked(token)
	if err != nil || asked.Stale || !asked.Waits() {
		return asked, err
	}
	s, err := a.findQR(asked.ID)
	if err != nil || s.Scanned == asked.ending {
		return asked, err
	}
	s.Status, s.Scanned = "scanned", asked.ending
	asked.Status = s.Status
	return asked, a.World.Keep(qrShelf, s.ID, s)
}

// FindSelfie is the selfie check of an address. Its state is open, passed or rejected; ended when its time is over.
func (a *Auth) FindSelfie(token string) (Challenge, error) {
	var c challenge
	ok, err := a.World.Recall(challengeShelf, token, &c)
	if err != nil {
		return Challenge{}, err
	}
	if !ok || c.Selfie == "" {
		return Challenge{}, errNoneSuch
	}
	if c.Selfie == "open" && (c.Dead != 0 || a.World.Now().After(c.Ends)) {
		c.Selfie = "ended"
	}
	return Challenge{Token: c.Token, Login: c.Login, Method: c.method(), Selfie: c.Selfie, Ends: c.Ends.Format(time.RFC3339)}, nil
}
