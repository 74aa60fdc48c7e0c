package auth

import (
	"crypto/subtle"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/world"
)

// seedShown is how many characters of a QR sign-in's seed follow the turn in its URL.
const seedShown = 10

// Asked describes a QR sign-in to the phone that opened its URL.
type Asked struct {
	QR
	Agent  string
	Device string
	Egress string
	// Stale means that the URL is too old. The sign-in itself may still be pending.
	Stale bool

	ending string
}

// Asked resolves the token of a QR URL. The URLs of the current and the previous turn are valid, and so is the one that
// was scanned. After the sign-in was answered, every URL shows the result.
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

// Waits reports whether the sign-in can still be answered.
func (q QR) Waits() bool { return q.Status == "pending" || q.Status == "scanned" }

// Proposed returns the login that an approval uses if it names none.
func (q QR) Proposed() string { return "mobile+" + strings.ToLower(q.ID) + "@" + world.Domain }

// Scan is like Asked, and marks the sign-in as scanned. The scanned URL stays valid until the sign-in ends.
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

// FindSelfie returns the selfie check with the given token. Its state is open, passed, rejected, or ended if it
// expired.
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
