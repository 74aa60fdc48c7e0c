package settings_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
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

func TestPreferencesKeepWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	if got := c.Must("PATCH", "/notifications/preferences", map[string]any{"preferences": map[string]bool{"likes": true, "email": false}}); got.Get("likes") != true {
		t.Fatalf("changed: %v", got.Body)
	}
	got := c.Must("GET", "/notifications/preferences", nil)
	if got.Get("likes") != true || got.Get("email") != false || got.Get("tips") != true || len(got.Body) != 10 {
		t.Fatalf("read back: %v", got.Body)
	}
	if got := c.Do("PATCH", "/notifications/preferences", map[string]any{"preferences": map[string]bool{"pigeons": true}}); got.Status != http.StatusUnprocessableEntity {
		t.Fatalf("an unknown preference: %d", got.Status)
	}
}

func TestTheProfileIsTheOneThatOthersSee(t *testing.T) {
	t.Parallel()
	c := sandboxtest.New(t, nil).SignIn(login)
	got := c.Must("PATCH", "/settings/profile", map[string]any{"display_name": "Mia", "about": ""})
	if got.Text("display_name") != "Mia" || got.Get("about") != nil || got.Get("location") == nil {
		t.Fatalf("changed: %v", got.Body)
	}
	if changes := c.Frame("settings.changed")["changes"].([]any); !slices.Equal(changes, []any{"display_name", "about"}) {
		t.Fatalf("the frame has %v", changes)
	}
	c.Must("PUT", "/settings/price", map[string]any{"price": 12.99})
	if changes := c.Frame("settings.changed")["changes"].([]any); !slices.Equal(changes, []any{"subscribe_price"}) {
		t.Fatalf("the frame has %v", changes)
	}
	if me := c.Must("GET", "/me", nil); me.Text("display_name") != "Mia" || me.Text("subscribe_price") != "12.99" {
		t.Fatalf("me is %v", me.Body)
	}
	if got := c.Do("PUT", "/settings/price", map[string]any{"price": 50}); got.Status != http.StatusUnprocessableEntity {
		t.Fatalf("a month for $50: %d", got.Status)
	}
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

func TestTheWelcomeMessageGoesToWhoIsNew(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	if got := c.Must("PUT", "/settings/welcome", map[string]any{"is_on": true, "text": "Hi you!"}); got.Get("is_on") != true {
		t.Fatalf("switched on: %v", got.Body)
	}
	p.Order(login, "fan.joined", fanaction.Input{})
	if text := c.Frame("chat.message_sent")["message"].(map[string]any)["text"]; text != "Hi you!" {
		t.Fatalf("the new fan got %v", text)
	}
	c.Must("PUT", "/settings/welcome", map[string]any{"is_on": false, "price": 5})
	if got := c.Must("GET", "/settings/welcome", nil); got.Text("text") != "Hi you!" || got.Text("price") != "5" || got.Get("is_on") != false {
		t.Fatalf("read back: %v", got.Body)
	}
	if got := c.Do("PUT", "/settings/welcome", map[string]any{"is_on": true, "media_ids": []int{4}}); got.Status != http.StatusUnprocessableEntity {
		t.Fatalf("with a medium that does not exist: %d", got.Status)
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

func TestASessionThatIsSignedOutIsOver(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	phone, laptop := p.SignIn(login), p.SignIn(login)
	list := laptop.Must("GET", "/settings/sessions", nil)
	if len(list.Get("list").([]any)) != 2 || list.Get("list", 0, "is_current") != false || list.Get("list", 1, "is_current") != true {
		t.Fatalf("sessions: %v", list.Body)
	}
	path := "/settings/sessions/" + list.Text("list", 0, "id")
	laptop.Must("DELETE", path, nil)
	if got := phone.Do("GET", "/settings", nil); got.Status != http.StatusUnauthorized {
		t.Fatalf("a request with the ended session answers %d", got.Status)
	}
	laptop.Must("DELETE", path, nil)
	if n := len(laptop.Must("GET", "/settings/sessions", nil).Get("list").([]any)); n != 1 {
		t.Fatalf("%d sessions are left", n)
	}
	if got := laptop.Do("DELETE", "/settings/sessions/12", nil); got.Status != http.StatusNotFound {
		t.Fatalf("an impossible session id: %d", got.Status)
	}
}
