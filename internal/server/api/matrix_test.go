package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// These tests iterate over the table of operations, so new operations are covered without a change here. An operation with
// a parameter for which they cannot make an id fails them.

// made creates something in an org and returns its id.
type made func(t *testing.T, n *testnode.Node, o testnode.Org) string

// resources has, for each path segment before a parameter, a function that creates an object and one that returns an
// unknown id of the same form.
var resources = map[string]struct {
	existing made
	unknown  func() string
}{
	"keys": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			return n.Mint(t, o.Key).KeyID
		},
		func() string { return string(id.New[id.Key]()) },
	},
	"accounts": {connected, func() string { return string(id.New[id.Account]()) }},
	"login":    {attempted, func() string { return string(id.New[id.Attempt]()) }},
	"attempts": {attempted, func() string { return string(id.New[id.Attempt]()) }},
	"members": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			return joined(t, n, o, "developer").Person
		},
		func() string { return string(id.New[id.Person]()) },
	},
	"invitations": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			r := n.Call(t, http.MethodPost, "/v1/org/invitations", o.Key, map[string]any{"email": random(t) + "@example.test", "role": "developer"})
			made, _ := r.JSON()["invitation"].(map[string]any)
			found, _ := made["id"].(string)
			if found == "" {
				t.Fatalf("invite: %d %s", r.Status, r.Body)
			}
			return found
		},
		func() string { return string(id.New[id.Invitation]()) },
	},
	"support-access": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			r := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+o.ID+"/access", map[string]any{"reason": "a test"})
			made, _ := r.JSON()["access"].(map[string]any)
			found, _ := made["id"].(string)
			if found == "" {
				t.Fatalf("request access: %d %s", r.Status, r.Body)
			}
			return found
		},
		func() string { return string(id.New[id.SupportAccess]()) },
	},
	"me sessions": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			list, _ := joined(t, n, o, "developer").Do(t, http.MethodGet, "/v1/me/sessions", nil).JSON()["sessions"].([]any)
			if len(list) == 0 {
				t.Fatal("no browser is signed in")
			}
			return list[0].(map[string]any)["id"].(string)
		},
		func() string { return string(id.New[id.BrowserSession]()) },
	},
	"webhook-endpoints": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			r := n.Call(t, http.MethodPost, "/v1/webhook-endpoints", o.Key, map[string]any{"url": "http://127.0.0.1:9/hook"})
			made, _ := r.JSON()["endpoint"].(map[string]any)
			found, _ := made["id"].(string)
			if found == "" {
				t.Fatalf("create an endpoint: %d %s", r.Status, r.Body)
			}
			return found
		},
		func() string { return string(id.New[id.Endpoint]()) },
	},
	"jobs": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			return n.AddJob(t, o.ID)
		},
		func() string { return string(id.New[id.Job]()) },
	},
	"events":     {happened, func() string { return string(id.New[id.Event]()) }},
	"deliveries": {tried, func() string { return string(id.New[id.Delivery]()) }},
	"logs": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			return n.Call(t, http.MethodGet, "/v1/me", o.Key, nil).Header.Get("X-Request-Id")
		},
		func() string { return string(id.New[id.Request]()) },
	},
	"sessions": {
		func(t *testing.T, n *testnode.Node, o testnode.Org) string {
			t.Helper()
			r := n.Call(t, http.MethodPost, "/v1/connect/sessions", o.Key, map[string]any{})
			session, _ := r.JSON()["session"].(map[string]any)
			found, _ := session["id"].(string)
			if found == "" {
				t.Fatalf("create a session: %d %s", r.Status, r.Body)
			}
			return found
		},
		func() string { return string(id.New[id.Session]()) },
	},
}

func joined(t *testing.T, n *testnode.Node, o testnode.Org, role string) *testnode.Browser {
	t.Helper()
	return n.Join(t, o.ID, random(t)+"@example.test", role)
}

// ownersOnly are operations on an object that refuse keys before they look for it.
var ownersOnly = map[string]bool{"grantSupportAccess": true, "revokeSupportAccess": true}

