package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// What is switched off on one node is off on the others within seconds: connects, writes, webhooks, a region, a proxy.
// Reads continue, waiting events are not lost, and everything works again after it is switched on.
func TestSwitchesAreFeltOnEveryNode(t *testing.T) {
	t.Parallel()
	nodes := testnode.Nodes(t, 2, withSandbox(t))
	here, there := nodes[0], nodes[1]
	o := here.NewOrg(t, nil)
	account, _ := connect(t, here, o, nil)
	address, had := receiver(t)
	if r := here.Call(t, http.MethodPut, "/v1/accounts/"+account+"/webhook", o.Key, map[string]any{"url": address + "/hook", "events": []string{"message"}}); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	turn := func(name string, on bool) time.Time {
		t.Helper()
		r := here.Operate(t, http.MethodPut, "/admin/v1/switches", map[string]any{"switches": map[string]bool{name: on}, "reason": "a test"})
		if r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		return time.Now()
	}
	takesEffect := func(what string, since time.Time, holds func() bool) {
		t.Helper()
		testenv.Await(t, what, holds)
		if took := time.Since(since); proof.Running() && took > 5*time.Second {
			t.Errorf("%s took %s", what, took)
		}
	}
	write := func(n *testnode.Node) testnode.Reply {
		return n.Call(t, http.MethodPost, "/v1/accounts/"+account+"/messages/send", o.Key, map[string]any{"chatId": "3438267820000000001", "text": "Hi"})
	}
	read := func(n *testnode.Node) testnode.Reply {
		return n.Call(t, http.MethodPost, "/v1/accounts/"+account+"/fans/list", o.Key, map[string]any{"limit": 1})
	}
	off := func(r testnode.Reply, code string) bool {
		return r.Status == http.StatusServiceUnavailable && r.Code() == code
	}

	since := turn("writes", false)
	if r := write(here); !off(r, "service-unavailable") || r.JSON()["switch"] != "writes" || r.Header.Get("Retry-After") == "" {
		t.Errorf("on the same node: %d %s", r.Status, r.Body)
	}
	takesEffect("writes are off there", since, func() bool { return off(write(there), "service-unavailable") })
	if r := read(there); r.Status != http.StatusOK {
		t.Errorf("reads do not continue: %d %s", r.Status, r.Body)
	}
	takesEffect("writes are on there", turn("writes", true), func() bool { return !off(write(there), "service-unavailable") })

	since = turn("connects", false)
	start := func() testnode.Reply {
		return there.Call(t, http.MethodPost, "/v1/connect/login", o.Key, map[string]any{"email": "otp@sandbox.test", "password": "good", "supersede": true})
	}
	takesEffect("connects are off there", since, func() bool { return off(start(), "service-unavailable") })
	takesEffect("connects are on there", turn("connects", true), func() bool { return start().Status == http.StatusAccepted })

	since = turn("region/us", false)
	takesEffect("the region is off there", since, func() bool { return off(read(there), "egress-unavailable") })
	takesEffect("the region is on there", turn("region/us", true), func() bool { return read(there).Status == http.StatusOK })

	for _, proxy := range []string{"0", "1"} {
		if r := here.Operate(t, http.MethodPost, "/admin/v1/egress/us/"+proxy+"/drain", map[string]any{"reason": "a test"}); r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	takesEffect("both proxies are drained there", time.Now(), func() bool { return off(read(there), "egress-unavailable") })
	here.Operate(t, http.MethodPost, "/admin/v1/egress/us/1/undrain", nil)
	takesEffect("one is used again there", time.Now(), func() bool { return read(there).Status == http.StatusOK })
	here.Operate(t, http.MethodPost, "/admin/v1/egress/us/0/undrain", nil)

	since = turn("webhooks", false)
	takesEffect("webhooks are off there", since, func() bool {
		return off(there.Call(t, http.MethodPost, "/v1/accounts/"+account+"/webhook/test", o.Key, nil), "service-unavailable")
	})
	testenv.Await(t, "the account is listened to", func() bool {
		shown := here.Call(t, http.MethodGet, "/v1/accounts/"+account, o.Key, nil).JSON()["account"]
		return part(t, shown, "listener", "state") == "up"
	})
	before := had.Load()
	for range 3 {
		if r := here.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fire_event", o.Key, map[string]any{"event": "message"}); r.Status != http.StatusAccepted {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	testenv.Await(t, "the lane waits", func() bool {
		lanes := here.Operate(t, http.MethodGet, "/admin/v1/webhooks/lanes?state=lagging", nil).JSON()["lanes"].([]any)
		return len(lanes) == 1 && part(t, lanes[0], "backlog").(float64) >= 3
	})
	if n := had.Load() - before; n != 0 {
		t.Errorf("%d deliveries while they were held back", n)
	}
	turn("webhooks", true)
	testenv.Await(t, "what waited is delivered", func() bool { return had.Load()-before >= 3 })
}

// Operators find accounts of all orgs by id, and with the consent of an org its accounts also by name or label.
func TestFindAccounts(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, withSandbox(t))[0]
	one, other := n.NewOrg(t, nil), n.NewOrg(t, nil)
	luna, _ := connect(t, n, one, map[string]any{"label": "Luna Main"})
	noor, _ := connect(t, n, other, map[string]any{"label": "Noor", "proxy_country": "uk"})
	shown := n.Call(t, http.MethodGet, "/v1/accounts/"+luna, one.Key, nil).JSON()["account"]
	upstream, _ := part(t, shown, "ofUserId").(string)
	username, _ := part(t, shown, "username").(string)
	n.Consent(t, one.ID)
	named := "?names=true&org=" + one.ID
	for query, want := range map[string][]string{
		"":                              {noor, luna},
		"?q=" + luna:                    {luna},
		named:                           {luna},
		named + "&q=luna+m":             {luna},
		named + "&q=LUNA":               {luna},
		named + "&q=" + upstream:        {luna},
		named + "&q=" + username[:4]:    {luna},
		named + "&q=una":                {},
		named + "&q=noor":               {},
		named + "&q=Luna%25":            {},
		"?org=" + other.ID:              {noor},
		"?region=uk":                    {noor},
		"?state=paused":                 {},
		"?limit=1":                      {noor},
		"?limit=1&cursor=" + noor:       {luna},
		"?state=active&org=" + one.ID:   {luna},
		"?region=us&q=" + noor:          {},
		"?cursor=" + luna + "&limit=10": {},
	} {
		list, _ := n.Operate(t, http.MethodGet, "/admin/v1/accounts"+query, nil).JSON()["accounts"].([]any)
		var got []string
		for _, a := range list {
			id, _ := part(t, a, "id").(string)
			got = append(got, id)
			if shown := part(t, a, "username") != nil && part(t, a, "label") != nil && part(t, a, "ofUserId") != nil; shown != strings.HasPrefix(query, named) {
				t.Errorf("%s: names are shown: %t", query, shown)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", query, got, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
	}
}
