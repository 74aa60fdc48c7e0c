package money_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// sums holds the totals of the listed transactions of a span, in cents.
type sums struct {
	gross, net int64
	byType     map[string]int64 // net
}

func listed(t *testing.T, c *sandboxtest.Client, from, to time.Time) sums {
	t.Helper()
	s := sums{byType: map[string]int64{}}
	query := "&from=" + from.Format(time.RFC3339) + "&to=" + to.Format(time.RFC3339)
	for _, one := range c.All("/earnings/transactions?limit=100" + query) {
		if one["state"] == "reversed" {
			continue
		}
		gross, fee, net := cents(t, one["amount"]), cents(t, one["fee"]), cents(t, one["net"])
		if gross != fee+net {
			t.Fatalf("transaction %v: %d is not %d plus %d", one["id"], gross, fee, net)
		}
		s.gross += gross
		s.net += net
		s.byType[one["kind"].(string)] += net
	}
	return s
}

func TestChartStatementOverviewAndTransactionsOfASpanAgree(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	p.Order(login, "money.received", fanaction.Input{})
	p.Order(login, "money.charged_back", fanaction.Input{})
	c.Must("POST", "/payouts", map[string]any{"amount": 123.45})
	today := p.World.Now().Truncate(24 * time.Hour)
	for _, span := range [][2]int{{400, 0}, {30, 0}, {0, 0}, {97, 41}, {8, 6}, {3, 9}, {0, -20}} {
		from, to := today.AddDate(0, 0, -span[0]), today.AddDate(0, 0, -span[1])
		want := listed(t, c, from, to.Add(24*time.Hour-time.Second))
		query := dates(p, span[0], span[1])
		for _, by := range []string{"hour", "day", "week", "month"} {
			chart := c.Must("GET", "/earnings/chart?"+query+"&by="+by, nil)
			var points int64
			for _, point := range chart.Get("points").([]any) {
				points += number(t, point.(map[string]any)["value"])
			}
			if total := number(t, chart.Get("total")); total != want.net || points != want.net {
				t.Errorf("%s by %s: chart %d, its points %d, transactions %d", query, by, total, points, want.net)
			}
		}
		for _, kind := range []string{"subscription", "tip", "message", "post", "stream", "referral"} {
			if got := number(t, c.Must("GET", "/earnings/chart?"+query+"&kind="+kind, nil).Get("total")); got != want.byType[kind] {
				t.Errorf("%s, %s: chart %d, transactions %d", query, kind, got, want.byType[kind])
			}
		}
		statement := c.Must("GET", "/earnings/statement?"+query, nil)
		overview := c.Must("GET", "/statistics/overview?"+query, nil)
		for what, got := range map[string]any{"statement": statement.Get("net"), "overview": overview.Get("net")} {
			if cents(t, got) != want.net {
				t.Errorf("%s: %s %v, transactions %d cents", query, what, got, want.net)
			}
		}
		checkStatement(t, statement, want)
	}
}

func TestAPointOfAChartHasTheMoneyOfItsOwnDays(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	for _, by := range []string{"day", "week", "month"} {
		chart := c.Must("GET", "/earnings/chart?"+dates(p, 75, 10)+"&by="+by, nil)
		points := chart.Get("points").([]any)
		if by == "day" && len(points) != 66 {
			t.Fatalf("a chart of %d days has %d points", 66, len(points))
		}
		for i := range points[1:] {
			from, to := chart.Text("points", i, "at")[:10], chart.Text("points", i+1, "at")[:10]
			next, err := time.Parse(time.DateOnly, to)
			sandboxtest.OK(t, err)
			own := c.Must("GET", "/earnings/chart?from="+from+"&to="+next.AddDate(0, 0, -1).Format(time.DateOnly), nil)
			if chart.Get("points", i, "value") != own.Get("total") {
				t.Errorf("by %s: the point of %s has %v, the total of its days is %v", by, from, chart.Get("points", i, "value"), own.Get("total"))
			}
			if by == "week" && i > 0 && next.Weekday() != time.Monday || by == "month" && next.Day() != 1 {
				t.Errorf("a %s starts on %s", by, to)
			}
		}
	}
}

func checkStatement(t *testing.T, s sandboxtest.Answer, want sums) {
	t.Helper()
	value := func(name string) int64 { return cents(t, s.Get(name)) }
	if got := value("opening") + value("gross") - value("fees") - value("payouts"); got != value("closing") {
		t.Errorf("%s: the statement closes at %d, its lines add up to %d", s.Text("from"), value("closing"), got)
	}
	if value("gross") != want.gross {
		t.Errorf("%s: gross is %d, transactions %d", s.Text("from"), value("gross"), want.gross)
	}
	var gross, fee, net int64
	for i := range s.Get("lines").([]any) {
		gross += cents(t, s.Get("lines", i, "gross"))
		fee += cents(t, s.Get("lines", i, "fee"))
		net += cents(t, s.Get("lines", i, "net"))
	}
	if gross != value("gross") || fee != value("fees") || net != value("net") {
		t.Errorf("%s: the lines add up to %d, %d, %d", s.Text("from"), gross, fee, net)
	}
}

