package publish_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const years = "from=2000-01-01&to=2100-01-01"

// The counts are those of the list, and a stream that is deleted from the queue is cancelled.
func TestTheQueueActsOnWhatIsScheduled(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	at := p.World.Now().Add(48 * time.Hour).Format(time.RFC3339)
	stream := c.Must("POST", "/streams", map[string]any{"title": "Soon", "starts_at": at}).Text("id")
	queue := whole(t, c, "/queue?limit=3&"+years, "id")
	if got := c.Must("GET", "/queue/counts?"+years, nil); number(t, got.Get("total")) != int64(len(queue)) {
		t.Fatalf("%d items, but the counts are %v", len(queue), got.Body)
	}
	c.Must("DELETE", "/queue/"+stream, nil)
	if got := c.Must("GET", "/streams/"+stream, nil); got.Text("status") != "canceled" {
		t.Fatalf("a deleted stream: %v", got.Body)
	}
	c.Refuse(http.StatusNotFound, "POST", "/queue/"+stream+"/publish", nil)
}

// What the seed has scheduled is published automatically, with its scheduled time.
func TestTheSeedsScheduleHappensByItself(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	list := c.Must("GET", "/posts?state=scheduled&sort=oldest", nil)
	p.Advance(67 * time.Hour)
	for i := range 2 {
		post := c.Frame("post.published")["post"].(map[string]any)
		if post["id"] != list.Get("list", i, "id") || post["published_at"] != list.Get("list", i, "publish_at") {
			t.Fatalf("post %d: %v, want the scheduled %v", i, post, list.Get("list", i))
		}
	}
	later := p.SignIn(login) // the token of the old session has rotated
	if got := later.Must("GET", "/posts?state=scheduled", nil); len(got.Get("list").([]any)) != len(list.Get("list").([]any))-2 {
		t.Fatalf("still scheduled: %v", got.Body)
	}
	if got := later.Must("GET", "/stories/active", nil); len(got.Get("list").([]any)) != 0 {
		t.Fatalf("stories after three days: %v", got.Body)
	}
}

func TestAScheduledPostWithoutItsMediaFailsIntoTheDrafts(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	media := c.Must("GET", "/vault/media", nil).Get("list", 0, "id")
	post := c.Must("POST", "/posts", map[string]any{"attachments": []any{media}, "publish_at": p.World.Now().Add(time.Hour).Format(time.RFC3339)})
	c.Must("POST", "/vault/media/delete", map[string]any{"media_ids": []any{media}})
	p.Advance(2 * time.Hour)
	failed := c.Frame("queue.failed")
	if failed["item"].(map[string]any)["id"] != post.Get("id") || failed["error"] == "" {
		t.Fatalf("failed: %v", failed)
	}
	if _, ok := whole(t, c, "/drafts/post?limit=100", "id")[post.Text("id")]; !ok {
		t.Fatal("the post is not in the drafts")
	}
}

func TestDraftsArePublishedAutomatically(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	drafts := whole(t, c, "/drafts/post?limit=2", "id")
	c.Must("PUT", "/drafts/post/automation", map[string]any{"is_enabled": true, "interval_hours": 1})
	for range drafts {
		p.Advance(time.Hour)
		c.Frame("post.published")
	}
	later := p.SignIn(login) // the token of the old session has rotated
	if left := whole(t, later, "/drafts/post?limit=100", "id"); len(drafts) < 2 || len(left) != 0 {
		t.Fatalf("still drafts: %v", left)
	}
	messages := later.All("/drafts/message?limit=100")
	later.Must("POST", fmt.Sprintf("/drafts/message/items/%v/publish", messages[0]["id"]), nil)
	c.Frame("mass.sent")
	if left := later.All("/drafts/message?limit=100"); len(left) != len(messages)-1 {
		t.Fatalf("%d of %d messages are still drafts", len(left), len(messages))
	}
}

func TestAStreamStartsAtItsTimeAndCountsWhatHappens(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	at := p.World.Now().Add(time.Hour).Format(time.RFC3339)
	made := c.Must("POST", "/streams", map[string]any{"title": "Songs", "starts_at": at})
	path, id := "/streams/"+made.Text("id"), number(t, made.Get("id"))
	for field, wrong := range map[string]any{"tip_goal": -1, "list_ids": []int64{7}} {
		c.Refuse(http.StatusUnprocessableEntity, "PATCH", path, map[string]any{field: wrong})
	}
	c.Refuse(http.StatusConflict, "POST", path+"/stop", nil)
	p.Advance(time.Hour)
	if c.Frame("stream.started")["stream"].(map[string]any)["id"] != made.Get("id") {
		t.Fatal("another stream started")
	}
	p.Order(login, "stream.comment", fanaction.Input{Ref: id, Text: "Hi"})
	p.Order(login, "stream.viewers", fanaction.Input{Ref: id, Count: 7})
	p.Order(login, "stream.liked", fanaction.Input{Ref: id, Count: 3})
	stats := c.Must("GET", path+"/stats", nil)
	if stats.Text("viewers_peak") != "7" || stats.Text("likes_count") != "3" || stats.Text("comments_count") != "1" {
		t.Fatalf("stats: %v", stats.Body)
	}
	if got := c.Must("GET", path+"/comments", nil); got.Text("list", 0, "text") != "Hi" {
		t.Fatalf("comments: %v", got.Body)
	}
}

// The list of viewers has as many entries as the story has views. A story expires after a day and stays in its
// highlights.
func TestAStoryLivesForADay(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	media := c.Must("GET", "/vault/media", nil).Get("list", 0, "id")
	made := c.Must("POST", "/stories", map[string]any{"attachment": media, "text": "Now"})
	path := "/stories/" + made.Text("id")
	if c.Frame("story.published")["story"].(map[string]any)["id"] != made.Get("id") {
		t.Fatal("another story was published")
	}
	p.Order(login, "story.viewed", fanaction.Input{Ref: number(t, made.Get("id")), Count: 25})
	if got := c.Frame("story.viewed"); got["views"] == nil {
		t.Fatalf("viewed: %v", got)
	}
	for _, id := range []string{made.Text("id"), c.Must("GET", "/stories/active", nil).Text("list", 0, "id")} {
		stats := c.Must("GET", "/stories/"+id+"/stats", nil)
		if viewers := whole(t, c, "/stories/"+id+"/viewers?limit=10", "user"); int64(len(viewers)) != number(t, stats.Get("views_count")) {
			t.Fatalf("%d viewers: %v", len(viewers), stats.Body)
		}
	}
	kept := c.Must("POST", "/highlights", map[string]any{"title": "Best", "story_ids": []any{made.Get("id")}})
	p.Advance(25 * time.Hour)
	for c.Frame("story.expired")["story_id"] != made.Get("id") {
	}
	if got := c.Must("GET", "/stories/archive", nil); got.Get("list", 0, "id") != made.Get("id") {
		t.Fatalf("the archive: %v", got.Body)
	}
	if got := c.Must("GET", "/highlights/"+kept.Text("id"), nil); got.Get("story_ids", 0) != made.Get("id") {
		t.Fatalf("the highlight: %v", got.Body)
	}
	c.Must("DELETE", path, nil)
	if got := c.Must("GET", "/highlights/"+kept.Text("id"), nil); len(got.Get("story_ids").([]any)) != 0 {
		t.Fatalf("a deleted story: %v", got.Body)
	}
}
