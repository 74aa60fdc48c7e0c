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

// addOwn lists the tools that are not methods of the SDK.
func (s *Server) addOwn() {
	add(s, "list_accounts", "The connected accounts: id, label, state and name on the platform. Begin here.", s.listAccounts)
	add(s, "get_account", "One connected account: its state, whether it must be connected again, and how its listener stands.", s.getAccount)
	add(s, "list_events", "What happened lately, newest first: messages, tips, subscriptions, state changes. Filter by account and kind.", s.listEvents)
	add(s, "search_methods", "Find a method by words: its arguments, whether it reads or writes, and how to call it here.", s.searchMethods)
	add(s, "preview_write", "Check a call of a method that would change something: its arguments, the key's rights and the limits. Nothing is carried out.", s.previewWrite)
	add(s, "explain_problem", "What a problem code means, why it happens and what to do about it.", s.explainProblem)
}

// add lists a tool whose schema is that of its input.
func add[In any](s *Server, name, description string, handle func(context.Context, In) *sdk.CallToolResult) {
	closed := false
	sdk.AddTool(s.server, &sdk.Tool{
		Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		return handle(ctx, in), nil, nil
	})
}

// get asks the API for something and passes it on.
func (s *Server) get(ctx context.Context, path string, query url.Values) *sdk.CallToolResult {
	answer, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return failed("no-answer: " + err.Error())
	}
	return result(answer)
}

type listAccountsInput struct {
	State  string `json:"state,omitempty" jsonschema:"only accounts in this state, such as active or reconnect_required"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many at most, up to 100; 50 if it is left out"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

func (s *Server) listAccounts(ctx context.Context, in listAccountsInput) *sdk.CallToolResult {
	if len(s.opts.Accounts) == 0 {
		query := url.Values{"limit": {strconv.Itoa(min(cmp.Or(in.Limit, 50), 100))}}
		set(query, "state", in.State)
		set(query, "cursor", in.Cursor)
		return s.get(ctx, "/v1/accounts", query)
	}
	// One by one, so that what is not allowed never reaches this process.
	list := []json.RawMessage{}
	for _, id := range s.opts.Accounts {
		answer, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: accountPath(id)})
		if err != nil {
			return failed("no-answer: " + err.Error())
		}
		if answer.Status == http.StatusNotFound {
			continue // disconnected since the server started
		}
		if answer.Status != http.StatusOK {
			return result(answer)
		}
		var body struct {
			Account json.RawMessage `json:"account"`
		}
		var account struct {
			State string `json:"state"`
		}
		if json.Unmarshal(answer.Body, &body) != nil || json.Unmarshal(body.Account, &account) != nil {
			return failed("invalid-answer: the account could not be read")
		}
		if in.State == "" || in.State == account.State {
			list = append(list, body.Account)
		}
	}
	return succeeded(raw(map[string]any{"accounts": list, "nextCursor": nil}))
}

type getAccountInput struct {
	AccountID string `json:"accountId,omitempty" jsonschema:"the account's id, acct_…; may be left out if there is only one"`
}

func (s *Server) getAccount(ctx context.Context, in getAccountInput) *sdk.CallToolResult {
	account, err := s.account(in.AccountID)
	if err != nil {
		return failed(err.Error())
	}
	return s.get(ctx, accountPath(account), nil)
}

type listEventsInput struct {
	AccountID string   `json:"accountId,omitempty" jsonschema:"only events of this account"`
	Events    []string `json:"events,omitempty" jsonschema:"only these kinds: names such as message or tips, families such as message*, and !name for what to leave out"`
	Limit     int      `json:"limit,omitempty" jsonschema:"how many at most, up to 100; 20 if it is left out"`
	Before    string   `json:"before,omitempty" jsonschema:"nextCursor of the page before, to go on to older events"`
}

func (s *Server) listEvents(ctx context.Context, in listEventsInput) *sdk.CallToolResult {
	if in.AccountID != "" || len(s.opts.Accounts) > 0 {
		account, err := s.account(in.AccountID)
		if err != nil {
			return failed(err.Error())
		}
		in.AccountID = account
	}
	query := url.Values{"latest": {strconv.Itoa(min(cmp.Or(in.Limit, 20), 100))}, "events": in.Events}
	set(query, "accountId", in.AccountID)
	set(query, "before", in.Before)
	return s.get(ctx, "/v1/events", query)
}

type searchMethodsInput struct {
	Query  string `json:"query,omitempty" jsonschema:"words, such as send message or list subscribers; all methods of a resource by its name"`
	Access string `json:"access,omitempty" jsonschema:"only methods that read, or write"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many at most; 10 if it is left out"`
}

// found is a method as search_methods shows it.
type found struct {
	Method      string      `json:"method"`
	Access      string      `json:"access"`
	Description string      `json:"description"`
	Call        string      `json:"call"`
	Arguments   inputSchema `json:"arguments"`
	score       int
}

func (s *Server) searchMethods(_ context.Context, in searchMethodsInput) *sdk.CallToolResult {
	if in.Access != "" && in.Access != "read" && in.Access != "write" {
		return failed("access must be read or write")
	}
	words := strings.Fields(strings.ToLower(strings.NewReplacer(".", " ", "_", " ").Replace(in.Query)))
	list := []found{}
	for i := range s.methods {
		m := &s.methods[i]
		score := rank(m, words)
		if score < 0 || !s.wanted(m) || in.Access != "" && in.Access != m.access() {
			continue
		}
		call := "tool " + m.Name
		if !s.listed(m) {
			call = "preview_write with method " + m.Title + "; this server is read-only"
		}
		list = append(list, found{m.Title, m.access(), m.Description, call, s.schema(m), score})
	}
	slices.SortStableFunc(list, func(a, b found) int { return b.score - a.score })
	total := len(list)
	list = list[:min(total, cmp.Or(max(in.Limit, 0), 10))]
	return succeeded(raw(map[string]any{"methods": list, "total": total}))
}

// rank is how well a method fits: every word must be in its name or its description, and the name counts more. -1 is not at all.
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
	AccountID string         `json:"accountId,omitempty" jsonschema:"the account to act on; may be left out if there is only one"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"the method's arguments, by name; search_methods shows them"`
}

func (s *Server) previewWrite(ctx context.Context, in previewWriteInput) *sdk.CallToolResult {
	m := s.find(in.Method)
	if m == nil {
		return failed(fmt.Sprintf("method-not-found: there is no method %q. search_methods finds one by words", in.Method))
	}
	account, err := s.account(in.AccountID)
	if err != nil {
		return failed(err.Error())
	}
	if in.Arguments == nil {
		in.Arguments = map[string]any{}
	}
	checked := s.run(ctx, m, account, raw(in.Arguments), true)
	if checked.IsError {
		return checked
	}
	next := "This server is read-only, so it cannot be carried out here."
	if s.listed(m) {
		next = "To carry it out, call the tool " + m.Name + "."
	}
	return succeeded(raw(map[string]any{
		"accepted": true, "performed": false, "method": m.Title, "access": m.access(), "accountId": account, "arguments": in.Arguments,
		"note": "The arguments, the rights of the key and the limits were checked; nothing was carried out. " + next,
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
	return s.get(ctx, "/problems/"+strings.Join(parts, "/"), nil)
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
