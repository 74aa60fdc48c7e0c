package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// kinds returns every problem that an operation can return: its own, and those of the guard.
func (t *Table) kinds(op *Operation) []problem.Kind {
	list := slices.Clone(op.Problems)
	if !op.Public {
		list = append(list, problem.KeyMissing, problem.KeyInvalid, problem.KeyRevoked, problem.KeyExpired, problem.IPNotAllowed, problem.OrgSuspended,
			problem.QuotaExceeded)
	}
	if !op.Public && t.deps.Browser != nil {
		list = append(list, problem.SignedOut, problem.MembershipMissing, problem.CrossOriginRefused)
	}
	if op.Recent {
		list = append(list, problem.ReauthenticationRequired)
	}
	switch {
	case op.Scope.Role() != "":
		list = append(list, problem.RoleRequired)
	case op.Scope != scope.Any:
		list = append(list, problem.ScopeMissing)
	}
	if op.Account != "" && !op.Public {
		list = append(list, problem.AccountNotAllowedForKey)
	}
	if op.keyed {
		list = append(list, problem.IdempotencyMismatch, problem.IdempotencyInProgress)
	}
	if op.hasBody || op.Example != nil {
		list = append(list, problem.MalformedJSON, problem.PayloadTooLarge, problem.UnsupportedMediaType,
			problem.ValidationFailed, problem.RequestTimeout)
	}
	list = append(list, problem.InvalidRequest, problem.Internal, problem.ServiceUnavailable)
	slices.SortStableFunc(list, func(a, b problem.Kind) int { return a.Status - b.Status })
	return slices.CompactFunc(list, func(a, b problem.Kind) bool { return a.Code == b.Code })
}

// describe returns the operation's part of the OpenAPI document.
func (t *Table) describe(op *Operation) huma.Operation {
	kinds := t.kinds(op)
	codes := make([]string, len(kinds))
	byStatus := map[int][]problem.Kind{}
	for i, k := range kinds {
		codes[i] = k.Code
		byStatus[k.Status] = append(byStatus[k.Status], k)
	}
	described := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, // Huma registers the handler under it: the dots stay.
		Summary: op.Summary, Tags: []string{op.Tag},
		DefaultStatus: op.Status, Responses: map[string]*huma.Response{}, MaxBodyBytes: maxBody,
		Extensions: map[string]any{"x-problems": codes},
	}
	described.Description = strings.TrimSpace(op.Description + "\n\n" + op.scopeText() + op.quotaText())
	described.Security = []map[string][]string{}
	if !op.Public {
		names := []string{}
		if op.Scope != scope.Any {
			names = append(names, op.Scope.String())
			described.Extensions["x-scope"] = op.Scope.String()
		}
		described.Security = append(described.Security, map[string][]string{securityScheme: names})
		if t.deps.Browser != nil {
			described.Security = append(described.Security, map[string][]string{browserScheme: names})
		}
	}
	op.Deprecated.describe(&described)
	if op.Audit != "" {
		described.Extensions["x-audit"] = op.Audit
	}
	if op.keyed {
		described.Parameters = append(described.Parameters, &keyParameter)
	}
	if op.Answer != nil {
		described.Responses[strconv.Itoa(op.Status)] = &huma.Response{
			Description: http.StatusText(op.Status),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: t.schema(op.Answer, op.OtherForms...)}},
		}
	}
	for status, answer := range op.OtherAnswers {
		described.Responses[strconv.Itoa(status)] = t.otherAnswer(op, status, answer)
	}
	if op.Conditional {
		described.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: "The caller's copy is current."}
	}
	t.schemas().Map()[problemComponent] = Problem{}.Schema(nil)
	schema := &huma.Schema{Ref: problemRef}
	for status, kinds := range byStatus {
		described.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: listKinds(kinds),
			Content:     map[string]*huma.MediaType{problem.ContentType: {Schema: schema}},
		}
	}
	return described
}

func (t *Table) schemas() huma.Registry { return t.api.OpenAPI().Components.Schemas }

