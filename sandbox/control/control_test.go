package control_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// order sends a request to the control API and returns the status and the decoded body.
func order(t *testing.T, p *sandboxtest.Platform, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/control/"+path, strings.NewReader(body))
	sandboxtest.OK(t, err)
	resp, err := http.DefaultClient.Do(r)
	sandboxtest.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	sandboxtest.OK(t, err)
	var answer map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	return resp.StatusCode, answer
}

func TestOrdersThatMakeNoSenseAreExplained(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	for _, c := range []struct{ path, body, says string }{
		{"faults", `{"scope":"all","kind":"earthquake"}`, "must be one of"},
		{"faults", `{"kind":"hang"}`, "scope is missing"},
		{"faults", `{"scope":"all","kind":"error","value":200}`, "400 to 599"},
		{"faults", `{"scope":"all","kind":"hang","often":1}`, "unknown field"},
		{"clock", `{"advance_sec":-1}`, "only goes forward"},
		{"generate", `{"login":"ok@sandbox.test","events_per_sec":0,"for_sec":1}`, "at most 10000"},
		{"generate", `{"login":"ok@sandbox.test","events_per_sec":1,"for_sec":99999}`, "at most 3600"},
		{"generate", `{"login":"somebody@example.com","events_per_sec":1,"for_sec":1}`, "must end in @sandbox.test"},
		{"happen", `{"login":"ok@sandbox.test","what":"rain"}`, "/control/happenings"},
		{"happen", `{"creator_id":"1","what":"chat.message"}`, "does not exist"},
		{"happen", `{"login":"ok@sandbox.test","what":"chat.message","user_id":7}`, "does not exist"},
		{"qr/none/approve", `{}`, "expired"},
		{"selfies/none", `{"passed":true}`, "ended"},
	} {
		status, answer := order(t, p, "POST", c.path, c.body)
		problem, _ := answer["error"].(map[string]any)
		if message, _ := problem["message"].(string); status < 400 || status > 499 || !strings.Contains(message, c.says) {
			t.Errorf("%s %s: %d %v", c.path, c.body, status, answer)
		}
	}
}

