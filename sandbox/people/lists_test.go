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
		t.Fatal("the frame has another list")
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
				t.Fatalf("user %s appears twice", id)
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

// The member added last comes first. Removing members does not move the others; otherwise a page would repeat some.
func TestPagesOfAListStayStableWhenMembersGo(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn("ok@sandbox.test")
	fans := c.Must("GET", "/lists/"+c.Must("GET", "/lists", nil).Text("list", 0, "id")+"/users?limit=6", nil)
	path := "/lists/" + c.Must("POST", "/lists", map[string]any{"name": "Six"}).Text("id")
	var ids []any
	for n := range 6 {
		ids = append(ids, fans.Get("list", n, "id"))
	}
	c.Must("POST", path+"/users", map[string]any{"user_ids": ids})
	first := c.Must("GET", path+"/users?limit=2", nil)
	c.Must("POST", path+"/users/remove", map[string]any{"user_ids": []any{ids[0], ids[4]}})
	c.Must("POST", path+"/users", map[string]any{"user_ids": []any{ids[0]}})
	second := c.Must("GET", path+"/users?limit=10&marker="+first.Text("next_marker"), nil)
	for n, want := range []any{ids[5], ids[4], ids[3], ids[2], ids[1]} {
		page, at := first, n
		if n >= 2 {
			page, at = second, n-2
		}
		if got := page.Get("list", at, "id"); got != want {
			t.Errorf("row %d is %v, want %v", n, got, want)
		}
	}
	if got := len(second.Get("list").([]any)); got != 3 {
		t.Errorf("the second page has %d users, want 3", got)
	}
}

func TestWhoIsTakenOffAListIsNotPinnedWhenPutBack(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn("ok@sandbox.test")
	fans := c.Must("GET", "/lists/"+c.Must("GET", "/lists", nil).Text("list", 0, "id")+"/users?limit=2", nil)
	a, b := fans.Get("list", 0, "id"), fans.Get("list", 1, "id")
	made := c.Must("POST", "/lists", map[string]any{"name": "Two"})
	path := "/lists/" + made.Text("id")
	c.Must("POST", path+"/users", map[string]any{"user_ids": []any{a}})
	c.Must("PUT", path+"/pins/"+fans.Text("list", 0, "id"), nil)
	c.Must("PUT", "/users/"+fans.Text("list", 0, "id")+"/lists", map[string]any{"remove": []any{made.Get("id")}})
	c.Must("POST", path+"/users", map[string]any{"user_ids": []any{a, b}})
	if got := c.Must("GET", path+"/users", nil).Get("list", 0, "id"); got != b {
		t.Errorf("%v is first, want %v, which was added last", got, b)
	}
}