// happened returns the id of an event of a new account.
func happened(t *testing.T, n *testnode.Node, o testnode.Org) string {
	t.Helper()
	return happenedTo(t, n, o.Key, connected(t, n, o))
}

func happenedTo(t *testing.T, n *testnode.Node, key, account string) string {
	t.Helper()
	n.Call(t, http.MethodPatch, "/v1/accounts/"+account, key, map[string]any{"label": "another " + random(t)})
	r, err := testnode.Send(withHeader(t, http.MethodGet, n.URL+"/v1/accounts/"+account+"/events?events=account.updated&wait=25", key, nil, "Accept", "application/json"))
	must.OK(t, err)
	list, _ := r.JSON()["events"].([]any)
	if len(list) == 0 {
		t.Fatalf("nothing happened: %d %s", r.Status, r.Body)
	}
	return list[0].(map[string]any)["id"].(string)
}

// tried returns the id of a delivery to the webhook of a new account.
func tried(t *testing.T, n *testnode.Node, o testnode.Org) string {
	t.Helper()
	return triedOn(t, n, o.Key, connected(t, n, o))
}

func triedOn(t *testing.T, n *testnode.Node, key, account string) string {
	t.Helper()
	hook := "/v1/accounts/" + account + "/webhook"
	n.Call(t, http.MethodPut, hook, key, map[string]any{"url": unreachable})
	n.Call(t, http.MethodPost, hook+"/test", key, nil)
	return firstDelivery(t, n, key, hook+"/deliveries?wait=25")
}

// inner has, for each second parameter of a path below an account, a function that creates such an object of the account,
// and an unknown id of the same form.
var inner = map[string]struct {
	existing func(t *testing.T, n *testnode.Node, key, account string) string
	unknown  string
}{
	"eventId":    {happenedTo, "evt_01k9x5ahzre4bb3069xb2way0g"},
	"deliveryId": {triedOn, someDelivery},
	"uploadId":   {uploaded, "3438267821400000001"},
	"mediaId":    {mediaOf, "3438267821200000009"},
}

// uploaded starts an upload to an account and returns its id.
func uploaded(t *testing.T, n *testnode.Node, key, account string) string {
	t.Helper()
	r := n.Call(t, http.MethodPost, "/v1/accounts/"+account+"/uploads/init", key, map[string]any{"fileName": "film.mp4", "size": 21, "mimeType": "video/mp4"})
	result, _ := r.JSON()["result"].(map[string]any)
	found, _ := result["id"].(string)
	if found == "" {
		t.Fatalf("start an upload: %d %s", r.Status, r.Body)
	}
	return found
}

// mediaOf returns the id of a picture in the vault of an account.
func mediaOf(t *testing.T, n *testnode.Node, key, account string) string {
	t.Helper()
	r := n.Call(t, http.MethodGet, "/v1/accounts/"+account+"/vault/list?type=photo&limit=1", key, nil)
	result, _ := r.JSON()["result"].(map[string]any)
	items, _ := result["items"].([]any)
	if len(items) == 0 {
		t.Fatalf("list the vault: %d %s", r.Status, r.Body)
	}
	return items[0].(map[string]any)["id"].(string)
}

// firstDelivery waits until a list of deliveries has one, and returns its id.
func firstDelivery(t *testing.T, n *testnode.Node, key, path string) string {
	t.Helper()
	var r testnode.Reply
	for range 6 { // One wait may be too short on a busy machine.
		r = n.Call(t, http.MethodGet, path, key, nil)
		if list, _ := r.JSON()["deliveries"].([]any); len(list) > 0 {
			return list[0].(map[string]any)["id"].(string)
		}
	}
	t.Fatalf("nothing was delivered: %d %s", r.Status, r.Body)
	return ""
}

