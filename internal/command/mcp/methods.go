package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// method is an SDK method as GET /v1/sdk/methods?format=mcp describes it.
type method struct {
	// Name is that of the tool, messages_send; Title that of the method, messages.send.
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	InputSchema inputSchema         `json:"inputSchema"`
	Annotations sdk.ToolAnnotations `json:"annotations"`
}

// inputSchema keeps properties as they came: they are shown, not understood.
type inputSchema struct {
	Type                 string                     `json:"type"`
	Properties           map[string]json.RawMessage `json:"properties"`
	Required             []string                   `json:"required"`
	AdditionalProperties bool                       `json:"additionalProperties"`
}

func (m *method) read() bool { return m.Annotations.ReadOnlyHint }

func (m *method) access() string {
	if m.read() {
		return "read"
	}
	return "write"
}

// accountField is the argument that says which account a tool acts on; the rest are the method's own.
const accountField = "accountId"

// load asks for the methods.
func (s *Server) load(ctx context.Context) error {
	answer, err := s.deps.Call(ctx, Request{Method: http.MethodGet, Path: "/v1/sdk/methods", Query: url.Values{"format": {"mcp"}}})
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK {
		return &RefusedError{Answer: answer}
	}
	var list struct {
		Tools []method `json:"tools"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return fmt.Errorf("read the list of methods: %w", err)
	}
	s.methods = list.Tools
	return nil
}

// find looks a method up by the name of its tool, or by its own.
func (s *Server) find(name string) *method {
	i := slices.IndexFunc(s.methods, func(m method) bool { return m.Name == name || m.Title == name })
	if i < 0 {
		return nil
	}
	return &s.methods[i]
}

// addMethod lists a method as a tool.
func (s *Server) addMethod(m *method) {
	notes := m.Annotations
	s.server.AddTool(&sdk.Tool{
		Name: m.Name, Title: m.Title, Description: m.Description, InputSchema: s.schema(m), Annotations: &notes,
	}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		named, args, err := split(req.Params.Arguments)
		if err != nil {
			return failed(err.Error()), nil
		}
		account, err := s.account(named)
		if err != nil {
			return failed(err.Error()), nil
		}
		return s.run(ctx, m, account, args, false), nil
	})
}

// schema is what a tool takes. Where only some accounts are allowed it names them, and the only one may be left out.
func (s *Server) schema(m *method) inputSchema {
	schema := m.InputSchema
	if len(s.opts.Accounts) == 0 {
		return schema
	}
	schema.Properties = maps.Clone(schema.Properties)
	schema.Properties[accountField] = raw(map[string]any{"type": "string", "enum": s.opts.Accounts, "description": "The connected account to act on."})
	if len(s.opts.Accounts) == 1 {
		schema.Required = slices.DeleteFunc(slices.Clone(schema.Required), func(name string) bool { return name == accountField })
	}
	return schema
}

// run calls a method.
func (s *Server) run(ctx context.Context, m *method, account string, args json.RawMessage, dry bool) *sdk.CallToolResult {
	resource, name, _ := strings.Cut(m.Title, ".")
	answer, err := s.deps.Call(ctx, Request{
		Method: http.MethodPost, Path: accountPath(account) + "/" + url.PathEscape(resource) + "/" + url.PathEscape(name), Body: args,
		DryRun: dry, Once: !dry && !m.read(),
	})
	if err != nil {
		return failed("no-answer: " + err.Error())
	}
	return result(answer)
}

// split takes the account out of a tool's arguments.
func split(arguments json.RawMessage) (account string, rest json.RawMessage, err error) {
	fields := map[string]json.RawMessage{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &fields); err != nil {
			return "", nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
		}
	}
	if given, ok := fields[accountField]; ok {
		if err := json.Unmarshal(given, &account); err != nil {
			return "", nil, fmt.Errorf("%s must be a string", accountField)
		}
		delete(fields, accountField)
	}
	if len(fields) == 0 {
		return account, json.RawMessage("{}"), nil // null, or nothing at all, is no arguments
	}
	return account, raw(fields), nil
}

// matches compares a method's name with a pattern of the command line: messages.*, *.list, messages_send.
func matches(pattern, title string) bool {
	if !strings.Contains(pattern, ".") {
		pattern = strings.Replace(pattern, "_", ".", 1)
	}
	ok, err := path.Match(pattern, title)
	return err == nil && ok
}

// CheckPattern says what is wrong with a pattern of Options.Tools.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a pattern of methods; write it like messages.* or *.list", pattern)
	}
	return nil
}

func accountPath(account string) string { return "/v1/accounts/" + url.PathEscape(account) }
