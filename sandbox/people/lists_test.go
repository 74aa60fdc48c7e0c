package people_test

import (
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

func TestAListLivesFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn("ok@sandbox.test")
	made := c.Must("POST", "/lists", map[string]any{"name": "Tour"})
	path := "/lists/" + made.Text("id")
	if c.Frame("list.changed")["list"].(map[string]any)["name"] != "Tour" {
		t.Fatal("the frame names another list")
	}
	fan := c.Must("GET", "/lists/"+c.Must("GET", "/lists", nil).Text("list", 0, "id")+"/users", nil).Get("list", 0, "id")
	if got := c.Must("POST", path+"/users", map[string]any{"user_ids": []any{fan, 1}}); got.Text("added") != "1" || got.Text("skipped", 0) != "1" {
		t.Fatalf("added: %v", got.Body)
	}
	if got := c.Must("GET", path, nil).Text("users_count"); got != "1" {
		t.Fatalf("users_count is %s after adding one", got)
	}
	c.Must("PATCH", path, map[string]any{"name": "Tour 2"})
	c.Must("DELETE", path, nil)
	if got := c.Do("GET", path, nil); got.Status != http.StatusNotFound || got.Text("error", "code") != "2002" {
		t.Fatalf("a deleted list: %d %v", got.Status, got.Body)
	}
}

func TestPagesOfAListShowEveryMemberOnce(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn("ok@sandbox.test")
	fans := "/lists/" + c.Must("GET", "/lists", nil).Text("list", 0, "id") + "/users?limit=100"
	seen := map[string]bool{}
	marker := ""
	for page := 0; ; page++ {
		got := c.Must("GET", fans+marker, nil)
		for i := range got.Get("list").([]any) {
			id := got.Text("list", i, "id")
			if seen[id] {
				t.Fatalf("user %s came twice", id)
			}
			seen[id] = true
		}
		if got.Get("has_more") != true {
			break
		}
		marker = "&marker=" + got.Text("next_marker")
	}
	if len(seen) < 1300 {
		t.Fatalf("%d fans, want about 1400", len(seen))
	}
}