// attempted returns the id of an attempt that waits for the creator.
func attempted(t *testing.T, n *testnode.Node, o testnode.Org) string {
	t.Helper()
	r := held(t, n, o.Key, "/v1/connect/mobile", map[string]any{})
	found, _ := r.JSON()["attempt_id"].(string)
	if found == "" {
		t.Fatalf("start an attempt: %d %s", r.Status, r.Body)
	}
	return found
}

// bodies return a valid body where the example of an operation cannot be valid, because it would need a session.
var bodies = map[string]func(session map[string]any) map[string]any{
	"connectCookie": func(s map[string]any) map[string]any {
		return map[string]any{"cookie": s["cookie"], "user_agent": s["userAgent"], "headers": s["headers"]}
	},
	"connectCurl": func(s map[string]any) map[string]any { return map[string]any{"curl": s["curl"]} },
	"putWebhook":  func(map[string]any) map[string]any { return map[string]any{"url": unreachable} },

	"setNotices":            func(map[string]any) map[string]any { return map[string]any{"slackUrl": unreachable} },
	"createWebhookEndpoint": func(map[string]any) map[string]any { return map[string]any{"url": unreachable} },
}

// unreachable is a URL that never responds.
const unreachable = "http://127.0.0.1:9/hook"

// hooked creates the webhook that an operation on an account needs, and returns the path of the operation.
func hooked(t *testing.T, n *testnode.Node, key, operation, path string) string {
	t.Helper()
	if operation == "redeliverToWebhookEndpoint" {
		deliveries, _, _ := strings.Cut(path, "/"+someDelivery)
		list, _ := n.Call(t, http.MethodGet, "/v1/accounts", key, nil).JSON()["accounts"].([]any)
		if len(list) == 0 {
			t.Fatal("no account has an event to deliver")
		}
		of, _ := list[0].(map[string]any)["id"].(string)
		n.Call(t, http.MethodPatch, "/v1/accounts/"+of, key, map[string]any{"label": "yet another"})
		return strings.Replace(path, someDelivery, firstDelivery(t, n, key, deliveries+"?event=account.updated&wait=25"), 1)
	}
	hook, rest, found := strings.Cut(path, "/webhook")
	if !found || operation == "putWebhook" || strings.HasPrefix(path, "/v1/webhook-endpoints") {
		return path
	}
	hook += "/webhook"
	if r := n.Call(t, http.MethodPut, hook, key, map[string]any{"url": unreachable}); r.Status != http.StatusOK {
		t.Fatalf("create a webhook: %d %s", r.Status, r.Body)
	}
	switch operation {
	case "resumeWebhook":
		n.Call(t, http.MethodPost, hook+"/pause", key, nil)
	case "redeliver":
		n.Call(t, http.MethodPatch, strings.TrimSuffix(hook, "/webhook"), key, map[string]any{"label": "another"})
		rest = strings.Replace(rest, someDelivery, firstDelivery(t, n, key, hook+"/deliveries?wait=25"), 1)
	}
	return hook + rest
}

const someDelivery = "whd_01k9x5ahzre4bb3069xb2way0g"

func workingBody(t *testing.T, n *testnode.Node, o testnode.Org, op endpoint.Operation) any {
	t.Helper()
	if op.ID == "connectToken" {
		return map[string]any{"platform": "sites", "site": n.Site, "token": "good-00ff"}
	}
	make, ok := bodies[op.ID]
	if !ok {
		return exampleBody(op)
	}
	return make(n.Call(t, http.MethodPost, "/v1/sandbox/session", o.Key, map[string]any{"login": "ok+" + random(t) + "@sandbox.test"}).JSON())
}

// segment returns the path segment before the first parameter: keys in /v1/me/keys/{id}.
func segment(path string) string {
	before, _, _ := strings.Cut(path, "/{")
	if before == "/v1/me/sessions" {
		return "me sessions" // Sessions of browsers; others are those of creators.
	}
	return before[strings.LastIndexByte(before, '/')+1:]
}

