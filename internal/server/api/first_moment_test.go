package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// connectByEveryMethod connects one creator with each connect method and returns the accounts by method.
func connectByEveryMethod(t *testing.T, n *testnode.Node, o testnode.Org) map[string]string {
	t.Helper()
	session := func(login string) map[string]any {
		r := n.Call(t, http.MethodPost, "/v1/sandbox/session", o.Key, map[string]any{"login": login})
		if r.Status != http.StatusOK {
			t.Fatalf("open a session: %d %s", r.Status, r.Body)
		}
		return r.JSON()
	}
	login := func() string { return "ok+" + random(t) + "@sandbox.test" }
	again := login()
	accounts := map[string]string{}
	for _, method := range []struct {
		name, path string
		body       map[string]any
	}{
		{"password", "/v1/connect/login", map[string]any{"email": login(), "password": "good"}},
		{"cookie", "/v1/connect/cookie", bodies["connectCookie"](session(login()))},
		{"curl", "/v1/connect/curl", bodies["connectCurl"](session(login()))},
		{"qr", "/v1/connect/mobile", map[string]any{}},
		{"first of two", "/v1/connect/login", map[string]any{"email": again, "password": "good"}},
		{"reconnect", "/v1/connect/cookie", bodies["connectCookie"](session(again))},
	} {
		r := held(t, n, o.Key, method.path, method.body)
		if method.name == "qr" {
			attempt, _ := r.JSON()["attempt_id"].(string)
			r = held(t, n, o.Key, "/v1/sandbox/attempts/"+attempt+"/advance", map[string]any{"to": "approve"})
		}
		for r.Status < 300 && r.JSON()["state"] == "pending" {
			r = n.Call(t, http.MethodGet, "/v1/connect/login/"+r.JSON()["attempt_id"].(string)+"?wait=20", o.Key, nil)
		}
		account, _ := r.JSON()["account_id"].(string)
		if account == "" || r.JSON()["state"] != "completed_success" {
			t.Fatalf("%s: %d %s", method.name, r.Status, r.Body)
		}
		accounts[method.name] = account
		send(t, n, o, account, method.name)
	}
	if accounts["first of two"] != accounts["reconnect"] {
		t.Fatal("connecting the same creator again made a second account")
	}
	return accounts
}

// send sends a message from an account to its first fan.
func send(t *testing.T, n *testnode.Node, o testnode.Org, account, text string) {
	t.Helper()
	var read struct{ Account struct{ OfUserID string } }
	r := n.Call(t, http.MethodGet, "/v1/accounts/"+account, o.Key, nil)
	if err := json.Unmarshal(r.Body, &read); err != nil || read.Account.OfUserID == "" {
		t.Fatalf("read the account: %d %s", r.Status, r.Body)
	}
	r = n.Call(t, http.MethodPost, "/v1/accounts/"+account+"/messages/send", o.Key, map[string]any{"chatId": read.Account.OfUserID + "0000000001", "text": text})
	if r.Status != http.StatusOK {
		t.Fatalf("send %q: %d %s", text, r.Status, r.Body)
	}
}

// requireLogged reads the account's events from the oldest until it finds one of the kind that contains the text. It
// fails the test if there is none.
func requireLogged(t *testing.T, n *testnode.Node, o testnode.Org, account, kind, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := withHeader(t, http.MethodGet, n.URL+"/v1/accounts/"+account+"/events?last_event_id=0", o.Key, nil, "Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req.WithContext(ctx))
	must.OK(t, err)
	defer resp.Body.Close()
	var kinds []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var e struct {
			Event string
			Data  json.RawMessage
			Meta  struct{ Seq *int64 }
		}
		line, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || json.Unmarshal([]byte(line), &e) != nil || e.Event == "" {
			continue
		}
		if e.Meta.Seq == nil { // An ephemeral event is not in the log.
			continue
		}
		if kinds = append(kinds, e.Event); kinds[0] != "account.connected" {
			t.Fatalf("the first event of %s is %s", account, kinds[0])
		}
		if e.Event == kind && contains(e.Data, text) {
			return
		}
	}
	t.Errorf("%s %q is not in the log of %s: %d %v", kind, text, account, resp.StatusCode, kinds)
}

