package money_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func available(t *testing.T, c *sandboxtest.Client) int64 {
	t.Helper()
	return cents(t, c.Must("GET", "/earnings/balance", nil).Get("available"))
}

func TestNoSeededPayoutWasMoreThanWasAvailableThen(t *testing.T) {
	t.Parallel()
	p := platform(t)
	for _, login := range []string{login, "sms@sandbox.test", "ok+7@sandbox.test"} {
		p.Visit(login, func(c *world.Creator) { checkPayouts(t, c) })
	}
}

// checkPayouts compares each payout with the balance that was available at its time.
func checkPayouts(t *testing.T, c *world.Creator) {
	t.Helper()
	var gone int64
	states := map[string]int{}
	for _, one := range c.Payouts().All() {
		var cleared int64
		for _, tx := range c.Txs().All() {
			if !tx.At.Add(7*24*time.Hour).After(one.At) && (tx.Reversed.IsZero() || tx.Reversed.After(one.At)) {
				cleared += tx.Net()
			}
		}
		if one.Amount > cleared-gone {
			t.Errorf("%d was paid out on %s, %d was available", one.Amount, one.At, cleared-gone)
		}
		if states[one.Status]++; one.Status == "paid" {
			gone += one.Amount
		}
	}
	if states["paid"] < 8 || states["failed"] != 1 || states["canceled"] != 1 {
		t.Errorf("payouts by state: %v", states)
	}
}

func TestAPayoutIsCancelledOnceOrPaid(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	before := available(t, c)
	made := c.Must("POST", "/payouts", map[string]any{"amount": 50.5})
	for range 2 {
		c.Must("POST", "/payouts/"+made.Text("id")+"/cancel", nil)
	}
	if got := available(t, c); got != before {
		t.Fatalf("%d is available after cancelling twice, before it was %d", got, before)
	}
	second := c.Must("POST", "/payouts", map[string]any{"amount": 20})
	p.Advance(2 * time.Minute)
	if paid := c.Frame("payout.paid")["payout"].(map[string]any); paid["id"] != second.Get("id") || paid["paid_at"] == nil {
		t.Fatalf("the paid payout is %v", paid)
	}
	if list := c.All("/payouts?limit=100&state=paid"); list[0]["id"] != second.Get("id") {
		t.Fatal("the list of paid payouts does not start with the new one")
	}
	c.Refuse(409, "POST", "/payouts/"+second.Text("id")+"/cancel", nil)
	for amount, status := range map[float64]int{19.99: 422, float64(before) / 100: 409} {
		c.Refuse(status, "POST", "/payouts", map[string]any{"amount": amount})
	}
}

func TestWhoHasTooLittleIsNotEligible(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	if got := c.Must("GET", "/payouts/eligibility", nil); got.Get("is_eligible") != true {
		t.Fatalf("with a full balance: %v", got.Body)
	}
	c.Must("POST", "/payouts", map[string]any{"amount": float64(available(t, c)) / 100})
	got := c.Must("GET", "/payouts/eligibility", nil)
	if got.Get("is_eligible") != false || got.Text("reasons", 0) != "balance_pending" {
		t.Fatalf("with an empty balance: %v", got.Body)
	}
}

func TestAScheduleTakesOutWhatThereIs(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	c.Must("PUT", "/payouts/schedule", map[string]any{"interval": "weekly"})
	c.Must("PUT", "/payouts/schedule", map[string]any{"interval": "manual"})
	set := c.Must("PUT", "/payouts/schedule", map[string]any{"interval": "daily"})
	if again := c.Must("PUT", "/payouts/schedule", map[string]any{"interval": "daily"}); again.Text("next_at") != set.Text("next_at") {
		t.Fatal("setting the same schedule moved it")
	}
	p.Advance(34*time.Hour + time.Minute)
	asked := c.Frame("payout.requested")["payout"].(map[string]any)
	c = p.SignIn(login)
	if got := available(t, c); got < 0 || got >= 2000 {
		t.Fatalf("%d is left after a payout of %v", got, asked["amount"])
	}
	if got := c.Must("GET", "/payouts/schedule", nil).Text("next_at"); got <= set.Text("next_at") {
		t.Fatalf("the next payout is at %s, the last was due at %s", got, set.Text("next_at"))
	}
	if n := len(c.All("/payouts/methods?limit=100")); n != 2 {
		t.Fatalf("%d methods", n)
	}
	if tax := c.Must("GET", "/payouts/tax", nil); tax.Text("status") != "approved" {
		t.Fatal(fmt.Sprint(tax.Body))
	}
}
