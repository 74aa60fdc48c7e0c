package messages

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// A mass message is scheduled, then sending, then sent. A timer starts each step.
//
// Sending puts a copy into every existing chat. A recipient without a chat is only listed in Waiting; unfold makes the
// copy when the chat is first read or written to. So a message to all fans adds hundreds of rows instead of thousands
// and does not flood the list of chats, but every recipient gets it.
const (
	dueSend    = "mass.send"    // sends a scheduled mass message
	dueDeliver = "mass.deliver" // puts it into the chats
	dueUnsend  = "mass.unsend"  // withdraws it

	// moment is how long an asynchronous step takes.
	moment = 300 * time.Millisecond
)

// recipients returns the current recipients of a mass message, sorted by id. Without lists and users they are all fans.
func recipients(c *world.Creator, m *row.Mass) []int64 {
	wanted := map[int64]bool{}
	for _, id := range m.Include {
		onList(c, id, func(person int64) { wanted[person] = true })
	}
	for _, id := range m.People {
		wanted[id] = true
	}
	if len(m.Include) == 0 && len(m.People) == 0 {
		now := c.Now()
		for _, p := range c.People().All() {
			if p.Sub.Active(now) {
				wanted[p.ID] = true
			}
		}
	}
	for _, id := range m.Exclude {
		onList(c, id, func(person int64) { delete(wanted, person) })
	}
	list := make([]int64, 0, len(wanted))
	for id := range wanted {
		if p := c.People().Get(id); p != nil && !p.Blocked {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// onList calls visit for every person on a list. If the list was deleted, it does nothing.
func onList(c *world.Creator, id int64, visit func(person int64)) {
	l := c.Lists().Get(id)
	if l == nil {
		return
	}
	if l.System == "" {
		for _, member := range l.Members {
			visit(member)
		}
		return
	}
	for _, p := range c.People().All() {
		if c.Member(l, p) {
			visit(p.ID)
		}
	}
}

// reach returns the number of recipients that a mass message has, or had when it was sent.
func reach(c *world.Creator, m *row.Mass) int {
	if m.State == "sent" {
		return m.Sent
	}
	return len(recipients(c, m))
}

func showMass(c *world.Creator, m *row.Mass) view.MassView { return view.Mass(c, m, reach(c, m)) }

// Schedule schedules a mass message for the given time, or starts sending it if that time has passed. The message must
// not have been sent or cancelled.
func Schedule(c *world.Creator, m *row.Mass, at time.Time) {
	m.State, m.Scheduled = "scheduled", at
	if at.After(c.Now()) {
		c.At(at, dueSend, m.ID)
		c.Masses().Put(m)
		return
	}
	m.State = "sending"
	c.At(c.Now().Add(moment), dueDeliver, m.ID)
	c.Masses().Put(m)
}

// Cancel cancels a mass message. It reports false if the message was already sent.
func Cancel(c *world.Creator, m *row.Mass) bool {
	if m.State == "sent" {
		return false
	}
	m.State = "canceled"
	c.Masses().Put(m)
	return true
}

// startMass starts sending a scheduled mass message, unless it was rescheduled or cancelled.
func startMass(c *world.Creator, id int64) {
	m := c.Masses().Get(id)
	if m == nil || m.State != "scheduled" || m.Scheduled.After(c.Now()) {
		return
	}
	Schedule(c, m, m.Scheduled)
	item := view.QueueView{ID: m.ID, Ref: m.ID, Kind: "mass_message", At: view.Stamp(m.Scheduled), State: "published"}
	c.Emit(frameQueue, map[string]any{"item": item})
}

// Plan sets the timers of the mass messages that the seed has scheduled. Call it once per creator.
func Plan(c *world.Creator) {
	for n := range seed.MassesPlanned {
		c.At(seed.MassPlannedAt(c.Profile.Origin, n), dueSend, row.SeedID(c.Profile.ID, row.KindMass, seed.Masses+n+1))
	}
}

// deliverMass puts a mass message into the chats of its recipients.
func deliverMass(c *world.Creator, id int64) {
	m := c.Masses().Get(id)
	if m == nil || m.State != "sending" {
		return
	}
	now := c.Now()
	m.State, m.SentAt = "sent", now
	var waiting []int64
	all := recipients(c, m)
	for _, person := range all {
		chat := c.Chats().Get(person)
		if chat == nil {
			waiting = append(waiting, person)
			continue
		}
		send(c, chat, copyOf(m, now), byMass)
	}
	m.Sent, m.Waiting = len(all), pack(waiting)
	if m.UnsendIn > 0 {
		m.UnsendAt = now.Add(time.Duration(m.UnsendIn) * time.Second)
		c.At(m.UnsendAt, dueUnsend, m.ID)
	}
	c.Masses().Put(m)
	c.Emit(frameMass, map[string]any{"campaign": showMass(c, m)})
}

// withdrawMass removes the copies of a mass message that were not paid for.
func withdrawMass(c *world.Creator, id int64) {
	m := c.Masses().Get(id)
	if m == nil || m.State != "sent" {
		return
	}
	if !m.Unsent && (m.UnsendAt.IsZero() || m.UnsendAt.After(c.Now())) {
		return
	}
	m.Unsent, m.Waiting = true, nil
	c.Masses().Put(m)
	for _, chat := range c.Chats().All() {
		if chat.UpdatedAt.Before(m.SentAt) {
			continue
		}
		for _, one := range slices.Clone(c.Messages(chat.ID).All()) {
			if one.Mass == m.ID && !one.Opened {
				remove(c, chat, one, "creator")
			}
		}
	}
}

// pack encodes sorted ids as the differences between them: one or two bytes per id instead of about twenty digits.
func pack(ids []int64) []byte {
	var packed []byte
	last := int64(0)
	for _, id := range ids {
		packed = binary.AppendUvarint(packed, uint64(id-last))
		last = id
	}
	return packed
}

// without returns packed ids with one id removed, and whether the id was among them.
func without(packed []byte, id int64) (rest []byte, was bool) {
	var ids []int64
	at := int64(0)
	for left := packed; len(left) > 0; {
		step, n := binary.Uvarint(left)
		if n <= 0 {
			break
		}
		left = left[n:]
		if at += int64(step); at == id {
			was = true
			continue
		}
		ids = append(ids, at)
	}
	if !was {
		return packed, false
	}
	return pack(ids), true
}
