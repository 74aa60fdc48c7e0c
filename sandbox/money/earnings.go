package money

import (
	"math"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const currency = "USD"

// types lists the kinds of transactions in the order of a statement.
var types = []string{"subscription", "bundle", "tip", "message", "post", "stream", "referral"}

func earningRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /earnings/balance", Handle: getBalance},
		{Pattern: "GET /earnings/transactions", Handle: transactions},
		{Pattern: "GET /earnings/transactions/{transaction_id}", Handle: transaction},
		{Pattern: "GET /earnings/chart", Handle: wire.On(days, chart)},
		{Pattern: "GET /earnings/statement", Handle: wire.On(days, statement)},
		{Pattern: "GET /earnings/chargebacks", Handle: chargebacks},
		{Pattern: "GET /earnings/chargebacks/ratio", Handle: chargebackRatio},
		{Pattern: "GET /earnings/referrals", Handle: referrals},
	}
}

// counts reports whether a transaction counts as income. A charged-back transaction does not, not even before its
// chargeback.
func counts(t *row.Tx) bool { return t.Status != "reversed" }

// leaves reports whether a payout reduces the balance.
func leaves(p *row.Payout) bool { return p.Status == "pending" || p.Status == "paid" }

// balance returns the amounts in cents that can be paid out now and that are still held.
func balance(c *world.Creator) (available, pending int64) {
	now := c.Now()
	for _, t := range c.Txs().All() {
		switch view.TxState(t, now) {
		case "done":
			available += t.Net()
		case "pending":
			pending += t.Net()
		}
	}
	for _, p := range c.Payouts().All() {
		if leaves(p) {
			available -= p.Amount
		}
	}
	return available, pending
}

func getBalance(c *wire.Call) (any, error) {
	available, pending := balance(c.Creator)
	return struct {
		Available view.Dollars `json:"available"`
		Pending   view.Dollars `json:"pending"`
		Currency  string       `json:"currency"`
		Minimum   view.Dollars `json:"min_payout"`
	}{view.Dollars(available), view.Dollars(pending), currency, minPayout}, nil
}

func transactions(c *wire.Call) (any, error) {
	in, kind, state, person := span(c), c.Query("kind"), c.Query("state"), c.QueryID("user_id")
	if c.Query("user_id") != "" {
		if _, err := c.PersonByID(person); err != nil {
			return nil, err
		}
	}
	now := c.Now()
	rows := wire.Filter(c.Txs().All(), func(t *row.Tx) bool {
		return in.Has(t.At) && (kind == "" || kind == t.Type) && (person == 0 || person == t.Person) &&
			(state == "" || state == view.TxState(t, now))
	})
	return wire.Page(c, rows, byTime, func(t *row.Tx) any { return view.CurrentTx(c.Creator, t) })
}

// byTime sorts transactions by time, latest first.
var byTime = wire.Order[*row.Tx]{Rank: func(t *row.Tx) int64 { return t.At.UnixMilli() }}

func transaction(c *wire.Call) (any, error) {
	t, err := wire.Found("transaction", c.Txs().Get(c.ID("transaction_id")))
	if err != nil {
		return nil, err
	}
	return view.CurrentTx(c.Creator, t), nil
}

// chart returns the net income. Bundles count as subscriptions, so that the types add up to the total.
func chart(c *wire.Call, in wire.Span) (any, error) {
	kind := c.Query("kind")
	return series(c.Creator, in, c.Query("by"), "cents", func(add func(time.Time, int64)) {
		for _, t := range c.Txs().All() {
			if counts(t) && (kind == "" || kind == "total" || kind == t.Type || (kind == "subscription" && t.Type == "bundle")) {
				add(t.At, t.Net())
			}
		}
	}), nil
}

// statementLine sums up the transactions of one type.
type statementLine struct {
	Type  string       `json:"kind"`
	Count int          `json:"count"`
	Gross view.Dollars `json:"gross"`
	Fee   view.Dollars `json:"fee"`
	Net   view.Dollars `json:"net"`
}

func (l *statementLine) add(t *row.Tx) {
	l.Count++
	l.Gross += view.Dollars(t.Gross)
	l.Fee += view.Dollars(t.Fee())
	l.Net += view.Dollars(t.Net())
}

// statementView is a statement of the creator's account: opening + gross - fees - payouts = closing.
type statementView struct {
	From        string          `json:"from"`
	To          string          `json:"to"`
	Currency    string          `json:"currency"`
	Opening     view.Dollars    `json:"opening"`
	Lines       []statementLine `json:"lines"`
	Gross       view.Dollars    `json:"gross"`
	Fees        view.Dollars    `json:"fees"`
	Net         view.Dollars    `json:"net"`
	Payouts     view.Dollars    `json:"payouts"`
	Closing     view.Dollars    `json:"closing"`
	Chargebacks view.Dollars    `json:"charged_back"` // in this span; not included in any of the above
}

func statement(c *wire.Call, in wire.Span) (any, error) {
	s := statementView{From: c.Query("from"), To: c.Query("to"), Currency: currency}
	lines := make([]statementLine, len(types))
	for i, kind := range types {
		lines[i].Type = kind
	}
	var all statementLine
	for _, t := range c.Txs().All() {
		if !counts(t) {
			if in.Has(t.Reversed) {
				s.Chargebacks += view.Dollars(t.Gross)
			}
			continue
		}
		if in.Has(t.At) {
			i := slices.Index(types, t.Type)
			if i < 0 {
				i, lines = len(lines), append(lines, statementLine{Type: t.Type})
			}
			lines[i].add(t)
			all.add(t)
		} else if t.At.Before(in.From) {
			s.Opening += view.Dollars(t.Net())
		}
	}
	for _, p := range c.Payouts().All() {
		if leaves(p) && in.Has(p.At) {
			s.Payouts += view.Dollars(p.Amount)
		} else if leaves(p) && p.At.Before(in.From) {
			s.Opening -= view.Dollars(p.Amount)
		}
	}
	s.Lines, s.Gross, s.Fees, s.Net = lines, all.Gross, all.Fee, all.Net
	s.Closing = s.Opening + s.Gross - s.Fees - s.Payouts
	return s, nil
}

func chargedBack(c *wire.Call, in wire.Span) []*row.Tx {
	return wire.Filter(c.Txs().All(), func(t *row.Tx) bool { return !counts(t) && in.Has(t.Reversed) })
}

func chargebacks(c *wire.Call) (any, error) {
	order := wire.Order[*row.Tx]{Rank: func(t *row.Tx) int64 { return t.Reversed.UnixMilli() }}
	return wire.Page(c, chargedBack(c, span(c)), order, func(t *row.Tx) any { return view.Chargeback(c.Creator, t) })
}

// chargebackRatio returns the share of payments that were charged back, rounded to four decimal places.
func chargebackRatio(c *wire.Call) (any, error) {
	in := span(c)
	count, total, ratio := len(chargedBack(c, in)), 0, 0.0
	for _, t := range c.Txs().All() {
		if in.Has(t.At) {
			total++
		}
	}
	if total > 0 {
		ratio = math.Round(float64(count)/float64(total)*10_000) / 10_000
	}
	return map[string]any{"ratio": ratio, "count": count, "total": total}, nil
}

func referrals(c *wire.Call) (any, error) {
	rows := wire.Filter(c.Txs().All(), func(t *row.Tx) bool { return t.Type == "referral" })
	return wire.Page(c, rows, byTime, func(t *row.Tx) any { return view.Referral(c.Creator, t) })
}