// others replace the further parameters of a path, and add required query parameters.
var others = map[string]*strings.Replacer{
	"callMethod":    strings.NewReplacer("{resource}", "messages", "{method}", "send"),
	"readMethod":    strings.NewReplacer("{resource}", "me", "{method}", "get"),
	"downloadMedia": strings.NewReplacer("{mediaId}", "1"),
	"fetchMedia":    strings.NewReplacer("/media", "/media?url=http%3A%2F%2F127.0.0.1%2Fmedia%2F1%2Ffull"),
	"getEvent":      strings.NewReplacer("{eventId}", "evt_01k9x5ahzre4bb3069xb2way0g"),
	"getDelivery":   strings.NewReplacer("{deliveryId}", someDelivery),
	"redeliver":     strings.NewReplacer("{deliveryId}", someDelivery),

	"getWebhookEndpointDelivery": strings.NewReplacer("{deliveryId}", someDelivery),
	"redeliverToWebhookEndpoint": strings.NewReplacer("{deliveryId}", someDelivery),
	"uploadMediaPart":            strings.NewReplacer("{uploadId}", "1", "{number}", "1"),
}

// fill replaces the first parameter of a path with an id.
func fill(op endpoint.Operation, id string) string {
	start, end := strings.IndexByte(op.Path, '{'), strings.IndexByte(op.Path, '}')
	rest := op.Path[end+1:]
	if more := others[op.ID]; more != nil {
		rest = more.Replace(rest)
	}
	return op.Path[:start] + id + rest
}

// endless operations stream unless a page is requested.
var endless = map[string]bool{"streamAccountEvents": true, "streamEvents": true}