// schema describes the body of a response with the type of value, or of one of others.
func (t *Table) schema(value any, others ...any) *huma.Schema {
	typ := reflect.TypeOf(value)
	refuseBareTimes(typ)
	schema := t.schemas().Schema(typ, true, typ.Name())
	if len(others) == 0 {
		return schema
	}
	forms := &huma.Schema{AnyOf: []*huma.Schema{schema}}
	for _, other := range others {
		forms.AnyOf = append(forms.AnyOf, t.schema(other))
	}
	return forms
}

// bytes describes a request body that is not JSON.
func (*Table) bytes(op *Operation) *huma.RequestBody {
	content := map[string]*huma.MediaType{}
	for _, m := range op.Takes {
		content[m] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	return &huma.RequestBody{Required: true, Content: content}
}

func (t *Table) otherAnswer(op *Operation, status int, answer any) *huma.Response {
	content := map[string]*huma.MediaType{}
	if answer != nil {
		content["application/json"] = &huma.MediaType{Schema: t.schema(answer)}
	} else {
		for _, m := range op.Media {
			content[m] = &huma.MediaType{}
		}
	}
	return &huma.Response{Description: http.StatusText(status), Content: content}
}

func (op *Operation) scopeText() string {
	switch {
	case op.Public:
		return "No key is needed."
	case op.Scope == scope.Any && slices.Contains(op.Problems, problem.RoleRequired):
		return "Needs an owner's sign-in to the dashboard; keys are refused with `role-required`."
	case op.Scope == scope.Any:
		return "Any key may call this operation."
	}
	return "Needs the scope `" + op.Scope.String() + "`."
}

// quotaText says which quota an operation uses if it is a special one.
func (op *Operation) quotaText() string {
	if op.Quota != admission.Safety {
		return ""
	}
	return fmt.Sprintf(" It works when the quotas are used up: it counts towards neither the minute nor the month, but towards a separate limit of "+
		"%d such calls a minute per organisation.", admission.SafetyPerMinute)
}

// operation returns the operation's part of the document.
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
	panic("no field of a path item for " + op.Method)
}

// Part is a piece of the document that a server writes itself, for an operation that serves many documented ones. The
// names of its components contain a dot, which names derived from Go types never do.
type Part struct {
	Tags                                    []Tag
	Paths                                   map[string]json.RawMessage
	Schemas, Responses, Parameters, Headers map[string]json.RawMessage
	// Events are the kinds that the part sends to webhooks.
	Events []Event
	// Samples are the code samples of operations, by operationId.
	Samples map[string]json.RawMessage
	// Extensions are members of the document itself. Their names begin with x-.
	Extensions map[string]json.RawMessage
}

// Tag is a group of operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Describe adds a part to the document. It is called each time the document is generated.
func (t *Table) Describe(part func() (Part, error)) { t.parts = append(t.parts, part) }

// OpenAPI returns the OpenAPI 3.1 document of all operations.
func (t *Table) OpenAPI() ([]byte, error) {
	var (
		parts  []Part
		events []Event
	)
	for _, part := range t.parts {
		p, err := part()
		if err != nil {
			return nil, fmt.Errorf("make a part of the OpenAPI document: %w", err)
		}
		parts, events = append(parts, p), append(events, p.Events...)
	}
	root := *t.api.OpenAPI()
	components := *root.Components
	components.Schemas = published{components.Schemas, t.api.OpenAPI()}
	root.Components = &components
	if t.events != nil {
		section, err := t.events.write(events, t.examples.Events)
		if err != nil {
			return nil, err
		}
		// Huma's own member for webhooks is a map, which has no order.
		t.events.list(t.schemas(), events)
		root.Extensions = map[string]any{"webhooks": section}
	}
	doc, err := json.Marshal(&root)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	// The mux writes a wildcard as {code...}, OpenAPI as {code}.
	doc = []byte(strings.ReplaceAll(string(doc), "...}", "}"))
	for _, p := range parts {
		if doc, err = p.addTo(doc); err != nil {
			return nil, fmt.Errorf("add to the OpenAPI document: %w", err)
		}
	}
	if t.examples.Problems == nil {
		return doc, nil
	}
	if doc, err = t.examples.addTo(doc); err != nil {
		return nil, fmt.Errorf("add examples to the OpenAPI document: %w", err)
	}
	return doc, nil
}

