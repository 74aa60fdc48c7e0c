package publish_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

var number = sandboxtest.Number

// whole reads all pages of a list and returns the position of each row by its key, which may be a person.
func whole(t *testing.T, c *sandboxtest.Client, path, key string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for i, one := range c.All(path) {
		id := one[key]
		if person, ok := id.(map[string]any); ok {
			id = person["id"]
		}
		if _, twice := seen[fmt.Sprint(id)]; twice {
			t.Fatalf("%v appears twice", id)
		}
		seen[fmt.Sprint(id)] = i
	}
	return seen
}

func TestAPostExpiresAfterItsDays(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	made := c.Must("POST", "/posts", map[string]any{"text": "Hello again", "expires_in_days": 1})
	c.Frame("post.published") // its days count from here
	p.Advance(25 * time.Hour)
	for c.Frame("post.expired")["post_id"] != made.Get("id") {
	}
	if got := c.Must("GET", "/posts?state=expired&q=again", nil); got.Get("list", 0, "id") != made.Get("id") {
		t.Fatalf("expired posts: %v", got.Body)
	}
}

func TestAPostNamesOnlyWhatExists(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	for field, value := range map[string]any{
		"attachments": []int{1}, "previews": []int{1}, "label_ids": []int{1}, "release_form_ids": []int{1}, "mention_ids": []int{1},
		"price": -1, "poll": map[string]any{"options": []string{"one"}}, "fundraising": map[string]any{"target": 0},
	} {
		c.Refuse(http.StatusUnprocessableEntity, "POST", "/posts", map[string]any{"text": "x", field: value})
	}
	foreign := c.Must("GET", "/users/"+strconv.FormatInt(c.Session.Owner*10_000_000_000+2003, 10)+"/posts", nil).Text("list", 0, "id")
	c.Refuse(http.StatusForbidden, "DELETE", "/posts/"+foreign, nil)
}

// The list of likers has as many entries as the post has likes, also after new likes.
func TestLikesOfAPostAreItsLikers(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	newest := c.Must("GET", "/posts", nil)
	path := "/posts/" + newest.Text("list", 0, "id")
	before := number(t, newest.Get("list", 0, "likes_count"))
	p.Order(login, "post.liked", fanaction.Input{Ref: number(t, newest.Get("list", 0, "id"))})
	c.Must("PUT", path+"/like", nil)
	c.Must("PUT", path+"/like", nil)
	got := number(t, c.Must("GET", path, nil).Get("likes_count"))
	if got != before+2 {
		t.Fatalf("%d likes, want %d", got, before+2)
	}
	likers := whole(t, c, path+"/likes?limit=30", "id")
	if int64(len(likers)) != got {
		t.Fatalf("%d likers for %d likes", len(likers), got)
	}
	fan := c.Frame("post.liked")["user"].(map[string]any)
	if likers[fan["id"].(json.Number).String()] != 1 || likers[strconv.FormatInt(c.Session.Owner, 10)] != 0 {
		t.Fatal("the latest likers are not first")
	}
}

// The earnings of a post are the sum of its days, and of its purchases and tips, and grow with a purchase.
func TestStatsOfAPostAddUp(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	priced := map[string]bool{}
	list := c.Must("GET", "/posts?sort=tips&limit=100", nil)
	for i := range list.Get("list").([]any) {
		if list.Text("list", i, "price") != "0" && list.Text("list", i, "tips_sum") != "0" {
			priced[list.Text("list", i, "id")] = true
		}
	}
	if len(priced) == 0 {
		t.Fatal("no post has a price and tips")
	}
	for id := range priced {
		ref, err := strconv.ParseInt(id, 10, 64)
		sandboxtest.OK(t, err)
		before := c.Must("GET", "/posts/"+id+"/stats", nil)
		p.Order(login, "post.purchased", fanaction.Input{Ref: ref})
		p.Order(login, "post.purchased", fanaction.Input{Ref: ref})
		after := c.Must("GET", "/posts/"+id+"/stats", nil)
		if number(t, after.Get("purchases_count")) != number(t, before.Get("purchases_count"))+2 {
			t.Fatalf("two purchases: %v, then %v", before.Body, after.Body)
		}
		var gross, net int64
		for _, d := range after.Get("days").([]any) {
			gross += sandboxtest.Cents(t, d.(map[string]any)["gross"])
			net += sandboxtest.Cents(t, d.(map[string]any)["net"])
		}
		if sandboxtest.Cents(t, after.Get("gross")) != gross || sandboxtest.Cents(t, after.Get("net")) != net ||
			sandboxtest.Cents(t, after.Get("purchases_sum"))+sandboxtest.Cents(t, after.Get("tips_sum")) != gross {
			t.Fatalf("the days add up to %v gross and %v net: %v", gross, net, after.Body)
		}
		if buyers := whole(t, c, "/posts/"+id+"/buyers?limit=2", "buyer"); int64(len(buyers)) != number(t, after.Get("purchases_count")) {
			t.Fatalf("%d buyers: %v", len(buyers), after.Body)
		}
		if got := c.Must("GET", "/posts/"+id+"/stats?to=2020-01-01", nil); got.Text("gross") != "0" {
			t.Fatalf("before its publication: %v", got.Body)
		}
	}
}

func TestACommentOfAFanCausesANoticeAndStaysTheirs(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	post := number(t, c.Must("GET", "/posts", nil).Get("list", 0, "id"))
	p.Order(login, "post.commented", fanaction.Input{Ref: post, Text: "First!"})
	comment := c.Frame("post.commented")["comment"].(map[string]any)
	if c.Frame("notice.new")["notice"].(map[string]any)["category"] != "comments" {
		t.Fatal("the comment caused no notice")
	}
	theirs := fmt.Sprintf("/posts/%d/comments/%v", post, comment["id"])
	c.Refuse(http.StatusForbidden, "PATCH", theirs, map[string]any{"text": "mine now"})
}