func TestControlIsForThisMachineOnly(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	for name, change := range map[string]func(*http.Request){
		"another machine":        func(r *http.Request) { r.RemoteAddr = "192.0.2.7:4000" },
		"a page of another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a rebound name":         func(r *http.Request) { r.Host = "evil.example:18200" },
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1:18200/control/seed", http.NoBody)
		r.RemoteAddr = "127.0.0.1:4000"
		change(r)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

func TestTheRecordTheClockAndTheFreshStart(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, func(cfg *sandbox.Config) { cfg.Regions = map[string]string{"127.0.0.1": "here"} })
	c := p.SignIn("ok+record@sandbox.test")
	c.Must("POST", "/lists", map[string]any{"name": "Gone soon"})
	_, answer := order(t, p, "GET", "requests?login=ok%2Brecord@sandbox.test", "")
	list, _ := answer["requests"].([]any)
	if len(list) != 1 {
		t.Fatalf("the request log is %v", answer)
	}
	if e := list[0].(map[string]any); e["egress"] != "here" || e["method"] != "POST" || e["path"] != "/api/v2/lists" || e["status"] != json.Number("200") {
		t.Errorf("the logged request is %v", e)
	}
	c.Must("GET", "/lists", nil)
	if _, answer := order(t, p, "GET", "requests?limit=1", ""); len(answer["requests"].([]any)) != 1 || answer["requests"].([]any)[0].(map[string]any)["method"] != "GET" {
		t.Errorf("the last request is %v", answer)
	}
	before := p.World.Now()
	order(t, p, "POST", "clock", `{"advance_sec":3600}`)
	if moved := p.World.Now().Sub(before); moved.Hours() < 1 {
		t.Errorf("the clock moved by %s", moved)
	}
	order(t, p, "POST", "faults", `{"scope":"all","kind":"latency","value":1}`)
	order(t, p, "POST", "seed", `{}`)
	if _, answer := order(t, p, "GET", "faults", ""); len(answer["faults"].([]any)) != 0 {
		t.Errorf("a fault survived the reset: %v", answer)
	}
	if moved := p.World.Now().Sub(before); moved.Hours() >= 1 {
		t.Errorf("the clock is still %s ahead", moved)
	}
	again := p.SignIn("ok+record@sandbox.test").Must("GET", "/lists?type=own", nil)
	if strings.Contains(again.Text("list"), "Gone soon") {
		t.Error("a write survived the reset")
	}
}

func TestTheGeneratorKeepsItsRate(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn("ok+busy@sandbox.test")
	order(t, p, "POST", "generate", `{"login":"ok+busy@sandbox.test","events_per_sec":200,"for_sec":0.5}`)
	for range 50 {
		c.Frame("chat.message")
	}
}

// When fans run out of posts to like and of creators to join, the generator continues with messages.
func TestTheGeneratorGoesOnWhenFansHaveDoneItAll(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	for liked := 0; ; liked++ {
		if status, answer := order(t, p, "POST", "happen", `{"login":"ok+long@sandbox.test","what":"post.liked"}`); status != http.StatusOK {
			t.Logf("%d likes, then %v", liked, answer)
			break
		}
	}
	c := p.SignIn("ok+long@sandbox.test")
	order(t, p, "POST", "generate", `{"login":"ok+long@sandbox.test","events_per_sec":1000,"for_sec":60}`)
	for range 200 {
		c.Frame("chat.message")
	}
}

func TestAnOrderCanBeForManyLoginsAndTheirFramesAreListed(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	status, answer := order(t, p, "POST", "generate", `{"logins":["ok+a@sandbox.test","ok+b@sandbox.test"],"events_per_sec":200,"for_sec":60}`)
	if status != http.StatusOK || answer["logins"] != json.Number("2") {
		t.Fatalf("%d %v", status, answer)
	}
	for _, login := range []string{"ok+a@sandbox.test", "ok+b@sandbox.test"} {
		p.SignIn(login).Frame("chat.message")
		_, page := order(t, p, "GET", "frames?limit=1&login="+url.QueryEscape(login), "")
		first, _ := page["frames"].([]any)[0].(map[string]any)
		if first["type"] != "chat.message" || page["complete"] != true {
			t.Fatalf("%v", page)
		}
		_, next := order(t, p, "GET", "frames?login="+url.QueryEscape(login)+"&after="+first["id"].(json.Number).String(), "")
		for _, one := range next["frames"].([]any) {
			if one.(map[string]any)["id"] == first["id"] {
				t.Fatal("the page after a frame contains that frame")
			}
		}
	}
	if status, answer = order(t, p, "POST", "generate", `{"login":"ok@sandbox.test","logins":["ok+a@sandbox.test"],"events_per_sec":1,"for_sec":1}`); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		t.Fatalf("%d %v", status, answer)
	}
}

func TestASessionOfThePersonaCanBeUsedAndEnded(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	_, s := order(t, p, "POST", "sessions", `{"login":"ok+s@sandbox.test"}`)
	use := func() int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.URL+sandbox.Base+"/lists", http.NoBody)
		sandboxtest.OK(t, err)
		r.Header.Set("Cookie", s["cookie"].(string))
		for name, value := range s["headers"].(map[string]any) {
			r.Header.Set(name, value.(string))
		}
		resp, err := http.DefaultClient.Do(r)
		sandboxtest.OK(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := use(); got != http.StatusOK {
		t.Fatalf("a fresh session: %d", got)
	}
	if _, answer := order(t, p, "POST", "sessions/end", `{"user_id":"`+s["user_id"].(string)+`"}`); answer["ended"] != json.Number("1") {
		t.Fatalf("%v", answer)
	}
	if got := use(); got != http.StatusUnauthorized {
		t.Fatalf("an ended session: %d", got)
	}
}

func TestAPlatformEndsWhileGeneratorsRun(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	for _, login := range []string{"ok+1@sandbox.test", "ok+2@sandbox.test", "ok+3@sandbox.test"} {
		order(t, p, "POST", "generate", `{"login":"`+login+`","events_per_sec":300,"for_sec":60}`)
	}
	p.SignIn("ok+1@sandbox.test").Frame("chat.message")
	// The test's cleanup closes the platform while all generators run.
}

func TestAFreshStartIsFresh(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	for range 5 {
		order(t, p, "POST", "generate", `{"login":"ok+fresh@sandbox.test","events_per_sec":500,"for_sec":60}`)
		p.SignIn("ok+fresh@sandbox.test").Frame("chat.message")
		order(t, p, "POST", "seed", `{}`)
		answer := p.SignIn("ok+fresh@sandbox.test").Must("GET", "/live/frames", nil)
		if n := len(answer.Get("frames").([]any)); n != 0 {
			t.Fatalf("%d frames after a reset", n)
		}
	}
}

