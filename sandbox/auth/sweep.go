package auth

import "time"

const (
	sweepEvery = 10 * time.Minute
	// sweepAfter is how long ended challenges and QR sign-ins stay readable.
	sweepAfter = time.Hour
)

// sweep deletes challenges and QR sign-ins that ended long ago. It is called when a new one starts and does its work at
// most every sweepEvery.
func (a *Auth) sweep() error {
	now := a.World.Now()
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	if now.Sub(a.swept) < sweepEvery && !now.Before(a.swept) {
		return nil
	}
	a.swept = now
	over := map[string][]string{}
	err := kept(a.World, challengeShelf, func(c *challenge) {
		if now.Sub(c.Ends) > sweepAfter {
			over[challengeShelf] = append(over[challengeShelf], c.Token)
		}
	})
	if err != nil {
		return err
	}
	err = kept(a.World, qrShelf, func(s *qr) {
		if now.Sub(s.At) > qrLife+sweepAfter {
			over[qrShelf] = append(over[qrShelf], s.ID)
		}
	})
	if err != nil {
		return err
	}
	for shelf, names := range over {
		for _, name := range names {
			if err := a.World.Discard(shelf, name); err != nil {
				return err
			}
		}
	}
	return nil
}
