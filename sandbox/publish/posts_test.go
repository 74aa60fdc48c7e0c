package publish_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

func advance(t *testing.T, p *sandboxtest.Platform, by time.Duration) {
	t.Helper()
	if err := p.World.Advance(by); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, v any) int64 {
	t.Helper()
	n, ok := v.(json.Number)
	if !ok {
		t.Fatalf("%v is not a number", v)
	}
	id, err := n.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// whole reads all pages of a list and fails if a row appears twice. It calls between after each page.
func whole(t *testing.T, c *sandboxtest.Client, path, key string, between func(page int)) map[string]int {
	t.Helper()
	seen, marker := map[string]int{}, ""
	for page := 0; ; page++ {
		got := c.Must("GET", path+marker, nil)
		list, _ := got.Get("list").([]any)
		for i := range list {
			id := got.Text("list", i, key)
			if user := got.Get("list", i, key, "id"); user != nil {
				id = got.Text("list", i, key, "id")
			}
			if _, twice := seen[id]; twice {
				t.Fatalf("%s appears twice", id)
			}
			seen[id] = len(seen)
		}
		if got.Get("has_more") != true {
			return seen
		}
		if between != nil {
			between(page)
		}
		marker = "&marker=" + got.Text("next_marker")
	}
}

func TestAPostLivesFromItsWritingToItsEnd(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	media := c.Must("GET", "/vault/media", nil).Get("list", 0, "id")
	made := c.Must("POST", "/posts", map[string]any{
		"text": "Hello", "attachments": []any{media}, "price": 5.5, "expires_in_days": 1,
		"poll": map[string]any{"question": "Well?", "options": []string{"yes", "no"}},
	})
	path := "/posts/" + made.Text("id")
	if made.Get("published_at") != nil || made.Text("price") != "5.5" || made.Get("attachments", 0, "id") != media {
		t.Fatalf("made: %v", made.Body)
	}
	if got := c.Frame("post.published")["post"].(map[string]any); got["id"] != made.Get("id") || got["published_at"] == nil {
		t.Fatalf("published: %v", got)
	}
	if first := c.Must("GET", "/posts?q=hello", nil); first.Get("list", 0, "id") != made.Get("id") {
		t.Fatalf("the new post is not the first: %v", first.Body)
	}
	option := made.Get("poll", "options", 0, "id")
	c.Must("POST", path+"/poll/votes", map[string]any{"option_id": option})
	again := c.Must("POST", path+"/poll/votes", map[string]any{"option_id": made.Get("poll", "options", 1, "id")})
	if again.Text("options", 0, "votes") != "0" || again.Text("votes_count") != "1" {
		t.Fatalf("a changed vote: %v", again.Body)
	}
	c.Must("PATCH", path, map[string]any{"text": "Hello again"})
	if changes := c.Frame("post.updated")["changes"].([]any); len(changes) != 1 || changes[0] != "text" {
		t.Fatalf("changes are %v", changes)
	}
	c.Must("POST", path+"/archive", map[string]any{"private": true})
	if got := c.Must("GET", "/posts?state=private&q=again", nil); got.Text("list", 0, "is_archived") != "true" {
		t.Fatalf("private posts: %v", got.Body)
	}
	c.Must("POST", path+"/unarchive", nil)
	advance(t, p, 25*time.Hour)
	for c.Frame("post.expired")["post_id"] != made.Get("id") {
	}
	if got := c.Must("GET", "/posts?state=expired&q=again", nil); got.Get("list", 0, "id") != made.Get("id") {
		t.Fatalf("expired posts: %v", got.Body)
	}
	c.Must("DELETE", path, nil)
	if c.Frame("post.deleted")["post_id"] != made.Get("id") {
		t.Fatal("another post was deleted")
	}
	if got := c.Do("GET", path, nil); got.Status != http.StatusNotFound {
		t.Fatalf("a deleted post: %d %v", got.Status, got.Body)
	}
}

func TestAPostNamesOnlyWhatExists(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	for field, value := range map[string]any{
		"attachments": []int{1}, "previews": []int{1}, "label_ids": []int{1}, "release_form_ids": []int{1}, "mention_ids": []int{1},
		"price": -1, "poll": map[string]any{"options": []string{"one"}}, "fundraising": map[string]any{"target": 0},
	} {
		if got := c.Do("POST", "/posts", map[string]any{"text": "x", field: value}); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %v", field, got.Status, got.Body)
		}
	}
	foreign := c.Must("GET", "/users/"+strconv.FormatInt(c.Session.Owner*10_000_000_000+2003, 10)+"/posts", nil).Text("list", 0, "id")
	if got := c.Do("DELETE", "/posts/"+foreign, nil); got.Status != http.StatusForbidden {
		t.Errorf("another creator's post: %d %v", got.Status, got.Body)
	}
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
	likers := whole(t, c, path+"/likes?limit=30", "id", nil)
	if int64(len(likers)) != got {
		t.Fatalf("%d likers for %d likes", len(likers), got)
	}
	fan := c.Frame("post.liked")["user"].(map[string]any)
	if likers[fan["id"].(json.Number).String()] != 1 || likers[strconv.FormatInt(c.Session.Owner, 10)] != 0 {
		t.Fatal("the latest likers are not first")
	}
}

