package messages_test

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

// A recipient without a chat gets the message when the chat is first read. No other chats are created.
func TestAMessageToAllFansIsInEveryChat(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	estimate := c.Must("GET", "/campaigns/estimate", nil).Text("recipients_count")
	made := c.Must("POST", "/campaigns", map[string]any{"text": "To all of you", "price": 9})
	if made.Text("status") != "sending" || made.Text("recipients_count") != estimate {
		t.Fatalf("made: %v", made.Body)
	}
	f := c.Frame("mass.sent")["campaign"].(map[string]any)
	if f["status"] != "done" || fmt.Sprint(f["sent_count"]) != estimate {
		t.Fatalf("the frame: %v, want %s sent", f, estimate)
	}
	campaign := "/campaigns/" + made.Text("id")
	// The first fan has a chat, the 1001st has none.
	for _, n := range []int{1, 1001} {
		got := c.Must("GET", path("/chats/%d/messages", c.Person(n)), nil)
		if got.Text("list", 0, "text") != "To all of you" || got.Text("list", 0, "campaign_id") != made.Text("id") {
			t.Fatalf("person %d: %v", n, got.Get("list", 0))
		}
	}
	c.Refuse(http.StatusNotFound, "GET", path("/chats/%d", c.Person(2045)), nil)
	p.Order(login, "chat.message_bought", fanaction.Input{Ref: sandboxtest.Number(t, made.Get("id")), User: c.Person(1)})
	p.Order(login, "chat.message_seen", fanaction.Input{User: c.Person(1001)})
	stats := c.Must("GET", campaign+"/statistics", nil)
	if got := path("%v %v %v %v", stats.Get("viewed_count"), stats.Get("purchased_count"), stats.Get("gross"), stats.Get("net")); got != "1 1 9 7.2" {
		t.Fatalf("statistics: %v", stats.Body)
	}
	if got := c.Must("GET", campaign+"/buyers", nil); got.Text("list", 0, "buyer", "id") != fmt.Sprint(c.Person(1)) || got.Get("list", 1) != nil {
		t.Fatalf("buyers: %v", got.Body)
	}

	c.Must("POST", campaign+"/withdraw", nil)
	c.Frame("chat.message_removed")
	if got := c.Must("GET", campaign, nil).Text("status"); got != "withdrawn" {
		t.Fatalf("the status after withdrawal is %s", got)
	}
	for n, want := range map[int]bool{1: true, 2: false, 1001: false, 1002: false} {
		got := c.Do("GET", path("/chats/%d/messages", c.Person(n)), nil)
		if has := got.Text("list", 0, "text") == "To all of you"; has != want {
			t.Errorf("person %d has the message: %v, want %v", n, has, want)
		}
	}
}

func TestListsSayToWhomAMessageGoes(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	list := func(n int) int64 { return row.SeedID(c.Session.Owner, row.KindList, n) }
	count := func(query string, ids ...any) int64 {
		got := c.Must("GET", "/campaigns/estimate?"+path(query, ids...), nil)
		return sandboxtest.Number(t, got.Get("recipients_count"))
	}
	fans := count("to_lists=%d", list(1))
	vip := sandboxtest.Number(t, c.Must("GET", path("/lists/%d", list(7)), nil).Get("users_count"))
	if fans != 1400 {
		t.Fatalf("%d fans, want 1400", fans)
	}
	// Everyone on the list is or was a fan. Blocked people receive nothing.
	blocked := count("to_lists=%d&to_lists=%d&to_lists=%d", list(1), list(2), list(7)) - count("to_lists=%d&to_lists=%d", list(1), list(2))
	if got := count("to_lists=%d", list(7)); got > vip || blocked != 0 {
		t.Fatalf("%d of %d on the list, %d of them on no other list", got, vip, blocked)
	}
	if got := count("to_lists=%d&not_to_lists=%d", list(1), list(1)); got != 0 {
		t.Fatalf("%d recipients although the list is also excluded", got)
	}
	if got := count("to_users=%d&to_users=%d", c.Person(1), c.Person(2)); got != 2 {
		t.Fatalf("%d of two users are recipients", got)
	}
	c.Must("PUT", path("/users/%d/block", c.Person(2)), nil)
	if got := count("to_users=%d&to_users=%d", c.Person(1), c.Person(2)); got != 1 {
		t.Fatalf("%d of two users are recipients, and one is blocked", got)
	}
	c.Refuse(http.StatusNotFound, "POST", "/campaigns", map[string]any{"to_lists": []int64{1}})
}

