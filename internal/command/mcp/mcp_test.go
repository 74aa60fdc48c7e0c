package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stagedoor/stagedoor/internal/command/mcp"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// fixture is a node with a sandbox platform, and an organisation with two accounts.
type fixture struct {
	node     *testnode.Node
	key      string
	accounts [2]string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	_, setup := testnode.Sandbox(t, nil)
	node := testnode.Nodes(t, 1, setup)[0]
	org := node.NewOrg(t, map[string]int{"connectAttemptsPerHour": 100, "accountWritePerMinute": 100, "accountReadPerMinute": 600, "callsPerMinute": 6000})
	r := &fixture{node: node, key: org.Key}
	for i := range r.accounts {
		body := map[string]any{"email": fmt.Sprintf("ok+mcp%d@sandbox.test", i), "password": "good"}
		r.accounts[i] = node.Connect(t, org.Key, "/v1/connect/login", body)
	}
	return r
}

// call sends a request to the node, like the command mcp.
func (r *fixture) call(ctx context.Context, q mcp.Request) (mcp.Response, error) {
	url := r.node.URL + q.Path
	if len(q.Query) > 0 {
		url += "?" + q.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, url, strings.NewReader(string(q.Body)))
	if err != nil {
		return mcp.Response{}, err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Accept", "application/json")
	if len(q.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.DryRun {
		req.Header.Set("X-Dry-Run", "true")
	}
	reply, err := testnode.Send(req)
	return mcp.Response{Status: reply.Status, Body: reply.Body}, err
}

func (r *fixture) server(t *testing.T, o mcp.Options) *mcp.Server {
	t.Helper()
	server, err := mcp.New(t.Context(), mcp.Deps{Call: r.call, Version: "test", Log: slog.New(slog.DiscardHandler)}, o)
	must.OK(t, err)
	return server
}

// overPipes connects a client over two OS pipes, like standard input and output.
func overPipes(t *testing.T, server *mcp.Server) *sdk.ClientSession {
	t.Helper()
	toServer, fromClient, err := os.Pipe()
	must.OK(t, err)
	toClient, fromServer, err := os.Pipe()
	must.OK(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.ServeIO(context.WithoutCancel(t.Context()), toServer, fromServer); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(served.Wait)
	return connect(t, &sdk.IOTransport{Reader: toClient, Writer: fromClient})
}

// overHTTP connects a client over streamable HTTP, with a token.
func overHTTP(t *testing.T, server *mcp.Server) *sdk.ClientSession {
	t.Helper()
	served := httptest.NewServer(server.Handler("a-token", nil))
	t.Cleanup(served.Close)
	return connect(t, &sdk.StreamableClientTransport{Endpoint: served.URL, HTTPClient: &http.Client{Transport: bearer("a-token")}, DisableStandaloneSSE: true})
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "script", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func tools(t *testing.T, session *sdk.ClientSession) map[string]*sdk.Tool {
	t.Helper()
	all := map[string]*sdk.Tool{}
	for tool, err := range session.Tools(t.Context(), nil) {
		must.OK(t, err)
		all[tool.Name] = tool
	}
	return all
}

// use calls a tool and returns its text and structure. It fails the test unless the tool fails exactly
// if failing is set.
func use(t *testing.T, session *sdk.ClientSession, failing bool, name string, args map[string]any) (string, map[string]any) {
	t.Helper()
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text := got.Content[0].(*sdk.TextContent).Text
	if got.IsError != failing {
		t.Fatalf("%s: error %v, want %v: %s", name, got.IsError, failing, text)
	}
	structure, _ := got.StructuredContent.(map[string]any)
	return text, structure
}

// TestReadRefusePreviewPerform checks over pipes and over HTTP that a model can list tools, read an account and preview
// a write, and that it can write only with AllowWrites.
func TestReadRefusePreviewPerform(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, connect := range map[string]func(*testing.T, *mcp.Server) *sdk.ClientSession{"pipes": overPipes, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := connect(t, r.server(t, mcp.Options{}))
			all := tools(t, session)
			if all["chats_list"] == nil || all["messages_send"] != nil || len(all) != 123+6 {
				t.Fatalf("a read-only server lists %d tools; chats_list %v, messages_send %v", len(all), all["chats_list"] != nil, all["messages_send"] != nil)
			}
			if !all["chats_list"].Annotations.ReadOnlyHint {
				t.Error("chats_list has no read-only hint")
			}
			account := r.accounts[0]
			_, got := use(t, session, false, "get_account", map[string]any{"accountId": account})
			if got["account"].(map[string]any)["state"] != "active" {
				t.Errorf("get_account: %v", got)
			}
			_, chats := use(t, session, false, "chats_list", map[string]any{"accountId": account, "limit": 1})
			chat := chats["result"].(map[string]any)["items"].([]any)[0].(map[string]any)["id"].(string)

			text := "hello by " + name
			send := map[string]any{"accountId": account, "chatId": chat, "text": text}
			if refused, _ := use(t, session, true, "messages_send", send); !strings.Contains(refused, "read-only") || !strings.Contains(refused, "preview_write") {
				t.Errorf("refused write: %q", refused)
			}
			preview := map[string]any{"method": "messages.send", "accountId": account, "arguments": map[string]any{"chatId": chat, "text": text}}
			if _, got := use(t, session, false, "preview_write", preview); got["accepted"] != true || got["performed"] != false {
				t.Errorf("preview_write: %v", got)
			}
			preview["arguments"] = map[string]any{"chatId": chat, "texts": text}
			if refused, _ := use(t, session, true, "preview_write", preview); !strings.Contains(refused, "422 validation-failed") {
				t.Errorf("preview with invalid arguments: %q", refused)
			}
			if sent(t, session, account, chat, text) {
				t.Fatal("a refused or previewed message was sent")
			}

			writer := connect(t, r.server(t, mcp.Options{AllowWrites: true}))
			if all := tools(t, writer); all["messages_send"] == nil || all["messages_send"].Annotations.ReadOnlyHint || len(all) != 250+6 {
				t.Fatalf("a server with writes lists %d tools; messages_send %v", len(all), all["messages_send"])
			}
			use(t, writer, false, "messages_send", send)
			if !sent(t, session, account, chat, text) {
				t.Fatal("the message was not sent")
			}
		})
	}
}

func sent(t *testing.T, session *sdk.ClientSession, account, chat, text string) bool {
	t.Helper()
	all, _ := use(t, session, false, "messages_list", map[string]any{"accountId": account, "chatId": chat})
	return strings.Contains(all, text)
}

// TestOnlyAllowedAccounts checks that a server restricted to one account neither shows nor uses another.
func TestOnlyAllowedAccounts(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	session := overPipes(t, r.server(t, mcp.Options{Accounts: r.accounts[:1], AllowWrites: true}))
	_, list := use(t, session, false, "list_accounts", nil)
	if got := list["accounts"].([]any); len(got) != 1 || got[0].(map[string]any)["id"] != r.accounts[0] {
		t.Errorf("list_accounts: %v", got)
	}
	use(t, session, false, "chats_list", nil) // the only account is optional
	for _, tool := range []string{"get_account", "chats_list", "list_events", "fans_list"} {
		refused, _ := use(t, session, true, tool, map[string]any{"accountId": r.accounts[1]})
		if !strings.Contains(refused, "account-not-allowed") {
			t.Errorf("%s of another account: %s", tool, refused)
		}
	}
	refused, _ := use(t, session, true, "preview_write", map[string]any{"method": "messages.send", "accountId": r.accounts[1]})
	if !strings.Contains(refused, "account-not-allowed") {
		t.Errorf("preview on another account: %s", refused)
	}
	_, events := use(t, session, false, "list_events", map[string]any{"limit": 100})
	for _, e := range events["events"].([]any) {
		if of := e.(map[string]any)["accountId"]; of != r.accounts[0] {
			t.Errorf("list_events shows an event of %v", of)
		}
	}
	_, err := mcp.New(t.Context(), mcp.Deps{Call: r.call, Version: "test", Log: slog.New(slog.DiscardHandler)}, mcp.Options{Accounts: []string{"acct_01m7h0zqkyffmaq1ydmjnd0zfg"}})
	if refused := new(mcp.RefusedError); !errors.As(err, &refused) || refused.Response.Status != http.StatusNotFound {
		t.Errorf("with an unknown account: %v", err)
	}
}

// TestFindAndExplain checks search_methods, explain_problem and the restriction of tools.
func TestFindAndExplain(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	session := overPipes(t, r.server(t, mcp.Options{Tools: []string{"messages.*", "chats_list"}}))
	for name := range tools(t, session) {
		if own := []string{"list_accounts", "get_account", "list_events", "search_methods", "preview_write", "explain_problem"}; !slices.Contains(own, name) &&
			!strings.HasPrefix(name, "messages_") && name != "chats_list" {
			t.Errorf("unexpected tool %s", name)
		}
	}
	if refused, _ := use(t, session, true, "fans_list", nil); !strings.Contains(refused, "not-listed") {
		t.Errorf("an excluded method: %s", refused)
	}
	_, found := use(t, session, false, "search_methods", map[string]any{"query": "send a message"})
	first := found["methods"].([]any)[0].(map[string]any)
	if first["method"] != "messages.send" || !strings.Contains(first["call"].(string), "preview_write") {
		t.Errorf("search_methods: %v", first)
	}
	for _, code := range []string{"quota-exceeded", "upstream/rate-limited"} {
		if _, got := use(t, session, false, "explain_problem", map[string]any{"code": code}); got["code"] != code || got["document"] == "" {
			t.Errorf("explain_problem %s: %v", code, got)
		}
	}
	refused, problem := use(t, session, true, "messages_list", map[string]any{"accountId": r.accounts[0], "chatId": "999999999999"})
	if problem["code"] != "upstream/not-found" || !strings.Contains(refused, "Request req_") {
		t.Errorf("a missing chat: %v %s", problem, refused)
	}
}

// TestHTTPRejectsOtherOriginsAndWrongTokens checks that such requests do not reach a tool.
func TestHTTPRejectsOtherOriginsAndWrongTokens(t *testing.T) {
	t.Parallel()
	server, err := mcp.New(t.Context(), mcp.Deps{
		Call: func(context.Context, mcp.Request) (mcp.Response, error) {
			return mcp.Response{Status: http.StatusOK, Body: json.RawMessage(`{"tools":[]}`)}, nil
		}, Version: "test", Log: slog.New(slog.DiscardHandler),
	}, mcp.Options{})
	must.OK(t, err)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for name, test := range map[string]struct {
		token, origin, host, authorization string
		want                               int
	}{
		"own program":       {want: http.StatusOK},
		"own page":          {origin: "http://localhost:6274", want: http.StatusOK},
		"another page":      {origin: "https://evil.test", want: http.StatusForbidden},
		"allowed page":      {origin: "https://inspector.test", want: http.StatusOK},
		"a rebound name":    {host: "evil.test", want: http.StatusForbidden},
		"no token":          {token: "t", want: http.StatusUnauthorized},
		"a wrong token":     {token: "t", authorization: "Bearer u", want: http.StatusUnauthorized},
		"the token":         {token: "t", authorization: "Bearer t", want: http.StatusOK},
		"a page with token": {token: "t", authorization: "Bearer t", origin: "https://evil.test", want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := httptest.NewServer(server.Handler(test.token, []string{"https://inspector.test"}))
			defer served.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, served.URL, strings.NewReader(hello))
			must.OK(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if test.origin != "" {
				req.Header.Set("Origin", test.origin)
			}
			if test.authorization != "" {
				req.Header.Set("Authorization", test.authorization)
			}
			if test.host != "" {
				req.Host = test.host
			}
			reply, err := http.DefaultClient.Do(req)
			must.OK(t, err)
			defer reply.Body.Close()
			if reply.StatusCode != test.want {
				t.Errorf("got %d, want %d", reply.StatusCode, test.want)
			}
		})
	}
}