func (p *Part) addTo(doc []byte) ([]byte, error) {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	var components map[string]json.RawMessage
	if err := json.Unmarshal(root["components"], &components); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		into map[string]json.RawMessage
		name string
		add  map[string]json.RawMessage
	}{
		{components, "schemas", p.Schemas}, {components, "responses", p.Responses}, {components, "parameters", p.Parameters},
		{components, "headers", p.Headers}, {root, "paths", p.Paths},
	} {
		if err := addMembers(m.into, m.name, m.add); err != nil {
			return nil, err
		}
	}
	if err := addSamples(root, p.Samples); err != nil {
		return nil, err
	}
	var tags []Tag
	if root["tags"] != nil {
		if err := json.Unmarshal(root["tags"], &tags); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]any{"components": components, "tags": append(tags, p.Tags...)} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		root[name] = text
	}
	maps.Copy(root, p.Extensions)
	return json.Marshal(root)
}

// addMembers adds members to the object into[name]. A member that exists already must be equal.
func addMembers(into map[string]json.RawMessage, name string, add map[string]json.RawMessage) error {
	if len(add) == 0 {
		return nil
	}
	members := map[string]json.RawMessage{}
	if into[name] != nil {
		if err := json.Unmarshal(into[name], &members); err != nil {
			return err
		}
	}
	for key, value := range add {
		if there := members[key]; there != nil && !bytes.Equal(there, value) {
			return fmt.Errorf("%s already has a different %s", name, key)
		}
		members[key] = value
	}
	text, err := json.Marshal(members)
	into[name] = text
	return err
}

// addSamples adds x-codeSamples to the operations of a document.
func addSamples(root, samples map[string]json.RawMessage) error {
	if len(samples) == 0 {
		return nil
	}
	var paths map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(root["paths"], &paths); err != nil {
		return err
	}
	for _, item := range paths {
		for _, op := range item {
			var id string
			if err := json.Unmarshal(op["operationId"], &id); err != nil {
				return err
			}
			if samples[id] != nil {
				op["x-codeSamples"] = samples[id]
			}
		}
	}
	text, err := json.Marshal(paths)
	root["paths"] = text
	return err
}

// The schema of problems is a component to which every problem response refers.
const (
	problemComponent = "Problem"
	problemRef       = schemaPrefix + problemComponent
)

// ProblemComponents returns shared responses for problems, named by a status or a range of them (Problem.429,
// Problem.4XX), and the schema that they refer to.
func ProblemComponents(byStatus map[string][]problem.Kind) (schemas, responses map[string]json.RawMessage, err error) {
	schema, err := json.Marshal(Problem{}.Schema(nil))
	if err != nil {
		return nil, nil, fmt.Errorf("encode the schema of problems: %w", err)
	}
	responses = map[string]json.RawMessage{}
	for status, kinds := range byStatus {
		codes := make([]string, len(kinds))
		for i, k := range kinds {
			codes[i] = k.Code
		}
		text, err := json.Marshal(map[string]any{
			"description": listKinds(kinds), "x-problems": codes,
			"content": map[string]any{problem.ContentType: map[string]any{"schema": map[string]string{"$ref": problemRef}}},
		})
		if err != nil {
			return nil, nil, fmt.Errorf("encode the problems of %s: %w", status, err)
		}
		responses["Problem."+status] = text
	}
	return map[string]json.RawMessage{problemComponent: schema}, responses, nil
}

// listKinds describes the problems of one status.
func listKinds(kinds []problem.Kind) string {
	lines := make([]string, len(kinds))
	for i, k := range kinds {
		lines[i] = "`" + k.Code + "`: " + k.Title
	}
	return strings.Join(lines, "\n\n")
}
