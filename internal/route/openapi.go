package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/scope"
)

// kinds lists every problem an operation can answer with: its own, and those that the guard around it can.
func (op *Operation) kinds() []problem.Kind {
	list := slices.Clone(op.Problems)
	if !op.Public {
		list = append(list, problem.KeyMissing, problem.KeyInvalid, problem.KeyRevoked, problem.KeyExpired, problem.OrgSuspended,
			problem.QuotaExceeded)
	}
	if op.Scope != scope.Any {
		list = append(list, problem.ScopeMissing)
	}
	if op.hasBody || op.Example != nil {
		list = append(list, problem.MalformedJSON, problem.PayloadTooLarge, problem.UnsupportedMediaType,
			problem.ValidationFailed, problem.RequestTimeout)
	}
	list = append(list, problem.InvalidRequest, problem.Internal, problem.ServiceUnavailable)
	slices.SortStableFunc(list, func(a, b problem.Kind) int { return a.Status - b.Status })
	return slices.CompactFunc(list, func(a, b problem.Kind) bool { return a.Code == b.Code })
}

// describe makes the row's part of the OpenAPI document.
func (t *Table) describe(op *Operation) huma.Operation {
	kinds := op.kinds()
	codes := make([]string, len(kinds))
	byStatus := map[int][]problem.Kind{}
	for i, k := range kinds {
		codes[i] = k.Code
		byStatus[k.Status] = append(byStatus[k.Status], k)
	}
	described := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, // huma registers the handler under it, so the mux's dots stay
		Summary: op.Summary, Tags: []string{op.Tag},
		DefaultStatus: op.Status, Responses: map[string]*huma.Response{}, MaxBodyBytes: maxBody,
		Extensions: map[string]any{"x-problems": codes},
	}
	described.Description = strings.TrimSpace(op.Description + "\n\n" + op.scopeText())
	if !op.Public {
		names := []string{}
		if op.Scope != scope.Any {
			names = append(names, op.Scope.String())
			described.Extensions["x-scope"] = op.Scope.String()
		}
		described.Security = []map[string][]string{{securityScheme: names}}
	}
	if op.Audit != "" {
		described.Extensions["x-audit"] = op.Audit
	}
	schema := t.api.OpenAPI().Components.Schemas.Schema(problemType, true, "Problem")
	for status, kinds := range byStatus {
		lines := make([]string, len(kinds))
		for i, k := range kinds {
			lines[i] = "`" + k.Code + "`: " + k.Title
		}
		described.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(lines, "\n\n"),
			Content:     map[string]*huma.MediaType{problem.ContentType: {Schema: schema}},
		}
	}
	return described
}

func (op *Operation) scopeText() string {
	switch {
	case op.Public:
		return "No key is needed."
	case op.Scope == scope.Any:
		return "Any key may call it."
	}
	return "Needs the scope `" + op.Scope.String() + "`."
}

// operation finds the row's part of the document.
func (t *Table) operation(op *Operation) *huma.Operation {
	item := t.api.OpenAPI().Paths[op.Path]
	switch op.Method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	case http.MethodPatch:
		return item.Patch
	case http.MethodDelete:
		return item.Delete
	}
	panic("no place in a path item for " + op.Method)
}

// OpenAPI is the document of all operations, in OpenAPI 3.1.
func (t *Table) OpenAPI() ([]byte, error) {
	doc, err := json.Marshal(t.api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	// {code...} is the mux's way to write a parameter; OpenAPI knows {code}.
	return []byte(strings.ReplaceAll(string(doc), "...}", "}")), nil
}

// markSensitive marks fields with the tag sensitive in the document, so that whoever captures bodies can mask them.
func (t *Table) markSensitive(typ reflect.Type) {
	body, ok := typ.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return
	}
	registry := t.api.OpenAPI().Components.Schemas
	schema := registry.Schema(body.Type, true, typ.Name()+"Body")
	if schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	for i := range body.Type.NumField() {
		field := body.Type.Field(i)
		if field.Tag.Get("sensitive") != "true" {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property.Extensions == nil {
			property.Extensions = map[string]any{}
		}
		property.Extensions["x-sensitive"] = true
	}
}
