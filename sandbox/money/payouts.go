package money

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	// minPayout is the minimum amount of a payout in cents.
	minPayout = 2000
	// payoutTakes is how long a payout is pending and can be cancelled.
	payoutTakes = time.Minute

	duePayout   = "payout.pay"
	dueSchedule = "payout.schedule"
)

func payoutRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /payouts", Handle: payouts},
		{Pattern: "POST /payouts", Handle: wire.Read(requestPayout)},
		{Pattern: "POST /payouts/{payout_id}/cancel", Handle: cancelPayout},
		{Pattern: "GET /payouts/eligibility", Handle: eligibility},
		{Pattern: "GET /payouts/schedule", Handle: schedule},
		{Pattern: "PUT /payouts/schedule", Handle: wire.Read(setSchedule)},
		{Pattern: "GET /payouts/methods", Handle: payoutMethods},
		{Pattern: "GET /payouts/tax", Handle: taxStatus},
	}
}

func payoutDues() map[string]world.Handler {
	return map[string]world.Handler{
		duePayout: func(c *world.Creator, id int64) {
			if p := c.Payouts().Get(id); p != nil && p.Status == "pending" {
				pay(c, p)
			}
		},
		dueSchedule: func(c *world.Creator, _ int64) { runSchedule(c) },
	}
}

