package people_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const login = "ok@sandbox.test"

func path(format string, ids ...any) string { return fmt.Sprintf(format, ids...) }

func TestNobodyComesFromABlockedCountry(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	blocked := []string{"US", "GB", "DE", "CA", "AU", "FR", "NL", "BR", "MX", "SE", "IT"}
	c.Must("PUT", "/settings/blocked_countries", map[string]any{"countries": blocked})
	for range 3 {
		p.Order(login, "fan.joined", fanaction.Input{})
		id := sandboxtest.Number(t, c.Frame("fan.joined")["user"].(map[string]any)["id"])
		p.Visit(login, func(creator *world.Creator) {
			if country := creator.People().Get(id).Country; country != "ES" {
				t.Errorf("a newcomer is from %s", country)
			}
		})
	}
	c.Must("PUT", "/settings/blocked_countries", map[string]any{"countries": append(blocked, "ES")})
	if p.TryOrder(login, "fan.joined", fanaction.Input{}) == nil {
		t.Error("a newcomer joined although all countries are blocked")
	}
}

func TestSomebodySubscribesLeavesAndComesBack(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	p.Visit(login, func(creator *world.Creator) {
		s := creator.Settings()
		s.WelcomeOn, s.WelcomeText = true, "Welcome, you!"
		creator.SaveSettings()
	})
	stranger := c.Person(2050)
	fan := path("/fans/%d", stranger)
	c.Refuse(http.StatusNotFound, "GET", fan, nil)
	p.Order(login, "fan.joined", fanaction.Input{User: stranger})
	if f := c.Frame("money.received")["transaction"].(map[string]any); path("%v %v", f["kind"], f["amount"]) != "subscription 9.99" {
		t.Fatalf("the money: %v", f)
	}
	if f := c.Frame("fan.joined"); path("%v %v %v", f["price"], f["type"], f["months"]) != "9.99 regular 1" {
		t.Fatalf("the frame: %v", f)
	}
	c.Frame("notice.new")
	if f := c.Frame("chat.message_sent"); f["origin"] != "auto" || f["message"].(map[string]any)["text"] != "Welcome, you!" {
		t.Fatalf("the welcome: %v", f)
	}
	if got := c.Must("GET", fan, nil); path("%v %v", got.Get("status"), got.Get("spent_total")) != "active 9.99" {
		t.Fatalf("the fan: %v", got.Body)
	}
	if got := c.Must("GET", "/fans/latest?type=new", nil).Text("list", 0, "user", "id"); got != fmt.Sprint(stranger) {
		t.Fatalf("the latest fan is %s", got)
	}
	if got := c.Must("GET", "/me", nil).Text("subscribers_count"); got != "1401" {
		t.Fatalf("%s subscribers, want 1401", got)
	}
	p.Order(login, "fan.left", fanaction.Input{User: stranger})
	if f := c.Frame("fan.left"); path("%v", f["spent_total"]) != "9.99" {
		t.Fatalf("the frame: %v", f)
	}
	if got := c.Must("GET", fan, nil).Text("status"); got != "expired" {
		t.Fatalf("a fan who left is %s", got)
	}
	c.Must("PUT", fan+"/discount", map[string]any{"percent": 50})
	p.Order(login, "fan.returned", fanaction.Input{User: stranger})
	if f := c.Frame("fan.returned"); path("%v %v", f["price"], f["lapsed_days"]) != "4.99 0" {
		t.Fatalf("the frame: %v", f)
	}
	periods := c.Must("GET", fan+"/periods", nil)
	if len(periods.Get("list").([]any)) != 2 || periods.Get("list", 0, "ended_at") != nil || periods.Get("list", 1, "ended_at") == nil {
		t.Fatalf("periods: %v", periods.Body)
	}
	if got := c.Must("GET", fan+"/spending", nil); got.Text("subscriptions") != "14.98" {
		t.Fatalf("spent: %v", got.Body)
	}
}

func TestAFanIsFoundByTheAliasAndADiscountEnds(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	fan := path("/fans/%d", c.Person(1))
	c.Must("PUT", fan+"/alias", map[string]any{"alias": "Iris Quokka"})
	c.Must("PUT", fan+"/discount", map[string]any{"percent": 20, "expires_at": p.World.Now().Add(time.Hour)})
	found := c.All("/fans?status=all&q=quokka")
	if len(found) != 1 || path("%v", found[0]["discount"].(map[string]any)["percent"]) != "20" {
		t.Fatalf("found: %v", found)
	}
	p.Advance(2 * time.Hour)
	if got := c.Must("GET", fan, nil); got.Get("discount") != nil {
		t.Fatalf("an expired discount: %v", got.Body)
	}
}

