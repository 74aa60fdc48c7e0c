package money

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/people"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// receive books a referral payment, which the platform pays for a referred creator. Payments of fans have their own
// happenings.
func receive(c *world.Creator, in fanaction.Input) error {
	t := &row.Tx{Type: "referral", Gross: in.Cents(1500), Text: in.Text}
	if t.Gross <= 0 {
		return errors.New("the amount must be positive")
	}
	ledger.Book(c, t)
	return nil
}

// chargeBack charges back the given payment, or else the latest payment of a fan.
func chargeBack(c *world.Creator, in fanaction.Input) error {
	var t *row.Tx
	for _, one := range slices.Backward(c.Txs().All()) {
		if counts(one) && one.Person != 0 && (in.Ref == 0 || in.Ref == one.ID) && (in.User == 0 || in.User == one.Person) {
			t = one
			break
		}
	}
	if t == nil {
		return errors.New("the payment does not exist or was already charged back")
	}
	c.ReverseTx(t)
	c.Emit(frameChargeback, map[string]any{"chargeback": view.Chargeback(c, t)})
	ledger.Notify(c, &row.Notice{
		Type: "system", Text: fmt.Sprintf("A payment of $%d.%02d was charged back.", t.Gross/100, t.Gross%100), Person: t.Person,
	})
	return nil
}

// click adds clicks to the given link, or else to the next running one.
func click(c *world.Creator, in fanaction.Input) error {
	for _, k := range []linkKind{tracking, trials} {
		l := k.table(c).Get(in.Ref)
		if in.Ref == 0 {
			l = nextLink(c, k)
		}
		if l == nil {
			continue
		}
		k.addClicks(c, l, max(in.Count, 1))
		c.Flash(frameClick, map[string]any{"link_id": l.ID, "kind": k.name, "clicks_count": clicked(l, wire.Span{})})
		return nil
	}
	return errors.New("the link does not exist, or no link is running")
}

// nextLink returns the next running link of a kind, or nil. Successive calls cycle through them.
func nextLink(c *world.Creator, k linkKind) *row.Link {
	came := yields(c, k.name, wire.Span{})
	running := wire.Filter(k.table(c).All(), func(l *row.Link) bool { return k.running(l, came[l.ID], c.Now()) })
	if len(running) == 0 {
		return nil
	}
	return running[c.Turn(len(running))]
}

// offer is a trial that can be claimed.
type offer struct {
	source string
	id     int64
	days   int
	isFor  func(*row.Person) bool
}

// offers returns the running trial links and promotions with a trial.
func offers(c *world.Creator) []offer {
	var list []offer
	anyone := func(*row.Person) bool { return true }
	came := yields(c, trials.name, wire.Span{})
	for _, l := range c.TrialLinks().All() {
		if trials.running(l, came[l.ID], c.Now()) {
			list = append(list, offer{source: trials.name, id: l.ID, days: l.Days, isFor: anyone})
		}
	}
	came = yields(c, promotion, wire.Span{})
	for _, p := range c.Promotions().All() {
		if p.Type == "trial" && promoted(p, came[p.ID].Subscribers, c.Now()) {
			isFor := func(who *row.Person) bool {
				return p.Audience == "both" || (p.Audience == "new") == (who.Sub == nil)
			}
			list = append(list, offer{source: promotion, id: p.ID, days: p.TrialDays, isFor: isFor})
		}
	}
	return list
}

// claimTrial makes a person claim the given offer, or else the next one.
func claimTrial(c *world.Creator, in fanaction.Input) error {
	open := wire.Filter(offers(c), func(o offer) bool { return in.Ref == 0 || in.Ref == o.id })
	if len(open) == 0 {
		return errors.New("no trial link or promotion can be claimed")
	}
	o := open[c.Turn(len(open))]
	var p *row.Person
	var err error
	if in.User != 0 {
		p, err = in.Person(c)
	} else {
		blocked := c.Settings().BlockedStates
		p, err = in.Some(c, func(p *row.Person) bool {
			return !p.Sub.Active(c.Now()) && !p.Blocked && !slices.Contains(blocked, p.Country) && o.isFor(p)
		})
	}
	if err != nil {
		return err
	}
	if err := people.Subscribe(c, p, people.Terms{Kind: "trial", Days: o.days, SourceKind: o.source, SourceID: o.id}); err != nil {
		return err
	}
	frame := struct {
		User      view.User  `json:"user"`
		Link      *int64     `json:"link_id"`
		Promotion *int64     `json:"promotion_id"`
		Days      int        `json:"days"`
		Expires   view.Stamp `json:"expires_at"`
	}{User: view.Person(c, p), Days: o.days, Expires: view.Stamp(p.Sub.Until)}
	if o.source == promotion {
		frame.Promotion = &o.id
	} else {
		frame.Link = &o.id
	}
	c.Emit(frameTrial, frame)
	return nil
}