func ask(t *testing.T, n *testnode.Node, op endpoint.Operation, path, key string) testnode.Reply {
	t.Helper()
	if !endless[op.ID] {
		return n.Call(t, op.Method, path, key, exampleBody(op))
	}
	req, err := http.NewRequestWithContext(t.Context(), op.Method, n.URL+path, nil)
	must.OK(t, err)
	req.Header.Set("Accept", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

func exampleBody(op endpoint.Operation) any {
	if op.HasBody() {
		return op.Example
	}
	return nil
}

// Every operation refuses a key that lacks its scope and names the scope, whatever other scopes the key has.
func TestScopeMatrix(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	all := scope.Everyday().Scopes()
	keys := map[string]string{} // By the names of their scopes.
	keyWith := func(scopes []scope.Scope) string {
		names := scope.Of(scopes...).Names()
		name := strings.Join(names, " ")
		if keys[name] == "" {
			keys[name] = node.Mint(t, owner.Key, names...).Key
		}
		return keys[name]
	}
	cases := 0
	for _, op := range node.App.API().Operations() {
		if op.Public {
			continue
		}
		path := op.Path
		if len(endpoint.Parameters(path)) > 0 {
			path = fill(op, unknownID(t, op))
		}
		call := func(key string) testnode.Reply {
			cases++
			return ask(t, node, op, path, key)
		}
		if r := call(""); r.Status != http.StatusUnauthorized || r.Code() != "key-missing" {
			t.Errorf("%s without a key: %d %s", op.ID, r.Status, r.Body)
		}
		for _, one := range all {
			r := call(keyWith([]scope.Scope{one}))
			// Some bodies need further scopes.
			refused := r.Code() == "scope-missing" && r.JSON()["missingScope"] == op.Scope.String()
			if opened := op.Scope == scope.Any || op.Scope == one; opened == refused {
				t.Errorf("%s with %s alone: %d %s", op.ID, one, r.Status, r.Body)
			}
		}
		if op.Scope == scope.Any {
			continue
		}
		r := call(keyWith(slices.DeleteFunc(slices.Clone(all), func(s scope.Scope) bool { return s == op.Scope })))
		if r.Status != http.StatusForbidden || r.JSON()["missingScope"] != op.Scope.String() {
			t.Errorf("%s with all but %s: %d %s", op.ID, op.Scope, r.Status, r.Body)
		}
	}
	t.Logf("%d cases", cases)
}

// Every method of the catalogue refuses a key without sdk:call, and a key whose list of methods does not allow it. A key
// whose list allows only this method is accepted.
func TestMethodScopeMatrix(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	account := connected(t, node, owner)
	others := scope.Of(slices.DeleteFunc(slices.Clone(scope.Everyday().Scopes()), func(s scope.Scope) bool { return s == scope.SDKCall })...)
	scopeless := node.Mint(t, owner.Key, others.Names()...).Key
	methods := sandboxCatalog(t).Methods()
	before := mintWith(t, node, owner.Key, map[string]any{"methods": []string{methods[len(methods)-1].ID()}})
	cases := 0
	for _, m := range methods {
		path := "/v1/accounts/" + account + "/" + m.Resource + "/" + m.Name
		// call returns the response to a dry run, which reaches no platform.
		call := func(verb, key string) testnode.Reply {
			cases++
			var body any
			if verb == http.MethodPost {
				body = decodeJSON(t, m.Example)
			}
			r, err := testnode.Send(withHeader(t, verb, node.URL+path, key, body, "X-Dry-Run", "true"))
			must.OK(t, err)
			return r
		}
		only := mintWith(t, node, owner.Key, map[string]any{"methods": []string{m.ID()}})
		for _, verb := range []string{http.MethodPost, http.MethodGet} {
			if verb == http.MethodGet && m.Access != catalog.Read {
				continue
			}
			if r := call(verb, scopeless); r.Status != http.StatusForbidden || r.JSON()["missingScope"] != "sdk:call" {
				t.Errorf("%s %s without sdk:call: %d %s", verb, m.ID(), r.Status, r.Body)
			}
			// The key of the method before allows that one only.
			if r := call(verb, before); r.Status != http.StatusForbidden || r.Code() != "method-not-allowed-for-key" {
				t.Errorf("%s %s with a key for another method: %d %s", verb, m.ID(), r.Status, r.Body)
			}
			if r := call(verb, only); r.Status != http.StatusOK && (verb == http.MethodPost || r.Status != http.StatusUnprocessableEntity) {
				t.Errorf("%s %s with a key for it: %d %s", verb, m.ID(), r.Status, r.Body)
			}
		}
		before = only
	}
	t.Logf("%d methods, %d cases", len(methods), cases)
}

// Every operation is open to members whose role has its scope, and to no other signed-in user.
func TestRoleMatrix(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	browsers := map[member.Role]*testnode.Browser{}
	for _, role := range member.Roles() {
		browsers[role] = joined(t, node, owner, string(role))
	}
	outsider := *joined(t, node, node.NewOrg(t, unlimited), "owner")
	outsider.Org = owner.ID
	cases := 0
	for _, op := range node.App.API().Operations() {
		if op.Public {
			continue
		}
		path := op.Path
		if len(endpoint.Parameters(path)) > 0 {
			path = fill(op, unknownID(t, op))
		}
		call := func(b *testnode.Browser) testnode.Reply {
			cases++
			return askBrowser(t, b, op, path)
		}
		for role, b := range browsers {
			r := call(b)
			if op.ID == "deleteOrg" && role == member.Owner {
				b.Do(t, http.MethodPost, "/v1/org/restore", nil)
			}
			if opened := role.Scopes().Has(op.Scope); opened == (r.Code() == "scope-missing") || r.Status == http.StatusUnauthorized {
				t.Errorf("%s by %s: %d %s", op.ID, role, r.Status, r.Body)
			}
		}
		if r := call(&outsider); r.Code() != "membership-missing" {
			t.Errorf("%s by a member of another org: %d %s", op.ID, r.Status, r.Body)
		}
	}
	t.Logf("%d cases", cases)
}

// askBrowser calls an operation with its example, as the dashboard does.
func askBrowser(t *testing.T, b *testnode.Browser, op endpoint.Operation, path string) testnode.Reply {
	t.Helper()
	var text []byte
	if body := exampleBody(op); body != nil {
		var err error
		text, err = json.Marshal(body)
		must.OK(t, err)
	}
	req := b.Request(t, op.Method, path, text)
	req.Header.Set("Accept", "application/json")
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return b.Send(t, req)
}

func unknownID(t *testing.T, op endpoint.Operation) string {
	t.Helper()
	r, ok := resources[segment(op.Path)]
	if !ok || len(endpoint.Parameters(op.Path)) != 1 && others[op.ID] == nil {
		t.Fatalf("%s: add %s to resources or others", op.ID, op.Path)
	}
	return r.unknown()
}

// In every operation an id of another org gets the same response as an unknown id, byte for byte and header for header,
// and nothing of the other org changes.
func TestTenantMatrix(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	setup.Database = testenv.DatabaseURL(t)
	node := testnode.Nodes(t, 1, setup)[0]
	leaks, cases := crossTenants(t, node, setup.Database, node.App.API().Operations())
	for _, leak := range leaks {
		t.Error(leak)
	}
	t.Logf("%d cases", cases)
}

// crossTenants calls operations with ids of another org, and returns what they reveal or change.
func crossTenants(t *testing.T, node *testnode.Node, database secret.String, operations []endpoint.Operation) (leaks []string, cases int) {
	t.Helper()
	mine, theirs := node.NewOrg(t, unlimited), node.NewOrg(t, unlimited)
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	leak := func(format string, args ...any) { leaks = append(leaks, fmt.Sprintf(format, args...)) }
	for _, op := range operations {
		if op.Public || len(endpoint.Parameters(op.Path)) == 0 {
			continue
		}
		caller := mine
		if op.Quota == admission.Safety { // All calls of this quota of an org share one small limit.
			caller = node.NewOrg(t, unlimited)
		}
		ask := func(path string) testnode.Reply { return ask(t, node, op, path, caller.Key) }
		if ownersOnly[op.ID] {
			owner := joined(t, node, mine, "owner")
			ask = func(path string) testnode.Reply { return askBrowser(t, owner, op, path) }
		}
		unknown := ask(fill(op, unknownID(t, op)))
		if unknown.Status != http.StatusNotFound {
			leak("%s of an unknown id: %d %s", op.ID, unknown.Status, unknown.Body)
		}
		foreign := resources[segment(op.Path)].existing(t, node, theirs)
		before := rowsOf(t, conn, theirs.ID)
		for _, path := range []string{
			fill(op, foreign), fill(op, "x"), fill(op, theirs.ID), fill(op, foreign+"0"),
			fill(op, strings.ToUpper(foreign)), fill(op, "%00"), fill(op, "%27%20OR%201=1"),
		} {
			cases++
			r := ask(path)
			if r.Status != unknown.Status || anonymous(t, r.Body) != anonymous(t, unknown.Body) || !sameHeaders(r.Header, unknown.Header) {
				leak("%s %s reveals more than an unknown id:\n%d %s\n%d %s", op.Method, path, r.Status, r.Body, unknown.Status, unknown.Body)
			}
		}
		if after := rowsOf(t, conn, theirs.ID); after != before {
			leak("%s changed data of another org", op.ID)
		}
	}
	// Objects of the other org's account are not found below an account of one's own either.
	var account, foreign string
	for _, op := range operations {
		parameters := endpoint.Parameters(op.Path)
		if op.Public || len(parameters) < 2 || op.ID == "callMethod" || op.ID == "readMethod" {
			continue
		}
		second, ok := inner[parameters[1]]
		if !ok {
			t.Fatalf("%s: add %s to inner", op.ID, parameters[1])
		}
		if account == "" {
			account, foreign = connected(t, node, mine), connected(t, node, theirs)
			triedOn(t, node, mine.Key, account) // an account without a webhook has another 404
		}
		own, other, missing := account, foreign, "account-not-found"
		object := second.existing(t, node, theirs.Key, foreign)
		if of := segment(op.Path); of == "webhook-endpoints" {
			own, other, missing = resources[of].existing(t, node, mine), resources[of].existing(t, node, theirs), "endpoint-not-found"
			node.Call(t, http.MethodPost, "/v1/webhook-endpoints/"+other+"/test", theirs.Key, nil)
			object = firstDelivery(t, node, theirs.Key, "/v1/webhook-endpoints/"+other+"/deliveries?wait=25")
		}
		call := func(account, object string) testnode.Reply {
			cases++
			path := strings.NewReplacer("{"+parameters[0]+"}", account, "{"+parameters[1]+"}", object, "{number}", "1").Replace(op.Path)
			if op.ID != "uploadMediaPart" {
				return ask(t, node, op, path, mine.Key)
			}
			r, err := testnode.Send(withHeader(t, op.Method, node.URL+path, mine.Key, "a part", "Content-Type", "application/octet-stream"))
			must.OK(t, err)
			return r
		}
		unknown, r := call(own, second.unknown), call(own, object)
		if unknown.Status != http.StatusNotFound {
			leak("%s of an unknown %s: %d %s", op.ID, parameters[1], unknown.Status, unknown.Body)
		}
		if r.Status != unknown.Status || anonymous(t, r.Body) != anonymous(t, unknown.Body) || !sameHeaders(r.Header, unknown.Header) {
			leak("%s of a %s of another org reveals more than an unknown one:\n%d %s\n%d %s",
				op.ID, parameters[1], r.Status, r.Body, unknown.Status, unknown.Body)
		}
		if r := call(other, object); r.Status != http.StatusNotFound || r.Code() != missing {
			leak("%s of a %s below the other org's account: %d %s", op.ID, parameters[1], r.Status, r.Body)
		}
	}
	// Lists show nothing of the other org either.
	for _, op := range operations {
		if op.Public || op.Method != http.MethodGet || len(endpoint.Parameters(op.Path)) > 0 {
			continue
		}
		cases++
		if r := ask(t, node, op, op.Path, mine.Key); strings.Contains(string(r.Body), theirs.ID) || strings.Contains(string(r.Body), theirs.KeyID) {
			leak("%s shows ids of another org", op.ID)
		}
	}
	return leaks, cases
}

// anonymous returns a body without the id of its request.
func anonymous(t *testing.T, body []byte) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	delete(m, "instance")
	delete(m, "logUrl")
	text, err := json.Marshal(m)
	must.OK(t, err)
	return string(text)
}

// sameHeaders compares the names of headers, and the values of those that do not vary between requests.
func sameHeaders(a, b http.Header) bool {
	names := func(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }
	if !slices.Equal(names(a), names(b)) {
		return false
	}
	for _, name := range []string{"Content-Type", "Link", "Cache-Control"} {
		if a.Get(name) != b.Get(name) {
			return false
		}
	}
	return true
}

// rowsOf returns the rows of an org as text, without usage counters, which change when they are read, and without the
// mark of the last anchor, which changes every minute.
func rowsOf(t *testing.T, conn *pgx.Conn, org string) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"api_key", "audit_entry", "audit_head"} {
		rows, err := conn.Query(t.Context(), "SELECT (to_jsonb(t) - 'anchored')::text FROM "+table+" t WHERE org_id = $1 ORDER BY 1", org)
		must.OK(t, err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must.OK(t, err)
		all.WriteString(strings.Join(texts, "\n"))
	}
	return all.String()
}

