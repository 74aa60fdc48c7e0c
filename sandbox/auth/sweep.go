package auth

import (
	"encoding/json"
	"time"
)

const (
	sweepEvery = 10 * time.Minute
	// sweepAfter is how long ended challenges, QR sign-ins, codes and access tokens stay readable.
	sweepAfter = time.Hour
)

// sweep deletes challenges, QR sign-ins, codes and access tokens that ended long ago. It is called when a new one starts and does its work at
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
	for shelf, ended := range map[string]func(json.RawMessage) (time.Time, error){
		codeShelf: func(value json.RawMessage) (time.Time, error) {
			var c authCode
			err := json.Unmarshal(value, &c)
			return c.At.Add(codeLife), err
		},
		accessShelf: func(value json.RawMessage) (time.Time, error) {
			var t accessToken
			err := json.Unmarshal(value, &t)
			return t.ExpiresAt, err
		},
	} {
		err := a.World.Kept(shelf, func(name string, value json.RawMessage) error {
			at, err := ended(value)
			if err == nil && now.Sub(at) > sweepAfter {
				over[shelf] = append(over[shelf], name)
			}
			return err
		})
		if err != nil {
			return err
		}
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