func TestAStatementClosesWhereTheNextOpensAndTheLastAtTheBalance(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	last := int64(0)
	for _, span := range [][2]int{{400, 301}, {300, 100}, {99, 30}, {29, 0}} {
		s := c.Must("GET", "/earnings/statement?"+dates(p, span[0], span[1]), nil)
		if opening := cents(t, s.Get("opening")); opening != last {
			t.Errorf("%s opens at %d, the previous one closed at %d", s.Text("from"), opening, last)
		}
		last = cents(t, s.Get("closing"))
	}
	b := c.Must("GET", "/earnings/balance", nil)
	if available, pending := cents(t, b.Get("available")), cents(t, b.Get("pending")); available+pending != last || available <= 0 || pending <= 0 {
		t.Errorf("available %d and pending %d, the last statement closed at %d", available, pending, last)
	}
}

func TestMoneyIsHeldForAWeek(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	p.Order(login, "money.received", fanaction.Input{Amount: 10_000})
	tx := c.Frame("money.received")["transaction"].(map[string]any)
	path := "/earnings/transactions/" + fmt.Sprint(tx["id"])
	if got := c.Must("GET", path, nil).Text("state"); got != "pending" {
		t.Fatalf("a new transaction is %s", got)
	}
	before := c.Must("GET", "/earnings/balance", nil)
	p.Advance(7*24*time.Hour - time.Hour)
	c = p.SignIn(login)
	if got := c.Must("GET", path, nil).Text("state"); got != "pending" {
		t.Fatalf("after less than a week the transaction is %s", got)
	}
	p.Advance(2 * time.Hour)
	c = p.SignIn(login)
	if got := c.Must("GET", path, nil).Text("state"); got != "done" {
		t.Fatalf("after a week the transaction is %s", got)
	}
	held := cents(t, before.Get("pending"))
	gained := cents(t, c.Must("GET", "/earnings/balance", nil).Get("available")) - cents(t, before.Get("available"))
	if gained != held {
		t.Fatalf("%d of %d held became available", gained, held)
	}
}

func TestAChargebackTakesThePaymentOutOfEverySum(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	chargebacks := len(c.All("/earnings/chargebacks?limit=100"))
	if ratio := c.Must("GET", "/earnings/chargebacks/ratio", nil); number(t, ratio.Get("count")) != int64(chargebacks) || chargebacks == 0 {
		t.Fatalf("%d chargebacks are listed, the ratio is %v", chargebacks, ratio.Body)
	}
	old := c.Must("GET", "/earnings/transactions?kind=post&state=done", nil)
	id, user, gross := old.Get("list", 0, "id"), old.Get("list", 0, "user", "id"), cents(t, old.Get("list", 0, "amount"))
	net := cents(t, old.Get("list", 0, "net"))
	before := c.Must("GET", "/earnings/balance", nil)
	spent := spending(t, p, number(t, user))
	p.Order(login, "money.charged_back", fanaction.Input{Ref: number(t, id)})
	if got := c.Frame("money.charged_back")["chargeback"].(map[string]any); got["transaction_id"] != id || cents(t, got["amount"]) != gross {
		t.Fatalf("the frame has %v", got)
	}
	if got := cents(t, before.Get("available")) - cents(t, c.Must("GET", "/earnings/balance", nil).Get("available")); got != net {
		t.Errorf("the balance fell by %d, want %d", got, net)
	}
	if got := spent - spending(t, p, number(t, user)); got != gross {
		t.Errorf("the fan's spending fell by %d, want %d", got, gross)
	}
	if list := c.All("/earnings/chargebacks?limit=100"); len(list) != chargebacks+1 || list[0]["transaction_id"] != id {
		t.Errorf("%d chargebacks, the latest is %v", len(list), list[0])
	}
	if err := p.TryOrder(login, "money.charged_back", fanaction.Input{Ref: number(t, id)}); err == nil {
		t.Error("a payment was charged back twice")
	}
}

// spending returns a fan's total spending in cents.
func spending(t *testing.T, p *sandboxtest.Platform, person int64) (total int64) {
	t.Helper()
	p.Visit(login, func(c *world.Creator) {
		total = c.Spent(person).Total
	})
	return total
}

func TestTransactionsAreFilteredByFanAndKind(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	p.Order(login, "money.received", fanaction.Input{})
	fan := row.SeedID(c.Session.Owner, row.KindPerson, 1)
	for _, one := range c.All(fmt.Sprintf("/earnings/transactions?limit=100&user_id=%d&kind=tip", fan)) {
		if user := one["user"].(map[string]any); number(t, user["id"]) != fan || one["kind"] != "tip" {
			t.Fatalf("asked for tips of %d, got %v", fan, one)
		}
	}
	c.Refuse(404, "GET", "/earnings/transactions?user_id=12", nil)
	if list := c.All("/earnings/referrals?limit=100"); len(list) != 13 {
		t.Fatalf("%d referrals, want the 12 of the seed and the new one", len(list))
	}
}