// A happening with alone set sends its own frame, but no frames of its consequences.
func TestAHappeningCanBeAlone(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	kinds := func() (list []string) {
		_, answer := order(t, p, "GET", "frames?login=ok@sandbox.test", "")
		frames, _ := answer["frames"].([]any)
		for _, f := range frames {
			frame, _ := f.(map[string]any)
			kind, _ := frame["type"].(string)
			list = append(list, kind)
		}
		return list
	}
	order(t, p, "POST", "happen", `{"login":"ok@sandbox.test","what":"fan.tip"}`)
	all := kinds()
	order(t, p, "POST", "happen", `{"login":"ok@sandbox.test","what":"fan.tip","alone":true}`)
	got := kinds()
	if len(all) < 2 || len(got) != len(all)+1 || got[len(got)-1] != "fan.tip" {
		t.Fatalf("a tip sent %v, and a tip with alone set sent %v", all, got[len(all):])
	}
}

// Faults and generators can be started and stopped for one creator by platform id.
func TestOrdersNameCreatorsByTheirIds(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	_, one := order(t, p, "GET", "creators?login=ok@sandbox.test", "")
	creator := one["creators"].([]any)[0].(map[string]any)["id"].(json.Number).String()
	for _, body := range []string{`{"user_id":"` + creator + `","kind":"latency","value":1}`, `{"scope":"ok+2@sandbox.test","kind":"hang"}`} {
		if status, answer := order(t, p, "POST", "faults", body); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
	}
	if _, answer := order(t, p, "DELETE", "faults?user_id="+creator, ""); answer["cleared"] != json.Number("1") {
		t.Errorf("%v", answer)
	}
	if _, answer := order(t, p, "GET", "faults", ""); len(answer["faults"].([]any)) != 1 {
		t.Errorf("the fault of the other login was removed as well: %v", answer)
	}
	if status, answer := order(t, p, "POST", "generate", `{"user_id":"`+creator+`","events_per_sec":1,"for_sec":60}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	for _, ran := range []bool{true, false} {
		if _, answer := order(t, p, "DELETE", "generate?user_id="+creator, ""); answer["stopped"] != ran {
			t.Errorf("%v", answer)
		}
	}
	for _, path := range []string{"faults?user_id=1", "generate?user_id=1"} {
		if status, answer := order(t, p, "DELETE", path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

// A fault with a count affects only calls: the live connection, which opens at unpredictable times, does not use it up.
// A lasting fault affects the live connection as well.
func TestCountedTroubleIsForCalls(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn("ok@sandbox.test")
	for body, want := range map[string][]int{
		`{"scope":"ok@sandbox.test","kind":"rate_limit","count":1}`: {http.StatusOK, http.StatusTooManyRequests, http.StatusOK},
		`{"scope":"ok@sandbox.test","kind":"rate_limit"}`:           {http.StatusTooManyRequests, http.StatusTooManyRequests, http.StatusTooManyRequests},
	} {
		order(t, p, "POST", "faults", body)
		for i, path := range []string{"/live/frames", "/me", "/me"} {
			if got := c.Do("GET", path, nil).Status; got != want[i] {
				t.Errorf("%s: %s answers %d, want %d", body, path, got, want[i])
			}
		}
		order(t, p, "DELETE", "faults", "")
	}
}

// A caller that did not receive the new token, because the response was lost, gets it again and can still use the old
// one.
func TestOrderedRotationWaitsUntilTheCallerHasTheNewToken(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn("ok@sandbox.test")
	order(t, p, "POST", "faults", `{"scope":"ok@sandbox.test","kind":"rotate","value":1}`)
	for n := range 4 {
		if got := c.Do("GET", "/me", nil).Status; got != http.StatusOK {
			t.Fatalf("call %d with the first token answers %d", n+1, got)
		}
	}
}

// A fault can make one sign-in ask for a code, whatever the persona.
func TestTheNextSignInAsksForACode(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	if status, answer := order(t, p, "POST", "faults", `{"scope":"ok@sandbox.test","kind":"challenge","count":1}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	for _, want := range []int{http.StatusForbidden, http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/api/v2/auth/login", strings.NewReader(`{"email":"ok@sandbox.test","password":"good"}`))
		sandboxtest.OK(t, err)
		r.Header.Set("X-Device", "laptop")
		resp, err := http.DefaultClient.Do(r)
		sandboxtest.OK(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("sign-in answers %d, want %d", resp.StatusCode, want)
		}
	}
}
