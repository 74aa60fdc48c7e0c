package people

import (
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// join makes the given user, or else a newcomer, subscribe for the first time. Amount is the price.
func join(c *world.Creator, in fanaction.Input) error {
	if in.User == 0 {
		p, err := newcomer(c)
		if err != nil {
			return err
		}
		return Subscribe(c, p, terms(c, p, in))
	}
	p, err := in.Person(c)
	if err != nil {
		return err
	}
	if p.Sub != nil {
		return fmt.Errorf("user %d has subscribed before: use %s", p.ID, frameReturned)
	}
	if slices.Contains(c.Settings().BlockedStates, p.Country) {
		return fmt.Errorf("user %d is in a country that the creator has blocked", p.ID)
	}
	return Subscribe(c, p, terms(c, p, in))
}

// newcomer returns a new person from a country that the creator has not blocked.
func newcomer(c *world.Creator) (*row.Person, error) {
	const tries = 300 // all of them fail only if almost every country is blocked
	for range tries {
		id := c.People().NextID()
		p := seed.Newcomer(c.Profile.Origin, id, int(id%1_000_000))
		if !slices.Contains(c.Settings().BlockedStates, p.Country) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the creator has blocked every country that newcomers come from")
}

// terms returns the usual terms, with the given price if there is one.
func terms(c *world.Creator, p *row.Person, in fanaction.Input) Terms {
	t := Usual(c, p)
	if in.Amount > 0 {
		t.Kind, t.Price = "paid", int64(in.Amount)
	}
	return t
}

// comeBack makes a former fan subscribe again. If there is no former fan, it ends a subscription first.
func comeBack(c *world.Creator, in fanaction.Input) error {
	now := c.Now()
	var p *row.Person
	var err error
	if in.User != 0 {
		p, err = in.Person(c)
	} else if p, err = in.Some(c, func(p *row.Person) bool { return p.Sub != nil && !p.Sub.Active(now) && !p.Blocked }); err != nil {
		p, err = in.Person(c)
	}
	if err != nil {
		return err
	}
	if p.Sub == nil {
		return fmt.Errorf("user %d has never subscribed: use %s", p.ID, frameJoined)
	}
	if in.User == 0 && p.Sub.Active(now) {
		cut(p.Sub, now)
		end(c, p)
	}
	return Subscribe(c, p, terms(c, p, in))
}

// subscriber returns the given fan, or else the next fan, with an active subscription.
func subscriber(c *world.Creator, in fanaction.Input) (*row.Person, error) {
	p, err := in.Person(c)
	if err == nil && !p.Sub.Active(c.Now()) {
		err = fmt.Errorf("user %d has no active subscription", p.ID)
	}
	return p, err
}

// renewEarly makes a fan pay for the next month before the current one ends.
func renewEarly(c *world.Creator, in fanaction.Input) error {
	p, err := subscriber(c, in)
	if err != nil {
		return err
	}
	if p.Sub.Until.IsZero() {
		return fmt.Errorf("the subscription of user %d has no end", p.ID)
	}
	renew(c, p, c.Now())
	return nil
}

// leave ends a fan's subscription now.
func leave(c *world.Creator, in fanaction.Input) error {
	p, err := subscriber(c, in)
	if err != nil {
		return err
	}
	cut(p.Sub, c.Now())
	end(c, p)
	return nil
}

// switchRenewal makes a fan toggle the renewal of their subscription.
func switchRenewal(c *world.Creator, in fanaction.Input) error {
	p, err := subscriber(c, in)
	if err != nil {
		return err
	}
	setRenewal(c, p, !p.Sub.AutoRenew)
	return nil
}

// toggleMember makes the creator add a user to a list, or remove them, on another device. ref_id is the list.
func toggleMember(c *world.Creator, in fanaction.Input) error {
	p, err := in.Person(c)
	if err != nil {
		return err
	}
	for _, l := range c.Lists().All() {
		if l.System != "" || (in.Ref != 0 && l.ID != in.Ref) {
			continue
		}
		if removed := l.Remove(func(member int64) bool { return member == p.ID }); removed > 0 {
			saveList(c, l, 0, removed)
		} else {
			l.Add(p.ID)
			saveList(c, l, 1, 0)
		}
		return nil
	}
	return fmt.Errorf("the list does not exist or is a system list")
}

// editOnPhone makes the creator change the profile text on another device.
func editOnPhone(c *world.Creator, in fanaction.Input) error {
	c.Profile.Bio = in.Words("On tour until spring. Answers come late, but they come.")
	tellProfile(c, []string{"about"})
	return nil
}

// toggleOnline makes a person go online or offline.
func toggleOnline(c *world.Creator, in fanaction.Input) error {
	p, err := in.Person(c)
	if err != nil {
		return err
	}
	p.Online, p.LastSeen = !p.Online, c.Now()
	c.People().Put(p)
	c.Flash(frameOnline, map[string]any{"user_id": p.ID, "is_online": p.Online, "last_seen": view.Stamp(p.LastSeen)})
	return nil
}