func payouts(c *wire.Call) (any, error) {
	status := view.PayoutStatus(c.Query("state"))
	rows := wire.Filter(c.Payouts().All(), func(p *row.Payout) bool { return status == "" || status == p.Status })
	order := wire.Order[*row.Payout]{Rank: func(p *row.Payout) int64 { return p.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(p *row.Payout) any { return view.Payout(p) })
}

// eligibility reports whether the creator can request a payout, and if not, why.
func eligibility(c *wire.Call) (any, error) {
	reasons := []string{}
	if c.Profile.IsFan {
		reasons = append(reasons, "not_a_creator")
	}
	switch available, pending := balance(c.Creator); {
	case available < 0:
		reasons = append(reasons, "negative_balance")
	case available < minPayout && available+pending >= minPayout:
		reasons = append(reasons, "balance_pending")
	case available < minPayout:
		reasons = append(reasons, "below_minimum")
	}
	return struct {
		Eligible bool         `json:"is_eligible"`
		Minimum  view.Dollars `json:"min_payout"`
		Reasons  []string     `json:"reasons"`
	}{len(reasons) == 0, minPayout, reasons}, nil
}

type requestPayoutInput struct {
	Amount view.Dollars `json:"amount"`
}

func requestPayout(c *wire.Call, in *requestPayoutInput) (any, error) {
	p, err := request(c.Creator, int64(in.Amount))
	if err != nil {
		return nil, err
	}
	return view.Payout(p), nil
}

// request creates a payout. It reduces the balance immediately and is paid after payoutTakes.
func request(c *world.Creator, amount int64) (*row.Payout, error) {
	if amount < minPayout {
		return nil, wire.Invalid("amount", fmt.Sprintf("The minimum payout is $%d.", minPayout/100))
	}
	if available, _ := balance(c); amount > available {
		return nil, wire.Conflict(fmt.Sprintf("Only $%.2f is available for a payout.", float64(max(available, 0))/100))
	}
	p := &row.Payout{Rec: row.Rec{ID: c.Payouts().NextID()}, Amount: amount, Status: "pending", Method: "bank", At: c.Now()}
	c.Payouts().Put(p)
	c.Emit(framePayoutRequested, payoutFrame{Payout: view.Payout(p)})
	c.At(c.Now().Add(payoutTakes), duePayout, p.ID)
	return p, nil
}

type payoutFrame struct {
	Payout view.PayoutView `json:"payout"`
	Reason *string         `json:"reason"`
}

func cancelPayout(c *wire.Call) (any, error) {
	p, err := wire.Found("payout", c.Payouts().Get(c.ID("payout_id")))
	if err != nil {
		return nil, err
	}
	switch p.Status {
	case "pending":
		p.Status = "canceled"
		c.Payouts().Put(p)
	case "canceled":
	default:
		return nil, wire.Conflict("This payout is no longer pending.")
	}
	return view.Payout(p), nil
}

func pay(c *world.Creator, p *row.Payout) {
	p.Status, p.PaidAt = "paid", c.Now()
	c.Payouts().Put(p)
	c.Emit(framePayoutPaid, payoutFrame{Payout: view.Payout(p)})
	ledger.Notify(c, &row.Notice{Type: "system", Text: fmt.Sprintf("Your payout of $%d.%02d was sent.", p.Amount/100, p.Amount%100), RefKind: row.KindPayout, Ref: p.ID})
}

func fail(c *world.Creator, p *row.Payout, reason string) {
	p.Status, p.Reason = "failed", reason
	c.Payouts().Put(p)
	c.Emit(framePayoutFailed, payoutFrame{Payout: view.Payout(p), Reason: &reason})
	ledger.Notify(c, &row.Notice{Type: "system", Text: "Your payout failed: " + reason, RefKind: row.KindPayout, Ref: p.ID})
}

// scheduleView is the schedule of automatic payouts.
type scheduleView struct {
	Every   string       `json:"interval"`
	Next    view.Stamp   `json:"next_at"`
	Minimum view.Dollars `json:"min_payout"`
	Method  string       `json:"method"`
}

func showSchedule(c *wire.Call) scheduleView {
	s := c.Settings()
	return scheduleView{Every: s.PayoutEvery, Next: view.Stamp(s.PayoutNext), Minimum: minPayout, Method: "bank"}
}

func schedule(c *wire.Call) (any, error) { return showSchedule(c), nil }

type setScheduleInput struct {
	Every string `json:"interval"`
}

func setSchedule(c *wire.Call, in *setScheduleInput) (any, error) {
	s := c.Settings()
	if in.Every == s.PayoutEvery {
		return showSchedule(c), nil
	}
	switch in.Every {
	case "manual":
		s.PayoutNext = time.Time{}
	case "daily", "weekly", "monthly":
		s.PayoutNext = nextPayout(c.Now(), in.Every)
		c.At(s.PayoutNext, dueSchedule, 0)
	default:
		return nil, wire.Invalid("interval", "The interval must be daily, weekly, monthly or manual.")
	}
	s.PayoutEvery = in.Every
	c.SaveSettings()
	return showSchedule(c), nil
}

// nextPayout returns 10:00 UTC on the next day, Monday or first of a month.
func nextPayout(now time.Time, every string) time.Time {
	by := map[string]string{"daily": "day", "weekly": "week", "monthly": "month"}[every]
	return following(now, by).Add(10 * time.Hour)
}

// runSchedule pays out the available balance if it reaches the minimum. It ignores timers of an earlier schedule.
func runSchedule(c *world.Creator) {
	s, now := c.Settings(), c.Now()
	if s.PayoutNext.IsZero() || now.Before(s.PayoutNext) {
		return
	}
	if available, _ := balance(c); available >= minPayout {
		_, _ = request(c, available) // cannot fail: the amount is the available balance
	}
	s.PayoutNext = nextPayout(now, s.PayoutEvery)
	c.SaveSettings()
	c.At(s.PayoutNext, dueSchedule, 0)
}

// payoutMethod is a bank account or wallet that receives payouts.
type payoutMethod struct {
	ID       int64  `json:"id"`
	Type     string `json:"type"`
	Label    string `json:"label"`
	Currency string `json:"currency"`
	Default  bool   `json:"is_default"`
}

func payoutMethods(c *wire.Call) (any, error) {
	id := c.Profile.ID
	list := []payoutMethod{
		{ID: row.SeedID(id, row.KindSettings, 1), Type: "bank", Label: fmt.Sprintf("Bank account ending in %04d", id%10_000), Currency: currency, Default: true},
		{ID: row.SeedID(id, row.KindSettings, 2), Type: "wallet", Label: "Wallet of " + c.Profile.Name, Currency: currency},
	}
	return wire.Whole(list, func(m payoutMethod) any { return m }), nil
}

func taxStatus(c *wire.Call) (any, error) {
	return struct {
		Status   string     `json:"status"`
		Form     string     `json:"form"`
		Country  string     `json:"country"`
		Withheld int        `json:"withholding_percent"`
		At       view.Stamp `json:"submitted_at"`
	}{"approved", "W-9", "US", 0, view.Stamp(c.Profile.JoinedAt.Add(2 * day))}, nil
}

func payoutHappenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		framePayoutRequested: func(c *world.Creator, in fanaction.Input) error {
			_, err := request(c, in.Cents(minPayout))
			return err
		},
		framePayoutPaid: func(c *world.Creator, in fanaction.Input) error {
			p, err := onItsWay(c, in)
			if err == nil {
				pay(c, p)
			}
			return err
		},
		framePayoutFailed: func(c *world.Creator, in fanaction.Input) error {
			p, err := onItsWay(c, in)
			if err == nil {
				fail(c, p, cmp.Or(in.Reason, "The bank does not know this account."))
			}
			return err
		},
	}
}

// onItsWay returns the given pending payout, or else the oldest pending one, or else a new one.
func onItsWay(c *world.Creator, in fanaction.Input) (*row.Payout, error) {
	for _, p := range c.Payouts().All() {
		if p.Status == "pending" && (in.Ref == 0 || in.Ref == p.ID) {
			return p, nil
		}
	}
	if in.Ref != 0 {
		return nil, errors.New("no pending payout has this id")
	}
	return request(c, in.Cents(minPayout))
}