func TestAScheduledMessageWaitsForItsTime(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	at := p.World.Now().Add(2 * time.Hour)
	send := func(text string) string {
		return "/campaigns/" + c.Must("POST", "/campaigns", map[string]any{
			"text": text, "to_users": []int64{c.Person(1)}, "publish_at": at, "withdraw_after": 3600,
		}).Text("id")
	}
	first, second := send("Soon"), send("Never")
	if got := c.Must("PATCH", first, map[string]any{"text": "Now", "publish_at": at.Add(time.Hour)}); got.Text("status") != "planned" || got.Text("text") != "Now" {
		t.Fatalf("changed: %v", got.Body)
	}
	c.Must("DELETE", second, nil)
	p.Advance(2*time.Hour + time.Minute)
	if got := c.Must("GET", first, nil).Text("status"); got != "planned" {
		t.Fatalf("the status before its new time is %s", got)
	}
	p.Advance(time.Hour)
	c.Frame("queue.published")
	if f := c.Frame("chat.message_sent"); f["origin"] != "bulk" {
		t.Fatalf("the frame: %v", f)
	}
	c.Frame("mass.sent")
	frames := c
	c = p.SignIn(login) // the session's token has rotated
	c.Refuse(http.StatusConflict, "PATCH", first, map[string]any{"text": "Too late"})
	if got := c.Must("GET", second, nil); got.Text("status") != "withdrawn" || got.Text("sent_count") != "0" {
		t.Fatalf("the cancelled message: %v", got.Body)
	}
	p.Advance(time.Hour)
	frames.Frame("chat.message_removed")
	c = p.SignIn(login)
	if got := c.Must("GET", path("/chats/%d/messages", c.Person(1)), nil).Text("list", 0, "text"); got == "Now" {
		t.Fatal("the message was not withdrawn automatically")
	}
}

// A scheduled message of the seed is sent at its time like any other.
func TestTheSeedsScheduledMessageIsSent(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	p.Visit(login, func(creator *world.Creator) {
		for _, one := range creator.People().All() { // otherwise thousands of renewal frames would come first
			one.Sub, one.Follow = nil, nil
			creator.People().Put(one)
		}
	})
	p.Advance(46 * 24 * time.Hour)
	f := c.Frame("mass.sent")["campaign"].(map[string]any)
	if want := row.SeedID(c.Session.Owner, row.KindMass, 25); fmt.Sprint(f["id"]) != fmt.Sprint(want) {
		t.Fatalf("sent: %v, want %d", f["id"], want)
	}
}

func TestTheChartAddsUpToTheStatistics(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	var sent, viewed, purchased, net int64
	for _, one := range c.All("/campaigns?limit=7") {
		stats := c.Must("GET", path("/campaigns/%v/statistics", one["id"]), nil)
		sent += sandboxtest.Number(t, stats.Get("sent_count"))
		viewed += sandboxtest.Number(t, stats.Get("viewed_count"))
		purchased += sandboxtest.Number(t, stats.Get("purchased_count"))
		net += sandboxtest.Cents(t, stats.Get("net"))
	}
	if purchased == 0 {
		t.Fatal("there are no purchases")
	}
	for metric, want := range map[string]int64{"sent": sent, "viewed": viewed, "purchased": purchased, "earnings": net} {
		for _, by := range []string{"day", "week", "month"} {
			got := c.Must("GET", "/campaigns/chart?from=2000-01-01&to=2099-12-31&by="+by+"&metric="+metric, nil)
			var sum int64
			for i := range got.Get("points").([]any) {
				sum += sandboxtest.Number(t, got.Get("points", i, "value"))
			}
			if total := sandboxtest.Number(t, got.Get("total")); total != want || sum != want {
				t.Errorf("%s by %s: total %d, sum %d, want %d", metric, by, total, sum, want)
			}
		}
	}
}

func BenchmarkAMessageToAllFans(b *testing.B) {
	p := sandboxtest.New(b, nil)
	for b.Loop() {
		p.Order(login, "mass.sent", fanaction.Input{})
	}
}
