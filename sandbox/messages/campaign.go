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

// A message to many is scheduled, then sending, then sent; each step is due by itself.
//
// Sending puts a copy into every chat that exists. A recipient without a chat is only noted (Waiting): the copy is made when the
// chat is first looked at or written to (unfold). So a message to all fans costs some hundred rows and not some thousand, the list of
// chats does not drown, and still every recipient has it.
const (
	dueSend    = "mass.send"    // a scheduled one's time has come
	dueDeliver = "mass.deliver" // it reaches its recipients
	dueUnsend  = "mass.unsend"  // it is taken back

	// moment is how long the platform takes for what it does not do at once.
	moment = 300 * time.Millisecond
)

// recipients are those a message to many goes to now, in the order of their ids. Without lists and users it goes to all fans.
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

// onList visits everyone on a list; nobody, if it was deleted meanwhile.
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

// reach is to how many a message to many goes, or went.
func reach(c *world.Creator, m *row.Mass) int {
	if m.State == "sent" {
		return m.Sent
	}
	return len(recipients(c, m))
}

func showMass(c *world.Creator, m *row.Mass) view.MassView { return view.Mass(c, m, reach(c, m)) }

// Schedule has a message to many sent at a time; one that has passed is now. Its row must not have been sent or called off.
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

// Cancel calls a message to many off. It says whether it was early enough.
func Cancel(c *world.Creator, m *row.Mass) bool {
	if m.State == "sent" {
		return false
	}
	m.State = "canceled"
	c.Masses().Put(m)
	return true
}

// startMass begins to send a scheduled one. It may have been moved to a later time, or called off.
func startMass(c *world.Creator, id int64) {
	m := c.Masses().Get(id)
	if m == nil || m.State != "scheduled" || m.Scheduled.After(c.Now()) {
		return
	}
	Schedule(c, m, m.Scheduled)
	item := view.QueueView{ID: m.ID, Ref: m.ID, Kind: "mass_message", At: view.Stamp(m.Scheduled), State: "published"}
	c.Emit(frameQueue, map[string]any{"item": item})
}

// Plan notes what the seed has scheduled, so that it is sent by itself. It is called once for a creator.
func Plan(c *world.Creator) {
	for n := range seed.MassesPlanned {
		c.At(seed.MassPlannedAt(c.Profile.Origin, n), dueSend, row.SeedID(c.Profile.ID, row.KindMass, seed.Masses+n+1))
	}
}

// deliverMass puts it into the chats.
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

// withdrawMass takes the copies back that were not paid for.
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

// pack writes ids, which are in order, as the steps between them: a byte or two for each, where their digits would take twenty.
func pack(ids []int64) []byte {
	var packed []byte
	last := int64(0)
	for _, id := range ids {
		packed = binary.AppendUvarint(packed, uint64(id-last))
		last = id
	}
	return packed
}

// without is the same ids less one; was says whether that was among them.
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
