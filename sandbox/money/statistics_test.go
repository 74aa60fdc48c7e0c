package money_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// total returns the total of a series and checks that its points add up to it.
func total(t *testing.T, c *sandboxtest.Client, path string) int64 {
	t.Helper()
	s := c.Must("GET", path, nil)
	var points int64
	for i := range s.Get("points").([]any) {
		points += number(t, s.Get("points", i, "value"))
	}
	if got := number(t, s.Get("total")); got != points {
		t.Fatalf("%s: the total is %d, the points add up to %d", path, got, points)
	}
	return number(t, s.Get("total"))
}

func TestSubscribersAreCountedFromTheirPeriods(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	query := dates(p, 500, 0)
	kinds := map[string]int64{}
	for _, kind := range []string{"all", "new", "renewed", "lost"} {
		kinds[kind] = total(t, c, "/statistics/subscribers?"+query+"&kind="+kind)
		if by := total(t, c, "/statistics/subscribers?"+query+"&by=month&kind="+kind); by != kinds[kind] {
			t.Errorf("%s: %d by month, %d by day", kind, by, kinds[kind])
		}
	}
	if kinds["all"] != kinds["new"]+kinds["renewed"] || kinds["new"] != 2000 {
		t.Errorf("subscribers: %v, want 2,000 new", kinds)
	}
	o := c.Must("GET", "/statistics/overview?"+query, nil)
	if active := number(t, o.Get("active_subscribers")); active != kinds["new"]-kinds["lost"] || active == 0 {
		t.Errorf("%d are active, %d were new and %d were lost", active, kinds["new"], kinds["lost"])
	}
	if number(t, o.Get("new_subscribers")) != kinds["new"] || number(t, o.Get("renewed_subscribers")) != kinds["renewed"] {
		t.Errorf("overview: %v, series: %v", o.Body, kinds)
	}
	var active, gross int64
	for _, country := range c.All("/statistics/countries?limit=100&" + query) {
		active += number(t, country["active_subscribers"])
		gross += cents(t, country["gross"])
	}
	if active != number(t, o.Get("active_subscribers")) {
		t.Errorf("the countries have %d active subscribers", active)
	}
	var referred int64
	for _, one := range c.All("/earnings/referrals?limit=100") {
		referred += cents(t, one["amount"])
	}
	if gross != cents(t, o.Get("gross"))-referred {
		t.Errorf("the countries paid %d, the total is %v with %d from referrals", gross, o.Get("gross"), referred)
	}
}

func TestANewFanAndALostOneShowInTheStatistics(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	today := "/statistics/subscribers?" + dates(p, 0, 0) + "&kind="
	fresh, gone := total(t, c, today+"new"), total(t, c, today+"lost")
	p.Order(login, "trial.claimed", fanaction.Input{})
	if got := total(t, c, today+"new"); got != fresh+1 {
		t.Errorf("%d new today, before it was %d", got, fresh)
	}
	p.Order(login, "fan.left", fanaction.Input{})
	if got := total(t, c, today+"lost"); got != gone+1 {
		t.Errorf("%d lost today, before it was %d", got, gone)
	}
}

func TestVisitorsOfADayStayTheSame(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	query := "/statistics/visitors?" + dates(p, 30, 1)
	everyone := total(t, c, query)
	if guests, users := total(t, c, query+"&audience=guests"), total(t, c, query+"&audience=users"); guests+users != everyone || users == 0 {
		t.Errorf("%d guests and %d users do not add up to %d", guests, users, everyone)
	}
	p.Advance(36 * time.Hour)
	if got := total(t, p.SignIn(login), query+"&by=week"); got != everyone {
		t.Errorf("a day later the same days have %d visitors, want %d", got, everyone)
	}
	if got := total(t, p.SignIn(login), "/statistics/visitors?"+dates(p, -2, -9)); got != 0 {
		t.Errorf("there are %d visitors in the future", got)
	}
}

func TestTheTopListsAreSortedAndAddUp(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	year := dates(p, 400, 0)
	for path, by := range map[string]string{
		"posts?by=views": "views_count", "posts?by=likes": "likes_count", "posts?by=tips": "tips_sum", "posts?by=earnings": "net",
		"messages?by=earnings": "net", "messages?by=purchases": "purchased_count", "messages?by=views": "viewed_count",
		"stories?by=views": "views_count", "stories?by=likes": "likes_count", "streams?by=earnings": "net", "streams?by=viewers": "viewers_peak",
		"links?kind=tracking": "revenue", "links?kind=trial": "revenue", "links?kind=promotion": "revenue",
	} {
		list := c.Must("GET", "/statistics/top/"+path+"&limit=100&"+year, nil).Get("list").([]any)
		if len(list) < 2 {
			t.Errorf("%s has %d entries", path, len(list))
			continue
		}
		for i := range list[1:] {
			if before, after := list[i].(map[string]any)[by], list[i+1].(map[string]any)[by]; cents(t, before) < cents(t, after) {
				t.Errorf("%s: %v comes before %v", path, before, after)
			}
		}
		if short := c.Must("GET", "/statistics/top/"+path+"&limit=1&"+year, nil).Get("list").([]any); len(short) != 1 {
			t.Errorf("%s: %d entries for a limit of 1", path, len(short))
		}
	}
	var sold int64
	for _, one := range c.All("/statistics/top/messages?limit=100&" + year) {
		sold += cents(t, one["net"])
	}
	var want int64
	p.Visit(login, func(creator *world.Creator) {
		for _, m := range creator.Masses().All() {
			for _, tx := range creator.Paid(m.ID) {
				if tx.Status != "reversed" {
					want += tx.Net()
				}
			}
		}
	})
	if sold != want {
		t.Errorf("mass messages earned %d, their transactions add up to %d", sold, want)
	}
}

func TestHappeningsRefuseWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	p := platform(t)
	for _, bad := range []struct {
		what string
		in   fanaction.Input
	}{
		{"trial.claimed", fanaction.Input{Ref: 1}}, {"link.clicked", fanaction.Input{Ref: 1}}, {"money.charged_back", fanaction.Input{Ref: 1}},
		{"payout.paid", fanaction.Input{Ref: 1}}, {"payout.requested", fanaction.Input{Amount: 100}}, {"money.received", fanaction.Input{Amount: -1}},
	} {
		if p.TryOrder(login, bad.what, bad.in) == nil {
			t.Error(fmt.Sprint(bad.what, " accepted invalid input"))
		}
	}
}
