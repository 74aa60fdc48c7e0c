// Package fanaction defines happenings: changes that come from outside, such as a fan who writes, tips or subscribes, a
// payout that arrives, or a post that expires.
//
// Each part of the platform lists its happenings by the name of the frame they send. The sandbox's page, its control
// API and its event generator trigger them. Each one changes the state, so that later reads show it.
package fanaction

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Input holds the parameters of a happening. All of them are optional.
type Input struct {
	User   int64        `json:"user_id"`
	Text   string       `json:"text"`
	Amount view.Dollars `json:"amount"`
	Ref    int64        `json:"ref_id"` // id of the message, post, story, stream, link or upload it is about
	Count  int          `json:"count"`
	Reason string       `json:"reason"`
}

// Func runs a happening. It must be called inside World.Do. Its error is a wire.Refusal, or has a text for the caller
// of the control API.
type Func func(c *world.Creator, in Input) error

// Person returns the person given by User, or else a fan with an active subscription. Successive calls cycle through
// the fans who have a chat.
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

// Some returns the next of the seeded people for whom fits is true. Successive calls cycle through them.
func (in Input) Some(c *world.Creator, fits func(*row.Person) bool) (*row.Person, error) {
	return next(c, seed.Fans+seed.Followed+seed.Strangers, fits)
}

// next cycles through the first seeded people, as many as among says.
func next(c *world.Creator, among int, fits func(*row.Person) bool) (*row.Person, error) {
	for range among {
		p := c.People().Get(row.SeedID(c.Profile.ID, row.KindPerson, 1+c.Turn(among)))
		if p != nil && fits(p) {
			return p, nil
		}
	}
	return nil, errors.New("no matching person")
}

// Cents returns the amount in cents. Default: usual.
func (in Input) Cents(usual int64) int64 {
	if in.Amount == 0 {
		return usual
	}
	return int64(in.Amount)
}

// Words returns the text. Default: usual.
func (in Input) Words(usual string) string {
	return cmp.Or(in.Text, usual)
}