var unlimited = map[string]int{
	"callsPerMinute": -1, "callsPerMonth": -1, "maxKeys": -1, "maxAccounts": -1,
	"accountReadPerMinute": -1, "accountWritePerMinute": -1, "connectAttemptsPerHour": -1,
}

// awaitActive calls an account until it is active.
func awaitActive(t *testing.T, n *testnode.Node, key, path string) {
	t.Helper()
	testenv.Await(t, path+" is active", func() bool {
		n.Call(t, http.MethodGet, path+"/me", key, nil)
		r := n.Call(t, http.MethodGet, path, key, nil)
		return strings.Contains(string(r.Body), `"state":"active"`)
	})
}

// deleteAndRestore deletes the org of an owner and restores it. It returns the responses of both operations.
func deleteAndRestore(t *testing.T, owner *testnode.Browser) map[string]testnode.Reply {
	t.Helper()
	deleted := owner.Do(t, http.MethodDelete, "/v1/org", nil)
	restored := owner.Do(t, http.MethodPost, "/v1/org/restore", nil)
	return map[string]testnode.Reply{"deleteOrg": deleted, "restoreOrg": restored}
}

// uploadItems gives items to a bulk job that waits for them.
func uploadItems(t *testing.T, node *testnode.Node, owner testnode.Org) testnode.Reply {
	t.Helper()
	started := node.Call(t, http.MethodPost, "/v1/jobs", owner.Key, map[string]any{"kind": "bulk", "method": "messages.send"})
	job, _ := started.JSON()["job"].(map[string]any)
	account := node.ConnectLogin(t, owner.Key, "ok+items"+owner.ID+"@sandbox.test", "us")
	item := `{"accountId": "` + account + `", "args": {"chatId": "1", "text": "Hi"}}` + "\n"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("%s/v1/jobs/%v/items", node.URL, job["id"]), strings.NewReader(item))
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+owner.Key)
	req.Header.Set("Content-Type", "application/x-ndjson")
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

