package settings_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

func TestTheInboxHasEveryCategory(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	for _, kind := range []string{"tips", "subscriptions", "likes", "comments", "purchases", "mentions", "promotions", "system"} {
		list := c.Must("GET", "/notifications?category="+kind, nil).Get("list").([]any)
		if len(list) == 0 {
			t.Errorf("there are no %s", kind)
		}
		for _, one := range list {
			if got := one.(map[string]any)["category"]; got != kind {
				t.Errorf("asked for %s, got %v", kind, got)
			}
		}
	}
}

func TestChangesKeepWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	got := c.Must("PATCH", "/settings/profile", map[string]any{"about": ""})
	if got.Get("about") != nil || got.Get("location") == nil {
		t.Errorf("the profile: %v", got.Body)
	}
	c.Must("PUT", "/settings/welcome", map[string]any{"is_on": true, "text": "Hi you!"})
	c.Must("PUT", "/settings/welcome", map[string]any{"is_on": false, "price": 5})
	got = c.Must("GET", "/settings/welcome", nil)
	if got.Text("text") != "Hi you!" || got.Text("price") != "5" || got.Get("is_on") != false {
		t.Errorf("the welcome message: %v", got.Body)
	}
}

func TestInvalidChangesAreRefused(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	const invalid = http.StatusUnprocessableEntity
	unknown := map[string]any{"preferences": map[string]bool{"pigeons": true}}
	c.Refuse(invalid, "PATCH", "/notifications/preferences", unknown)
	c.Refuse(invalid, "PUT", "/settings/price", map[string]any{"price": 50})
	c.Refuse(invalid, "PUT", "/settings/welcome", map[string]any{"is_on": true, "media_ids": []int{4}})
	c.Refuse(http.StatusNotFound, "DELETE", "/settings/sessions/12", nil)
}

func TestAHandleThatIsTakenIsNotAvailable(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	fan := c.Must("GET", "/notifications?category=tips", nil).Text("list", 0, "user", "handle")
	for name, want := range map[string]bool{
		"nobody.has.this": true, fan: false, c.Must("GET", "/settings", nil).Text("handle"): false, "no%20spaces": false, "ab": false, "": false,
	} {
		if got := c.Must("GET", "/settings/handle_check?handle="+name, nil).Get("is_available"); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestCountriesAreKeptOnceAndInCapitals(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	c.Must("PUT", "/settings/blocked_countries", map[string]any{"countries": []string{"se", "BR", "SE"}})
	if got := c.Must("GET", "/settings/blocked_countries", nil); !slices.Equal(got.Get("countries").([]any), []any{"SE", "BR"}) {
		t.Fatalf("blocked: %v", got.Body)
	}
}
