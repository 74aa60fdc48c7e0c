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

// method is an SDK method as GET /v1/sdk/methods?format=mcp returns it.
type method struct {
	// Name is the name of the tool, such as messages_send. Title is the name of the method, such as messages.send.
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	InputSchema inputSchema         `json:"inputSchema"`
	Annotations sdk.ToolAnnotations `json:"annotations"`
	// platform is the id of the platform. isShared means that another platform has a method of the same name.
	platform string
	isShared bool
}

// inputSchema is the JSON Schema of a tool's input. The schemas of properties are passed on unchanged.
type inputSchema struct {
	Type                 string                     `json:"type"`
	Properties           map[string]json.RawMessage `json:"properties"`
	Required             []string                   `json:"required"`
	AdditionalProperties bool                       `json:"additionalProperties"`
}

func (m *method) isRead() bool { return m.Annotations.ReadOnlyHint }

func (m *method) access() string {
	if m.isRead() {
		return "read"
	}
	return "write"
}

// accountField is the input of a tool that names the account. The other inputs are the method's arguments.
const accountField = "accountId"

// findMethod finds a method by the name of its tool, or by its own name on a platform. An empty platform is any one. It
// returns nil if there is no such method.
func (s *Server) findMethod(name, platform string) *method {
	i := slices.IndexFunc(s.methods, func(m method) bool {
		return m.Name == name || m.Title == name && (platform == "" || m.platform == platform)
	})
	if i < 0 {
		return nil
	}
	return &s.methods[i]
}

// addMethod lists a method as a tool.
func (s *Server) addMethod(m *method) {
	notes := m.Annotations
	s.server.AddTool(&sdk.Tool{
		Name: m.Name, Title: m.Title, Description: m.Description, InputSchema: s.inputSchema(m), Annotations: &notes,
	}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		named, args, err := splitAccount(req.Params.Arguments)
		if err != nil {
			return errorResult(err.Error()), nil
		}
		account, err := s.resolveAccount(named, s.accountsOn(m.platform))
		if err != nil {
			return errorResult(err.Error()), nil
		}
		if err := s.checkPlatform(ctx, m, account); err != nil {
			return errorResult(err.Error()), nil
		}
		return s.callMethod(ctx, m, account, args, false), nil
	})
}

// inputSchema returns the input schema of a method's tool. If accounts are restricted, it lists the allowed ones that
// have the method, and the account is optional if there is only one.
func (s *Server) inputSchema(m *method) inputSchema {
	schema := m.InputSchema
	if len(s.opts.Accounts) == 0 {
		return schema
	}
	accounts := s.accountsOn(m.platform)
	schema.Properties = maps.Clone(schema.Properties)
	schema.Properties[accountField] = mustEncode(map[string]any{
		"type": "string", "enum": accounts, "description": "The connected account to act on.",
	})
	if len(accounts) == 1 {
		schema.Required = slices.DeleteFunc(slices.Clone(schema.Required), func(name string) bool { return name == accountField })
	}
	return schema
}

// callMethod calls a method on an account; with dry it only checks the call.
func (s *Server) callMethod(
	ctx context.Context, m *method, account string, args json.RawMessage, dry bool,
) *sdk.CallToolResult {
	resource, name, _ := strings.Cut(m.Title, ".")
	response, err := s.deps.Call(ctx, Request{
		Method: http.MethodPost, Path: accountPath(account) + "/" + url.PathEscape(resource) + "/" + url.PathEscape(name), Body: args,
		DryRun: dry, Once: !dry && !m.isRead(),
	})
	if err != nil {
		return errorResult("no-answer: " + err.Error())
	}
	return toolResult(response)
}

// splitAccount separates the account from the method's arguments.
func splitAccount(arguments json.RawMessage) (account string, rest json.RawMessage, err error) {
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
		return account, json.RawMessage("{}"), nil // also for null and for no arguments at all
	}
	return account, mustEncode(fields), nil
}

// matches reports whether a pattern such as messages.*, *.list, messages_send or ghost:members.* matches a method.
func matches(pattern string, m *method) bool {
	if platform, rest, found := strings.Cut(pattern, ":"); found {
		if platform != m.platform {
			return false
		}
		pattern = rest
	}
	if !strings.Contains(pattern, ".") {
		pattern = strings.Replace(pattern, "_", ".", 1)
	}
	ok, err := path.Match(pattern, m.Title)
	return err == nil && ok
}

// CheckPattern returns an error if a pattern is not valid for Options.Tools.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a pattern such as messages.* or *.list", pattern)
	}
	return nil
}

func accountPath(account string) string { return "/v1/accounts/" + url.PathEscape(account) }
