package publish_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

func TestAPinnedCommentIsAboveTheOthersWhicheverWayTheyGo(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	path := "/posts/" + c.Must("GET", "/posts", nil).Text("list", 0, "id") + "/comments"
	var ids []string
	for _, text := range []string{"one", "two", "three"} {
		ids = append(ids, c.Must("POST", path, map[string]any{"text": text}).Text("id"))
	}
	c.Must("PUT", path+"/"+ids[1]+"/pin", nil)
	for _, order := range []string{"newest", "oldest"} {
		first := c.Must("GET", path+"?limit=1&sort="+order, nil)
		if first.Text("list", 0, "id") != ids[1] {
			t.Errorf("%s: %s is first", order, first.Text("list", 0, "text"))
		}
		second := c.Must("GET", path+"?limit=1&sort="+order+"&marker="+first.Text("next_marker"), nil)
		if got := second.Text("list", 0, "id"); got == ids[1] || order == "newest" && got != ids[2] {
			t.Errorf("%s: %s is second", order, second.Text("list", 0, "text"))
		}
	}
}
