package money_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func TestEverySourceOfAFanIsALinkOrPromotionThatWasThere(t *testing.T) {
	t.Parallel()
	p := platform(t)
	p.Visit(login, func(c *world.Creator) {
		made := map[int64]time.Time{}
		for _, l := range append(append([]*row.Link{}, c.TrackingLinks().All()...), c.TrialLinks().All()...) {
			made[l.ID] = l.At
		}
		for _, one := range c.Promotions().All() {
			made[one.ID] = one.Starts
		}
		came := map[int64]int{}
		for _, who := range c.People().All() {
			if who.Sub == nil || who.Sub.SourceID == 0 {
				continue
			}
			came[who.Sub.SourceID]++
			if at, ok := made[who.Sub.SourceID]; !ok || at.After(who.Sub.Since) {
				t.Fatalf("%s subscribed on %s through %s %d, which was created on %s", who.Username, who.Sub.Since, who.Sub.SourceKind, who.Sub.SourceID, at)
			}
		}
		if len(came) != len(made) {
			t.Fatalf("%d of %d links and promotions have subscribers", len(came), len(made))
		}
	})
}

func TestALinksNumbersAreThoseOfWhomItBrought(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	for _, path := range []string{"/tracking_links", "/trial_links"} {
		for _, l := range c.All(path + "?limit=100&state=all") {
			one := path + "/" + fmt.Sprint(l["id"])
			if fans := c.All(one + "/subscribers?limit=100"); int64(len(fans)) != number(t, l["subscribers_count"]) {
				t.Errorf("%s has %d subscribers, its count is %v", one, len(fans), l["subscribers_count"])
			}
			var spent int64
			for _, s := range c.All(one + "/spenders?limit=100") {
				spent += cents(t, s["total"])
			}
			if spent != cents(t, l["revenue"]) {
				t.Errorf("%s: its fans spent %d, its revenue is %v", one, spent, l["revenue"])
			}
			if number(t, l["clicks_count"]) < number(t, l["subscribers_count"]) {
				t.Errorf("%s: more subscribers than clicks", one)
			}
			early := c.Must("GET", one+"/stats?"+dates(p, 400, 61), nil)
			late := c.Must("GET", one+"/stats?"+dates(p, 60, 0), nil)
			for _, name := range []string{"clicks_count", "subscribers_count"} {
				if number(t, early.Get(name))+number(t, late.Get(name)) != number(t, l[name]) {
					t.Errorf("%s: %s is %v early and %v late, %v in total", one, name, early.Get(name), late.Get(name), l[name])
				}
			}
			if cents(t, early.Get("revenue"))+cents(t, late.Get("revenue")) != spent {
				t.Errorf("%s: revenue is %v early and %v late", one, early.Get("revenue"), late.Get("revenue"))
			}
		}
	}
}

func TestATrackingLinkLivesFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	running := len(c.All("/tracking_links?limit=100&state=running"))
	if ended := len(c.All("/tracking_links?limit=100&state=finished")); running != 5 || ended != 1 {
		t.Fatalf("%d are running, %d have ended", running, ended)
	}
	made := c.Must("POST", "/tracking_links", map[string]any{"title": "Tour", "tags": []string{"a"}})
	one := "/tracking_links/" + made.Text("id")
	if list := c.All("/tracking_links?limit=100&state=running&sort=newest"); list[0]["id"] != made.Get("id") || len(list) != running+1 {
		t.Fatal("the list does not start with the new link")
	}
	p.Order(login, "link.clicked", fanaction.Input{Ref: number(t, made.Get("id")), Count: 3})
	if f := c.Frame("link.clicked"); f["link_id"] != made.Get("id") || f["kind"] != "tracking" || number(t, f["clicks_count"]) != 3 {
		t.Fatalf("the frame has %v", f)
	}
	if list := c.All("/tracking_links?limit=100&state=all&sort=clicks"); list[len(list)-1]["id"] != made.Get("id") {
		t.Fatal("the link with the fewest clicks is not last")
	}
	if got := c.Must("PATCH", one, map[string]any{"tags": []string{}}); got.Text("title") != "Tour" || len(got.Get("tags").([]any)) != 0 {
		t.Fatalf("after removing the tags: %v", got.Body)
	}
	friend := row.SeedID(c.Session.Owner, row.KindPerson, 2001)
	c.Must("PUT", fmt.Sprintf("%s/shares/%d", one, friend), nil)
	if got := c.Must("GET", one, nil); number(t, got.Get("shared_with", 0)) != friend || number(t, got.Get("clicks_count")) != 3 {
		t.Fatalf("after sharing: %v", got.Body)
	}
	c.Must("DELETE", fmt.Sprintf("%s/shares/%d", one, friend), nil)
	if got := c.Must("GET", one, nil); len(got.Get("shared_with").([]any)) != 0 {
		t.Fatal("the link is still shared")
	}
	c.Must("DELETE", one, nil)
	c.Refuse(404, "GET", one, nil)
	c.Refuse(422, "POST", "/tracking_links", map[string]any{"title": ""})
}

