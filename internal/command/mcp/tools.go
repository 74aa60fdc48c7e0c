package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addOwnTools adds the tools that are not SDK methods.
func (s *Server) addOwnTools() {
	addTool(s, "list_accounts", "List the connected accounts: id, platform, label, state and name on the platform. Start here.",
		s.listAccounts)
	addTool(s, "get_account",
		"Get a connected account: its state, whether it must be reconnected, and the state of its listener.", s.getAccount)
	addTool(s, "list_events",
		"List recent events, newest first: messages, tips, subscriptions, state changes. Filter by account and kind.",
		s.listEvents)
	addTool(s, "search_methods",
		"Find methods by keywords. Returns their arguments, whether they read or write, and how to call them here.",
		s.searchMethods)
	addTool(s, "preview_write",
		"Check a write without carrying it out: its arguments, the key's permissions and the limits.", s.previewWrite)
	addTool(s, "explain_problem", "Explain an error code: what it means, why it happens and what to do about it.",
		s.explainProblem)
}

// addTool adds a read-only tool whose input schema is derived from In.
func addTool[In any](s *Server, name, description string, handle func(context.Context, In) *sdk.CallToolResult) {
	closed := false
	sdk.AddTool(s.server, &sdk.Tool{
		Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		return handle(ctx, in), nil, nil
	})
}

// fetch sends a GET request and returns the response as a result.
func (s *Server) fetch(ctx context.Context, path string, query url.Values) *sdk.CallToolResult {
	response, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return errorResult("no-answer: " + err.Error())
	}
	return toolResult(response)
}

type listAccountsInput struct {
	State    string `json:"state,omitempty" jsonschema:"only accounts in this state, such as active or reconnect_required"`
	Platform string `json:"platform,omitempty" jsonschema:"only accounts on this platform"`
	Limit    int    `json:"limit,omitempty" jsonschema:"maximum number of accounts, up to 100; default 50"`
	Cursor   string `json:"cursor,omitempty" jsonschema:"nextCursor of the previous page"`
}

func (s *Server) listAccounts(ctx context.Context, in listAccountsInput) *sdk.CallToolResult {
	if len(s.opts.Accounts) == 0 {
		query := url.Values{"limit": {strconv.Itoa(min(cmp.Or(in.Limit, 50), 100))}}
		setParam(query, "state", in.State)
		setParam(query, "platform", in.Platform)
		setParam(query, "cursor", in.Cursor)
		return s.fetch(ctx, "/v1/accounts", query)
	}
	// Fetch the allowed accounts one by one, so that data of other accounts never reaches this process.
	list := []json.RawMessage{}
	for _, id := range s.opts.Accounts {
		response, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: accountPath(id)})
		if err != nil {
			return errorResult("no-answer: " + err.Error())
		}
		if response.Status == http.StatusNotFound {
			continue // disconnected since the server started
		}
		if response.Status != http.StatusOK {
			return toolResult(response)
		}
		var body struct {
			Account json.RawMessage `json:"account"`
		}
		var account struct {
			State    string `json:"state"`
			Platform string `json:"platform"`
		}
		if json.Unmarshal(response.Body, &body) != nil || json.Unmarshal(body.Account, &account) != nil {
			return errorResult("invalid-answer: cannot read the account")
		}
		if (in.State == "" || in.State == account.State) && (in.Platform == "" || in.Platform == account.Platform) {
			list = append(list, body.Account)
		}
	}
	return jsonResult(mustEncode(map[string]any{"accounts": list, "nextCursor": nil}))
}

type getAccountInput struct {
	AccountID string `json:"accountId,omitempty" jsonschema:"the account's id, acct_…; optional if the server has only one account"`
}

func (s *Server) getAccount(ctx context.Context, in getAccountInput) *sdk.CallToolResult {
	account, err := s.resolveAccount(in.AccountID, s.opts.Accounts)
	if err != nil {
		return errorResult(err.Error())
	}
	return s.fetch(ctx, accountPath(account), nil)
}

type listEventsInput struct {
	AccountID string   `json:"accountId,omitempty" jsonschema:"only events of this account"`
	Events    []string `json:"events,omitempty" jsonschema:"only these kinds: names such as message or tips, patterns such as message*, and !name to exclude"`
	Limit     int      `json:"limit,omitempty" jsonschema:"maximum number of events, up to 100; default 20"`
	Before    string   `json:"before,omitempty" jsonschema:"nextCursor of the previous page, to get older events"`
}

func (s *Server) listEvents(ctx context.Context, in listEventsInput) *sdk.CallToolResult {
	if in.AccountID != "" || len(s.opts.Accounts) > 0 {
		account, err := s.resolveAccount(in.AccountID, s.opts.Accounts)
		if err != nil {
			return errorResult(err.Error())
		}
		in.AccountID = account
	}
	query := url.Values{"latest": {strconv.Itoa(min(cmp.Or(in.Limit, 20), 100))}, "events": in.Events}
	setParam(query, "accountId", in.AccountID)
	setParam(query, "before", in.Before)
	return s.fetch(ctx, "/v1/events", query)
}

