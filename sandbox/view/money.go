package view

import (
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// clearing is how long money is held before it can be paid out.
const clearing = 7 * 24 * time.Hour

// TxState is what has become of a transaction: money that came in is pending for a week and done from then on.
func TxState(t *row.Tx, now time.Time) string {
	if t.Status == "pending" && !t.At.Add(clearing).After(now) {
		return "done"
	}
	return t.Status
}

// CurrentTx shows a transaction in the state it is in by now.
func CurrentTx(c *world.Creator, t *row.Tx) Transaction {
	v := Tx(c, t)
	v.Status = TxState(t, c.Now())
	return v
}

// ChargebackView is money that was taken back.
type ChargebackView struct {
	ID     int64   `json:"id"`
	Tx     int64   `json:"transaction_id"`
	Amount Dollars `json:"amount"`
	User   *User   `json:"user"`
	At     Stamp   `json:"created_at"`
}

// Chargeback shows the one of a reversed transaction.
func Chargeback(c *world.Creator, t *row.Tx) ChargebackView {
	id := t.ID + row.SeedID(0, row.KindChargeback, 0) - row.SeedID(0, row.KindTx, 0)
	return ChargebackView{ID: id, Tx: t.ID, Amount: Dollars(t.Gross), User: Tx(c, t).User, At: Stamp(t.Reversed)}
}

// ReferralView is what the platform paid for bringing another creator.
type ReferralView struct {
	ID     int64   `json:"id"`
	Tx     int64   `json:"transaction_id"`
	Amount Dollars `json:"amount"`
	Net    Dollars `json:"net"`
	User   *User   `json:"user"`
	At     Stamp   `json:"created_at"`
}

// Referral shows the one of a referral transaction.
func Referral(c *world.Creator, t *row.Tx) ReferralView {
	id := t.ID + row.SeedID(0, row.KindReferral, 0) - row.SeedID(0, row.KindTx, 0)
	return ReferralView{ID: id, Tx: t.ID, Amount: Dollars(t.Gross), Net: Dollars(t.Net()), User: Tx(c, t).User, At: Stamp(t.At)}
}

// PayoutView is money that goes out.
type PayoutView struct {
	ID     int64   `json:"id"`
	Amount Dollars `json:"amount"`
	Status string  `json:"state"` // processing, paid, rejected, cancelled
	Method string  `json:"method"`
	At     Stamp   `json:"requested_at"`
	PaidAt Stamp   `json:"paid_at"`
}

// payoutStates are the platform's words.
var payoutStates = map[string]string{"pending": "processing", "failed": "rejected", "canceled": "cancelled", "paid": "paid"}

// Payout shows one.
func Payout(p *row.Payout) PayoutView {
	return PayoutView{
		ID: p.ID, Amount: Dollars(p.Amount), Status: payoutStates[p.Status], Method: p.Method, At: Stamp(p.At), PaidAt: Stamp(p.PaidAt),
	}
}

// PayoutStatus undoes the platform's word for a payout's state; it is empty for a word that is none.
func PayoutStatus(word string) string {
	for status, theirs := range payoutStates {
		if theirs == word {
			return status
		}
	}
	return ""
}

// Yield is what came of a link or a promotion.
type Yield struct {
	Clicks, Subscribers, Active int
	Revenue                     int64 // gross, in cents
}

// LinkView is a tracking or a trial link.
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

// TrialView is what a trial link has besides.
type TrialView struct {
	Days      int   `json:"trial_days"`
	MaxClaims *int  `json:"claims_limit"`
	Claims    int   `json:"claims_count"`
	Expires   Stamp `json:"expires_at"`
}

// Link shows one. Links that have days are trials.
func Link(c *world.Creator, l *row.Link, y Yield) LinkView {
	v := LinkView{
		ID: l.ID, Name: l.Name, Code: l.Code, URL: strings.Join([]string{c.Origin(), c.Profile.Username, l.Code}, "/"), Tags: l.Tags,
		Clicks: y.Clicks, Subscribers: y.Subscribers, Revenue: Dollars(y.Revenue), Shared: IDs(l.Shared), At: Stamp(l.At), Ended: Stamp(l.Ended),
	}
	if v.Tags == nil {
		v.Tags = []string{}
	}
	if l.Days > 0 {
		v.TrialView = &TrialView{Days: l.Days, MaxClaims: size(l.MaxClaims), Claims: y.Subscribers, Expires: Stamp(l.Expires)}
	}
	return v
}

// LinkStatsView is what came of a link or a promotion in a stretch of time.
type LinkStatsView struct {
	ID          int64   `json:"id"`
	Kind        string  `json:"kind"` // tracking, trial, promotion
	Name        string  `json:"title"`
	Clicks      int     `json:"clicks_count"`
	Subscribers int     `json:"subscribers_count"`
	Active      int     `json:"active_count"`
	Revenue     Dollars `json:"revenue"`
	Rate        float64 `json:"conversion"` // subscribers for each click
	From        *string `json:"from"`
	To          *string `json:"to"`
}

// PromotionView is a discount or a trial for a while.
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

// Promotion shows one.
func Promotion(p *row.Promotion, claims int, running bool) PromotionView {
	v := PromotionView{
		ID: p.ID, Audience: p.Audience, Type: p.Type, Percent: size(p.Percent), TrialDays: size(p.TrialDays), MaxClaims: size(p.MaxClaims),
		Claims: claims, Starts: Stamp(p.Starts), Ends: Stamp(p.Ends), State: "finished",
	}
	if p.Message != "" {
		v.Message = &p.Message
	}
	if running {
		v.State = "running"
	}
	return v
}

// BundleView is several months for less.
type BundleView struct {
	ID      int64   `json:"id"`
	Months  int     `json:"duration"`
	Percent int     `json:"discount_percent"`
	Price   Dollars `json:"price"` // of all its months
}

// Bundle shows one at today's price of a month.
func Bundle(c *world.Creator, b *row.Bundle) BundleView {
	price := c.Profile.Price * int64(b.Months) * int64(100-b.Percent) / 100
	return BundleView{ID: b.ID, Months: b.Months, Percent: b.Percent, Price: Dollars(price)}
}

// Series is a line of a chart. Money in it is in cents.
type Series struct {
	Unit   string  `json:"unit"` // cents, subscribers, visitors
	Points []Point `json:"points"`
	Total  int64   `json:"total"`
}

// Point is one of its stretches of time.
type Point struct {
	At    Stamp `json:"at"`
	Value int64 `json:"value"`
}
