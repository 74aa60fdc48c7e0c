// Package fanaction has what the world outside does to a creator: a fan writes, tips, subscribes; a payout arrives; a post expires.
//
// Each part of the platform lists its happenings by the name of the frame they cause. They are what the sandbox's page, its
// control API and its event generator order; each one really happens, so that later reads show it.
package fanaction

import (
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Input says who and what; all of it may be left out.
type Input struct {
	User   int64        `json:"user_id"`
	Text   string       `json:"text"`
	Amount view.Dollars `json:"amount"`
	Ref    int64        `json:"ref_id"` // the message, post, story, stream, link, upload … it is about
	Count  int          `json:"count"`
	Reason string       `json:"reason"`
}

// Func makes it happen, inside World.Do. An error is a wire.Refusal or speaks to who ordered it.
type Func func(c *world.Creator, in Input) error

// Person is the one named, or a fan whose subscription runs. Asked again and again, it goes through the fans who have a chat.
func (in Input) Person(c *world.Creator) (*row.Person, error) {
	people := c.People()
	if in.User != 0 {
		if p := people.Get(in.User); p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("user %d does not exist", in.User)
	}
	return next(c, seed.Chats, func(p *row.Person) bool { return p.Sub.Active(c.Now()) && !p.Blocked })
}

// Some is the next one of the seed's people who fits.
func (in Input) Some(c *world.Creator, fits func(*row.Person) bool) (*row.Person, error) {
	return next(c, seed.Fans+seed.Followed+seed.Strangers, fits)
}

// next goes round among the first people of the seed.
func next(c *world.Creator, among int, fits func(*row.Person) bool) (*row.Person, error) {
	for range among {
		p := c.People().Get(row.SeedID(c.Profile.ID, row.KindPerson, 1+c.Turn(among)))
		if p != nil && fits(p) {
			return p, nil
		}
	}
	return nil, errors.New("nobody fits")
}

// Cents is the amount in cents, or what is usual.
func (in Input) Cents(usual int64) int64 {
	if in.Amount == 0 {
		return usual
	}
	return int64(in.Amount)
}

// Words is the text, or what is usual.
func (in Input) Words(usual string) string {
	if in.Text == "" {
		return usual
	}
	return in.Text
}
