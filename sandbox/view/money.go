package view

import (
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// clearing is how long a payment is held before it can be paid out.
const clearing = 7 * 24 * time.Hour

// TxState returns the current state of a transaction. A payment is pending for a week and then done.
func TxState(t *row.Tx, now time.Time) string {
	if t.Status == "pending" && !t.At.Add(clearing).After(now) {
		return "done"
	}
	return t.Status
}

// CurrentTx returns the view of a transaction with its current state.
func CurrentTx(c *world.Creator, t *row.Tx) Transaction {
	v := Tx(c, t)
	v.Status = TxState(t, c.Now())
	return v
}

// ChargebackView is the view of a chargeback.
type ChargebackView struct {
	ID     int64   `json:"id"`
	Tx     int64   `json:"transaction_id"`
	Amount Dollars `json:"amount"`
	User   *User   `json:"user"`
	At     Stamp   `json:"created_at"`
}

// Chargeback returns the view of the chargeback of a reversed transaction.
func Chargeback(c *world.Creator, t *row.Tx) ChargebackView {
	id := t.ID + row.SeedID(0, row.KindChargeback, 0) - row.SeedID(0, row.KindTx, 0)
	return ChargebackView{ID: id, Tx: t.ID, Amount: Dollars(t.Gross), User: Tx(c, t).User, At: Stamp(t.Reversed)}
}

// ReferralView is the view of a payment for referring another creator.
type ReferralView struct {
	ID     int64   `json:"id"`
	Tx     int64   `json:"transaction_id"`
	Amount Dollars `json:"amount"`
	Net    Dollars `json:"net"`
	User   *User   `json:"user"`
	At     Stamp   `json:"created_at"`
}

// Referral returns the view of a referral transaction.
func Referral(c *world.Creator, t *row.Tx) ReferralView {
	id := t.ID + row.SeedID(0, row.KindReferral, 0) - row.SeedID(0, row.KindTx, 0)
	return ReferralView{ID: id, Tx: t.ID, Amount: Dollars(t.Gross), Net: Dollars(t.Net()), User: Tx(c, t).User, At: Stamp(t.At)}
}

// PayoutView is the view of a payout.
type PayoutView struct {
	ID     int64   `json:"id"`
	Amount Dollars `json:"amount"`
	Status string  `json:"state"` // processing, paid, rejected, cancelled
	Method string  `json:"method"`
	At     Stamp   `json:"requested_at"`
	PaidAt Stamp   `json:"paid_at"`
}

// payoutStates maps the states of a payout to the platform's names for them.
var payoutStates = map[string]string{"pending": "processing", "failed": "rejected", "canceled": "cancelled", "paid": "paid"}

// Payout returns the view of a payout.
func Payout(p *row.Payout) PayoutView {
	return PayoutView{
		ID: p.ID, Amount: Dollars(p.Amount), Status: payoutStates[p.Status], Method: p.Method, At: Stamp(p.At), PaidAt: Stamp(p.PaidAt),
	}
}

// PayoutStatus returns the stored state for the platform's name of a payout state, or "" for an unknown name.
func PayoutStatus(word string) string {
	for status, theirs := range payoutStates {
		if theirs == word {
			return status
		}
	}
	return ""
}

// Yield is the result of a link or a promotion.
type Yield struct {
	Clicks, Subscribers, Active int
	Revenue                     int64 // gross, in cents
}

// LinkView is the view of a tracking or trial link.
type LinkView struct {
	ID          int64    `json:"id"`
	Name        string   `json:"title"`
	URL         string   `json:"url"`
	Code        string   `json:"code"`
	Tags        []string `json:"tags"`
	Clicks      int      `json:"clicks_count"`
	Subscribers int      `json:"subscribers_count"`
	Revenue     Dollars  `json:"revenue"`
	Shared      []int64  `json:"shared_with"`
	At          Stamp    `json:"created_at"`
	Ended       Stamp    `json:"finished_at"`
	*TrialView
}

// TrialView holds the additional fields of a trial link.
type TrialView struct {
	Days      int   `json:"trial_days"`
	MaxClaims *int  `json:"claims_limit"`
	Claims    int   `json:"claims_count"`
	Expires   Stamp `json:"expires_at"`
}

// Link returns the view of a link. A link with Days is a trial link.
func Link(c *world.Creator, l *row.Link, y Yield) LinkView {
	v := LinkView{
		ID: l.ID, Name: l.Name, Code: l.Code, URL: strings.Join([]string{c.Origin(), c.Profile.Username, l.Code}, "/"),
		Tags:   NotNull(l.Tags),
		Clicks: y.Clicks, Subscribers: y.Subscribers, Revenue: Dollars(y.Revenue), Shared: NotNull(l.Shared), At: Stamp(l.At),
		Ended: Stamp(l.Ended),
	}
	if l.Days > 0 {
		v.TrialView = &TrialView{
			Days: l.Days, MaxClaims: Optional(l.MaxClaims), Claims: y.Subscribers, Expires: Stamp(l.Expires),
		}
	}
	return v
}

// LinkStatsView is the view of the results of a link or a promotion within a time span.
type LinkStatsView struct {
	ID          int64   `json:"id"`
	Kind        string  `json:"kind"` // tracking, trial, promotion
	Name        string  `json:"title"`
	Clicks      int     `json:"clicks_count"`
	Subscribers int     `json:"subscribers_count"`
	Active      int     `json:"active_count"`
	Revenue     Dollars `json:"revenue"`
	Rate        float64 `json:"conversion"` // subscribers per click
	From        *string `json:"from"`
	To          *string `json:"to"`
}

// PromotionView is the view of a promotion.
type PromotionView struct {
	ID        int64   `json:"id"`
	Audience  string  `json:"audience"` // new, expired, both
	Type      string  `json:"type"`     // discount, trial
	Percent   *int    `json:"discount_percent"`
	TrialDays *int    `json:"trial_days"`
	MaxClaims *int    `json:"claims_limit"`
	Claims    int     `json:"claims_count"`
	Message   *string `json:"message"`
	Starts    Stamp   `json:"starts_at"`
	Ends      Stamp   `json:"ends_at"`
	State     string  `json:"state"` // running, finished
}

// Promotion returns the view of a promotion.
func Promotion(p *row.Promotion, claims int, running bool) PromotionView {
	v := PromotionView{
		ID: p.ID, Audience: p.Audience, Type: p.Type, Percent: Optional(p.Percent), TrialDays: Optional(p.TrialDays),
		MaxClaims: Optional(p.MaxClaims),
		Claims:    claims, Message: Optional(p.Message), Starts: Stamp(p.Starts), Ends: Stamp(p.Ends), State: "finished",
	}
	if running {
		v.State = "running"
	}
	return v
}

// BundleView is the view of a bundle.
type BundleView struct {
	ID      int64   `json:"id"`
	Months  int     `json:"duration"`
	Percent int     `json:"discount_percent"`
	Price   Dollars `json:"price"` // of all its months
}

// Bundle returns the view of a bundle, at the current price of a month.
func Bundle(c *world.Creator, b *row.Bundle) BundleView {
	price := c.Profile.Price * int64(b.Months) * int64(100-b.Percent) / 100
	return BundleView{ID: b.ID, Months: b.Months, Percent: b.Percent, Price: Dollars(price)}
}

// Series is one line of a chart. Amounts are in cents.
type Series struct {
	Unit   string  `json:"unit"` // cents, subscribers, visitors
	Points []Point `json:"points"`
	Total  int64   `json:"total"`
}

// Point is the value of one period of a Series.
type Point struct {
	At    Stamp `json:"at"`
	Value int64 `json:"value"`
}