// Posts that are added or deleted while the pages are read cause no repeats and no gaps.
func TestPagesOfPostsStayStableUnderWrites(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	first := c.Must("GET", "/posts?limit=100", nil)
	seen := whole(t, c, "/posts?limit=10", "id", func(page int) {
		p.Order(login, "post.published", fanaction.Input{})
		c.Must("DELETE", "/posts/"+first.Text("list", page, "id"), nil) // on a page that was already read
	})
	for i := range first.Get("list").([]any) {
		if _, ok := seen[first.Text("list", i, "id")]; !ok {
			t.Fatalf("post %d of the first page is missing", i)
		}
	}
	if len(seen) != 120 {
		t.Fatalf("%d posts, want the 120 from the start", len(seen))
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
		if err != nil {
			t.Fatal(err)
		}
		before := c.Must("GET", "/posts/"+id+"/stats", nil)
		p.Order(login, "post.purchased", fanaction.Input{Ref: ref})
		p.Order(login, "post.purchased", fanaction.Input{Ref: ref})
		after := c.Must("GET", "/posts/"+id+"/stats", nil)
		if number(t, after.Get("purchases_count")) != number(t, before.Get("purchases_count"))+2 {
			t.Fatalf("two purchases: %v, then %v", before.Body, after.Body)
		}
		gross, net := 0.0, 0.0
		for _, d := range after.Get("days").([]any) {
			gross += float(t, d.(map[string]any)["gross"])
			net += float(t, d.(map[string]any)["net"])
		}
		if float(t, after.Get("gross")) != gross || float(t, after.Get("net")) != net ||
			float(t, after.Get("purchases_sum"))+float(t, after.Get("tips_sum")) != gross {
			t.Fatalf("the days add up to %v gross and %v net: %v", gross, net, after.Body)
		}
		if buyers := whole(t, c, "/posts/"+id+"/buyers?limit=2", "buyer", nil); int64(len(buyers)) != number(t, after.Get("purchases_count")) {
			t.Fatalf("%d buyers: %v", len(buyers), after.Body)
		}
		if got := c.Must("GET", "/posts/"+id+"/stats?to=2020-01-01", nil); got.Text("gross") != "0" {
			t.Fatalf("before its publication: %v", got.Body)
		}
	}
}

func float(t *testing.T, v any) float64 {
	t.Helper()
	f, err := v.(json.Number).Float64()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestATipToAPostMovesItsFundraising(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	made := c.Must("POST", "/posts", map[string]any{"text": "Help", "fundraising": map[string]any{"title": "Amp", "target": 100}})
	c.Frame("post.published")
	p.Order(login, "post.fundraising", fanaction.Input{Ref: number(t, made.Get("id")), Amount: 1250})
	if got := c.Frame("post.fundraising"); got["raised"] != json.Number("12.5") || got["target"] != json.Number("100") {
		t.Fatalf("fundraising: %v", got)
	}
	got := c.Must("GET", "/posts/"+made.Text("id"), nil)
	if got.Text("fundraising", "raised") != "12.5" || got.Text("tips_sum") != "12.5" {
		t.Fatalf("the post: %v", got.Body)
	}
}

func TestCommentsAreTheCreatorsToKeep(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	post := c.Must("GET", "/posts", nil)
	path := "/posts/" + post.Text("list", 0, "id")
	p.Order(login, "post.commented", fanaction.Input{Ref: number(t, post.Get("list", 0, "id")), Text: "First!"})
	fans := c.Frame("post.commented")["comment"].(map[string]any)
	if c.Frame("notice.new")["notice"].(map[string]any)["category"] != "comments" {
		t.Fatal("the comment caused no notice")
	}
	theirs := path + "/comments/" + fans["id"].(json.Number).String()
	if got := c.Do("PATCH", theirs, map[string]any{"text": "mine now"}); got.Status != http.StatusForbidden {
		t.Fatalf("changing another user's comment: %d %v", got.Status, got.Body)
	}
	mine := c.Must("POST", path+"/comments", map[string]any{"text": "Thanks", "answer_to": fans["id"], "gif_id": 2800000001})
	if c.Frame("post.commented")["comment"].(map[string]any)["id"] != mine.Get("id") || mine.Get("answer_to") != fans["id"] {
		t.Fatalf("the reply: %v", mine.Body)
	}
	c.Must("PUT", theirs+"/like", nil)
	c.Must("PUT", theirs+"/pin", nil)
	c.Must("PUT", path+"/comments/"+mine.Text("id")+"/pin", nil)
	list := c.Must("GET", path+"/comments?limit=2", nil)
	if list.Get("list", 0, "id") != mine.Get("id") || list.Text("list", 0, "is_pinned") != "true" || list.Text("list", 1, "is_pinned") != "false" ||
		list.Text("list", 1, "is_liked") != "true" || list.Text("list", 1, "likes_count") != "1" {
		t.Fatalf("the newest two: %v", list.Body)
	}
	count := number(t, c.Must("GET", path, nil).Get("comments_count"))
	c.Must("DELETE", theirs, nil)
	if got := number(t, c.Must("GET", path, nil).Get("comments_count")); got != count-1 {
		t.Fatalf("%d comments after deleting one of %d", got, count)
	}
}

func TestALabelGoesWithItsPosts(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	label := c.Must("POST", "/labels", map[string]any{"name": "Tour"})
	post := "/posts/" + c.Must("GET", "/posts", nil).Text("list", 0, "id")
	c.Must("PATCH", post, map[string]any{"label_ids": []any{label.Get("id")}})
	if got := c.Must("GET", "/posts?label_id="+label.Text("id"), nil); len(got.Get("list").([]any)) != 1 {
		t.Fatalf("posts of the label: %v", got.Body)
	}
	if got := c.Must("PATCH", "/labels/"+label.Text("id"), map[string]any{"name": "Tour 2"}); got.Text("posts_count") != "1" {
		t.Fatalf("the label: %v", got.Body)
	}
	c.Must("DELETE", "/labels/"+label.Text("id"), nil)
	if got := c.Must("GET", post, nil); len(got.Get("labels").([]any)) != 0 {
		t.Fatalf("the post still has the label: %v", got.Body)
	}
}