// An operation that changes something writes exactly one audit entry, with its declared action, and only if it
// succeeds. The result of an attempt is a separate entry.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSites(t))[0]
	owner := node.NewOrg(t, unlimited)
	// entries returns the actions that were recorded for a request.
	entries := func(of testnode.Reply) (actions []string) {
		r := node.Call(t, http.MethodGet, "/v1/me/audit?limit=100", owner.Key, nil)
		list, _ := r.JSON()["entries"].([]any)
		for _, one := range list {
			e := one.(map[string]any)
			if action := e["action"].(string); e["requestId"] == of.Header.Get("X-Request-Id") && action != "account.connect" {
				actions = append(actions, action)
			}
		}
		return actions
	}
	for _, op := range node.App.API().Operations() {
		if op.Audit == "" {
			continue
		}
		path := op.Path
		if len(endpoint.Parameters(path)) > 0 {
			failed := node.Call(t, op.Method, fill(op, unknownID(t, op)), owner.Key, exampleBody(op))
			if left := entries(failed); len(left) > 0 {
				t.Errorf("%s failed with %d but recorded %v", op.ID, failed.Status, left)
			}
			path = fill(op, resources[segment(path)].existing(t, node, owner))
		}
		path = hooked(t, node, owner.Key, op.ID, path)
		switch op.ID {
		case "resumeAccount":
			node.Call(t, http.MethodPost, strings.TrimSuffix(path, "resume")+"pause", owner.Key, nil)
		case "reauthenticate":
			awaitActive(t, node, owner.Key, strings.TrimSuffix(path, "/reauthenticate"))
		}
		var r testnode.Reply
		switch {
		case op.ID == "deleteOrg" || op.ID == "restoreOrg":
			r = deleteAndRestore(t, joined(t, node, owner, "owner"))[op.ID]
		case ownersOnly[op.ID]:
			r = askBrowser(t, joined(t, node, owner, "owner"), op, path)
		case op.ID == "putJobItems":
			r = uploadItems(t, node, owner)
		default:
			r = node.Call(t, op.Method, path, owner.Key, workingBody(t, node, owner, op))
		}
		if r.Status != op.Status {
			t.Fatalf("%s: %d %s", op.ID, r.Status, r.Body)
		}
		if left := entries(r); !slices.Equal(left, []string{op.Audit}) {
			t.Errorf("%s recorded %v", op.ID, left)
		}
	}
	r := node.Operate(t, http.MethodGet, "/admin/v1/orgs/"+owner.ID+"/audit/verification", nil)
	if r.Status != http.StatusOK || r.JSON()["intact"] != true {
		t.Errorf("the audit chain is broken: %d %s", r.Status, r.Body)
	}
}