// The list of top fans, the spending of each fan and the transactions agree.
func TestWhatFansSpentAddsUp(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	p.Order(login, "fan.tip", fanaction.Input{User: c.Person(1), Amount: 12345})
	to := p.World.Now()
	for _, from := range []time.Time{{}, to.AddDate(0, -2, 0)} {
		want := map[int64]world.Spend{}
		p.Visit(login, func(creator *world.Creator) {
			for _, tx := range creator.Txs().All() {
				if tx.Person != 0 && tx.Status != "reversed" && !tx.At.Before(from.Truncate(24*time.Hour)) {
					s := want[tx.Person]
					s.Add(tx)
					want[tx.Person] = s
				}
			}
		})
		span := ""
		if !from.IsZero() {
			span = path("&from=%s&to=%s", from.Format(time.DateOnly), to.Format(time.DateOnly))
		}
		last := int64(1) << 60
		top := c.All("/fans/top?limit=100&by=total" + span)
		for _, one := range top {
			id, total := sandboxtest.Number(t, one["user"].(map[string]any)["id"]), sandboxtest.Cents(t, one["total"])
			if s := want[id]; total != s.Total || sandboxtest.Cents(t, one["tips"]) != s.Tips || total > last {
				t.Errorf("fan %d: %v, want %+v, after one with %d", id, one, s, last)
			}
			last = total
		}
		if len(top) != len(want) {
			t.Fatalf("%d fans paid, want %d", len(top), len(want))
		}
		one := c.Must("GET", path("/fans/%d/spending?x=1%s", c.Person(1), span), nil)
		if sandboxtest.Cents(t, one.Get("total")) != want[c.Person(1)].Total {
			t.Fatalf("fan 1: %v, want %+v", one.Body, want[c.Person(1)])
		}
	}
}

func TestATipGoesToWhatItIsFor(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	message := c.Must("POST", path("/chats/%d/messages", c.Person(1)), map[string]any{"text": "Look!"})
	for kind, ref := range map[string]int64{
		"profile": 0, "message": sandboxtest.Number(t, message.Get("id")), "post": row.SeedID(c.Session.Owner, row.KindPost, 1), "stream": row.SeedID(c.Session.Owner, row.KindStream, 1),
	} {
		p.Order(login, "fan.tip", fanaction.Input{User: c.Person(1), Ref: ref, Amount: 700})
		f := c.Frame("fan.tip")
		target := f["target"].(map[string]any)
		if path("%v %v %v", target["type"], f["amount"], f["net"]) != kind+" 7 5.6" || (ref != 0 && fmt.Sprint(target["id"]) != fmt.Sprint(ref)) {
			t.Errorf("%s: %v", kind, f)
		}
	}
	got := c.Must("GET", path("/chats/%d/messages", c.Person(1)), nil)
	if got.Get("list", 0, "is_tip") != true || got.Text("list", 0, "tip", "amount") != "7" || got.Text("list", 0, "reply_to_id") != message.Text("id") {
		t.Fatalf("the tip for a message: %v", got.Get("list", 0))
	}
}

func TestBlockingEndsTheRenewalAndARestrictedUserCannotWrite(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	fan := c.Person(1)
	c.Must("PUT", path("/users/%d/block", fan), nil)
	if f := c.Frame("fan.rebill_changed"); f["is_rebill_on"] != false {
		t.Fatalf("the frame: %v", f)
	}
	c.Must("DELETE", path("/users/%d/block", fan), nil)
	c.Must("PUT", path("/users/%d/restriction", fan), nil)
	for _, what := range []string{"chat.message", "fan.tip"} {
		if p.TryOrder(login, what, fanaction.Input{User: fan}) == nil {
			t.Errorf("%s by a restricted user was accepted", what)
		}
	}
	c.Must("DELETE", path("/users/%d/restriction", fan), nil)
	p.Order(login, "chat.message", fanaction.Input{User: fan})
}

func TestInvalidChangesAreRefused(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn("sms-face@sandbox.test")
	c.Refuse(http.StatusForbidden, "PUT", path("/users/%d/follow", c.Person(2042)), nil) // not a creator
	c.Refuse(http.StatusUnprocessableEntity, "PATCH", "/me", map[string]any{"avatar_id": 1})
	if got := c.Must("GET", "/me", nil).Get("two_factor"); path("%v", got) != "map[face:true otp:false sms:true]" {
		t.Errorf("two-factor methods: %v", got)
	}
}