// contains reports whether a text is a value in a JSON document.
func contains(document json.RawMessage, text string) bool {
	var walk func(any) bool
	walk = func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == text || v == "<p>"+text+"</p>"
		case []any:
			for _, one := range v {
				if walk(one) {
					return true
				}
			}
		case map[string]any:
			for _, one := range v {
				if walk(one) {
					return true
				}
			}
		}
		return false
	}
	var v any
	return json.Unmarshal(document, &v) == nil && walk(v)
}

// An event that happens after an attempt returned completed_success is in the account's log, whatever the connect
// method, even if the listener starts later on another node, as after a crash of the node that connected the account.
func TestEventAfterSuccessIsLoggedWhenListenerStartsLate(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	setup.Database, setup.Keyset, setup.Roles = testenv.DatabaseURL(t), filepath.Join(t.TempDir(), "keyset.json"), []string{"api", "worker"}
	noListener := testnode.Nodes(t, 1, setup)[0]
	o := noListener.NewOrg(t, nil)
	accounts := connectByEveryMethod(t, noListener, o)
	setup.Roles = []string{"api", "listener"}
	testnode.Nodes(t, 1, setup)
	for method, account := range accounts {
		requireLogged(t, noListener, o, account, "messageSent", method)
	}
}

// The same with one node that has all roles, for calls and for sandbox events. Nothing waits for the listener.
func TestEventAfterSuccessIsLogged(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	o := node.NewOrg(t, nil)
	for method, account := range connectByEveryMethod(t, node, o) {
		requireLogged(t, node, o, account, "messageSent", method)
	}
	for n := range 5 {
		for path, body := range map[string]map[string]any{
			"fire_event": {"event": "message", "data": map[string]any{"text": fmt.Sprint("fired ", n)}},
			"act":        {"do": "message", "text": fmt.Sprint("fired ", n)},
		} {
			account := connected(t, node, o)
			if r := node.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/"+path, o.Key, body); r.Status != http.StatusAccepted {
				t.Fatalf("%s: %d %s", path, r.Status, r.Body)
			}
			requireLogged(t, node, o, account, "message", fmt.Sprint("fired ", n))
		}
	}
}

// A sign-in has just read the creator's profile, so no probe reads it again while the account becomes active. A fault
// that is set for one call right after connecting is still there for the caller's call.
func TestNewAccountIsNotProbedAfterItsSignIn(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	node := testnode.Nodes(t, 1, setup)[0]
	o := node.NewOrg(t, nil)
	login := "ok+" + random(t) + "@sandbox.test"
	account, _ := held(t, node, o.Key, "/v1/connect/login", map[string]any{"email": login, "password": "good"}).JSON()["account_id"].(string)
	fault := node.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fault", o.Key, map[string]any{"kind": "error", "value": http.StatusConflict, "count": 1})
	if fault.Status != http.StatusAccepted {
		t.Fatalf("set a fault: %d %s", fault.Status, fault.Body)
	}
	requireLogged(t, node, o, account, "account.connected", "active")
	r, err := testnode.Do(t.Context(), http.MethodGet, setup.Sandbox+"/control/requests?login="+url.QueryEscape(login), "", nil)
	must.OK(t, err)
	if n := strings.Count(string(r.Body), `/me"`); n != 1 {
		t.Errorf("the profile was read %d times: %s", n, r.Body)
	}
	for _, want := range []bool{false, true} {
		if r := node.Call(t, http.MethodGet, "/v1/accounts/"+account+"/me", o.Key, nil); r.Status == http.StatusOK != want {
			t.Errorf("the profile: %d %s", r.Status, r.Body)
		}
	}
}