func TestATrialLinkLetsInAsManyAsItMay(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	made := c.Must("POST", "/trial_links", map[string]any{"title": "Week", "trial_days": 7, "claims_limit": 2})
	id := number(t, made.Get("id"))
	for range 2 {
		p.Order(login, "trial.claimed", fanaction.Input{Ref: id})
		f := c.Frame("trial.claimed")
		if f["link_id"] != made.Get("id") || f["promotion_id"] != nil || number(t, f["days"]) != 7 {
			t.Fatalf("the frame has %v", f)
		}
	}
	one := "/trial_links/" + made.Text("id")
	if got := c.Must("GET", one, nil); number(t, got.Get("claims_count")) != 2 || len(c.All(one+"/subscribers?limit=100")) != 2 {
		t.Fatalf("after two claims: %v", got.Body)
	}
	if got := c.Must("GET", one+"/stats?"+dates(p, 0, 0), nil); number(t, got.Get("subscribers_count")) != 2 {
		t.Fatalf("today: %v", got.Body)
	}
	if err := p.TryOrder(login, "trial.claimed", fanaction.Input{Ref: id}); err == nil {
		t.Fatal("a third claim was accepted")
	}
	if list := c.All("/trial_links?limit=100&state=finished"); list[0]["id"] != made.Get("id") {
		t.Fatal("a link with no claims left is not listed as finished")
	}
	seeded := c.All("/trial_links?limit=100&state=running")
	path := "/trial_links/" + fmt.Sprint(seeded[0]["id"])
	ended := c.Must("POST", path+"/finish", nil)
	if again := c.Must("POST", path+"/finish", nil); ended.Get("finished_at") == nil || again.Text("finished_at") != ended.Text("finished_at") {
		t.Fatalf("ended at %v, then at %v", ended.Get("finished_at"), again.Get("finished_at"))
	}
	c.Must("DELETE", path, nil)
	if n := len(c.All("/trial_links?limit=100&state=running")); n != len(seeded)-1 {
		t.Fatalf("%d of %d are running after one ended", n, len(seeded))
	}
}

func TestAPromotionRunsWhileItHasClaimsLeft(t *testing.T) {
	t.Parallel()
	p := platform(t)
	c := p.SignIn(login)
	for _, one := range c.All("/promotions?limit=100") {
		if n := len(c.All(fmt.Sprintf("/promotions/%v/claimers?limit=100", one["id"]))); int64(n) != number(t, one["claims_count"]) || n == 0 {
			t.Fatalf("%d claimers, its count is %v", n, one["claims_count"])
		}
	}
	made := c.Must("POST", "/promotions", map[string]any{"audience": "expired", "type": "trial", "trial_days": 5, "duration": 3})
	id, path := number(t, made.Get("id")), "/promotions/"+made.Text("id")
	if made.Text("state") != "running" || made.Get("discount_percent") != nil {
		t.Fatalf("made: %v", made.Body)
	}
	p.Order(login, "trial.claimed", fanaction.Input{Ref: id})
	if f := c.Frame("trial.claimed"); f["promotion_id"] != made.Get("id") || f["link_id"] != nil {
		t.Fatalf("the frame has %v", f)
	}
	c.Must("PATCH", path, map[string]any{"message": "Again!", "claims_limit": 1})
	if got := c.Must("GET", path, nil); got.Text("state") != "finished" || got.Text("message") != "Again!" || number(t, got.Get("claims_count")) != 1 {
		t.Fatalf("with all claims used: %v", got.Body)
	}
	if got := c.Must("PATCH", path, map[string]any{"claims_limit": 9}); got.Text("state") != "running" {
		t.Fatalf("with a higher limit: %v", got.Body)
	}
}

func TestInvalidBundlesAreRefused(t *testing.T) {
	t.Parallel()
	c := platform(t).SignIn(login)
	path := "/bundles/" + c.Must("POST", "/bundles", map[string]any{"duration": 12, "discount_percent": 25}).Text("id")
	c.Must("DELETE", path, nil)
	c.Refuse(404, "PATCH", path, map[string]any{"discount_percent": 10})
	c.Refuse(422, "POST", "/bundles", map[string]any{"duration": 4, "discount_percent": 10})
	c.Refuse(422, "POST", "/bundles", map[string]any{"duration": 3, "discount_percent": 51})
}