type searchMethodsInput struct {
	Query  string `json:"query,omitempty" jsonschema:"keywords, such as send message or list subscribers; the name of a resource returns all its methods"`
	Access string `json:"access,omitempty" jsonschema:"only methods with this access: read or write"`
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of methods; default 10"`
}

// searchResult is a method in the result of search_methods.
type searchResult struct {
	Method      string      `json:"method"`
	Platform    string      `json:"platform"`
	Access      string      `json:"access"`
	Description string      `json:"description"`
	Call        string      `json:"call"`
	Arguments   inputSchema `json:"arguments"`
	score       int
}

func (s *Server) searchMethods(_ context.Context, in searchMethodsInput) *sdk.CallToolResult {
	if in.Access != "" && in.Access != "read" && in.Access != "write" {
		return errorResult("access must be read or write")
	}
	words := strings.Fields(strings.ToLower(strings.NewReplacer(".", " ", "_", " ").Replace(in.Query)))
	list := []searchResult{}
	for i := range s.methods {
		m := &s.methods[i]
		score := rank(m, words)
		if score < 0 || !s.isSelected(m) || in.Access != "" && in.Access != m.access() {
			continue
		}
		call := "tool " + m.Name
		if !s.isListed(m) {
			call = "preview_write with method " + m.Title + "; this server is read-only"
		}
		list = append(list, searchResult{m.Title, m.platform, m.access(), m.Description, call, s.inputSchema(m), score})
	}
	slices.SortStableFunc(list, func(a, b searchResult) int { return b.score - a.score })
	total := len(list)
	list = list[:min(total, cmp.Or(max(in.Limit, 0), 10))]
	return jsonResult(mustEncode(map[string]any{"methods": list, "total": total}))
}

// rank scores how well a method matches. Every word must be in its name or description, otherwise the score is -1. A
// match in the name counts more.
func rank(m *method, words []string) int {
	name, description := strings.ToLower(m.Title), strings.ToLower(m.Description)
	score := 0
	for _, word := range words {
		stem := strings.TrimSuffix(word, "s")
		switch {
		case slices.Contains(strings.Split(name, "."), word):
			score += 8
		case strings.Contains(name, stem):
			score += 4
		case strings.Contains(description, stem):
			score++
		default:
			return -1
		}
	}
	return score
}

type previewWriteInput struct {
	Method    string         `json:"method" jsonschema:"the method's name, such as messages.send"`
	AccountID string         `json:"accountId,omitempty" jsonschema:"the account to act on; optional if the server has only one account"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"the method's arguments, by name; search_methods shows them"`
}

func (s *Server) previewWrite(ctx context.Context, in previewWriteInput) *sdk.CallToolResult {
	m := s.findMethod(in.Method, "")
	if m == nil {
		return errorResult(fmt.Sprintf("method-not-found: unknown method %q. Use search_methods to find it", in.Method))
	}
	// A name that several platforms have does not say which of them is meant; the account does.
	isOpen, among := m.isShared && m.Name != in.Method, s.opts.Accounts
	if !isOpen {
		among = s.accountsOn(m.platform)
	}
	account, err := s.resolveAccount(in.AccountID, among)
	if err != nil {
		return errorResult(err.Error())
	}
	if isOpen {
		if platform, err := s.platformOf(ctx, account); err == nil {
			m = cmp.Or(s.findMethod(in.Method, platform), m)
		}
	} else if err := s.checkPlatform(ctx, m, account); err != nil {
		return errorResult(err.Error())
	}
	if in.Arguments == nil {
		in.Arguments = map[string]any{}
	}
	checked := s.callMethod(ctx, m, account, mustEncode(in.Arguments), true)
	if checked.IsError {
		return checked
	}
	next := "This server is read-only, so it cannot carry out the call."
	if s.isListed(m) {
		next = "To carry it out, call the tool " + m.Name + "."
	}
	return jsonResult(mustEncode(map[string]any{
		"accepted": true, "performed": false, "method": m.Title, "access": m.access(), "accountId": account, "arguments": in.Arguments,
		"note": "The arguments, the key's permissions and the limits were checked. Nothing was carried out. " + next,
	}))
}

type explainProblemInput struct {
	Code string `json:"code" jsonschema:"the problem's code, such as quota-exceeded or upstream/rate-limited"`
}

func (s *Server) explainProblem(ctx context.Context, in explainProblemInput) *sdk.CallToolResult {
	parts := strings.Split(in.Code, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return s.fetch(ctx, "/problems/"+strings.Join(parts, "/"), nil)
}

func setParam(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
