package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

// sdkProblems are the problems of calling a method.
var sdkProblems = []problem.Kind{
	problem.MalformedJSON, problem.InvalidRequest, problem.KeyMissing, problem.KeyInvalid, problem.KeyRevoked, problem.KeyExpired,
	problem.ScopeMissing, problem.MethodNotAllowedForKey, problem.AccountNotAllowedForKey, problem.OrgSuspended,
	problem.UpstreamForbidden, problem.UpstreamCreatorOnly, problem.UpstreamAccountRestricted,
	problem.AccountNotFound, problem.UpstreamNotFound, problem.RequestTimeout,
	problem.AccountPaused, problem.IdempotencyMismatch, problem.IdempotencyInProgress, problem.UpstreamConflict,
	problem.AccountDisconnected, problem.PayloadTooLarge, problem.UnsupportedMediaType, problem.ValidationFailed, problem.UpstreamRejected,
	problem.QuotaExceeded, problem.UpstreamRateLimited, problem.Internal,
	problem.UpstreamError, problem.UpstreamInvalidResponse, problem.UpstreamChanged,
	problem.EgressUnavailable, problem.AccountReauthenticating, problem.ServiceUnavailable, problem.UpstreamUnavailable, problem.UpstreamTimeout,
}

// sdkPrefix starts the names of the catalogue's components. Names of Go types never contain a dot.
const sdkPrefix = "Sdk."

// object is a JSON object.
type object = map[string]any

// openAPI returns an OpenAPI document of methods only.
func (d *sdkDocuments) openAPI(c *catalog.Catalog, methods []*catalog.Method) (any, error) {
	p, err := describeMethods(c, methods)
	if err != nil {
		return nil, err
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "Stagedoor SDK methods", "version": c.Version, "description": "The methods of the catalogue as typed operations."},
		"servers": []object{{"url": d.url}},
		"tags":    p.Tags, "paths": p.Paths,
		"components": object{
			"schemas": p.Schemas, "responses": p.Responses, "parameters": p.Parameters, "headers": p.Headers,
			"securitySchemes": object{"apiKey": object{"type": "http", "scheme": "bearer"}},
		},
	}
	for name, value := range p.Extensions {
		doc[name] = value
	}
	return doc, nil
}

// describeMethods describes every method as an operation with its own path, and the components that they share.
func describeMethods(c *catalog.Catalog, methods []*catalog.Method) (endpoint.Part, error) {
	byStatus := map[string][]problem.Kind{}
	for _, k := range sdkProblems {
		status := fmt.Sprintf("%dXX", k.Status/100)
		if k.Status == http.StatusTooManyRequests || k.Status == http.StatusUnprocessableEntity {
			status = strconv.Itoa(k.Status) // Callers handle these in code.
		}
		byStatus[status] = append(byStatus[status], k)
	}
	schemas, responses, err := endpoint.ProblemComponents(byStatus)
	if err != nil {
		return endpoint.Part{}, err
	}
	p := endpoint.Part{Paths: map[string]json.RawMessage{}, Schemas: schemas, Responses: responses}
	for _, t := range typesOf(c, methods) {
		if p.Schemas[sdkPrefix+t.Name], err = described(moved(t.Schema), t.Name); err != nil {
			return endpoint.Part{}, err
		}
	}
	dry, err := json.Marshal(drySchema)
	if err != nil {
		return endpoint.Part{}, fmt.Errorf("describe a dry run: %w", err)
	}
	p.Schemas[dryName] = dry
	answers := object{}
	for name := range responses {
		answers[strings.TrimPrefix(name, "Problem.")] = object{"$ref": "#/components/responses/" + name}
	}
	for _, m := range methods {
		if p.Paths["/v1/accounts/{id}/"+m.Resource+"/"+m.Name], err = describeMethod(m, answers); err != nil {
			return endpoint.Part{}, fmt.Errorf("describe %s: %w", m.ID(), err)
		}
	}
	for _, r := range c.Resources() {
		if slices.ContainsFunc(methods, func(m *catalog.Method) bool { return m.Resource == r.Name }) {
			p.Tags = append(p.Tags, endpoint.Tag{Name: r.Name, Description: r.Summary})
		}
	}
	for _, m := range methods {
		if page, ok := pageOf(m); ok {
			if p.Schemas[page], err = described(moved(m.ResultSchema()), page); err != nil {
				return endpoint.Part{}, err
			}
		}
	}
	if p.Parameters, err = encoded(sdkParameters); err != nil {
		return endpoint.Part{}, err
	}
	if p.Headers, err = encoded(sdkHeaders); err != nil {
		return endpoint.Part{}, err
	}
	p.Extensions, err = encoded(map[string]any{"x-sdk": object{"version": c.Version, "hash": c.Revision}})
	return p, err
}

// describeMethod describes a method as the item of its path.
func describeMethod(m *catalog.Method, answers object) (json.RawMessage, error) {
	item := object{}
	var err error
	if item["post"], err = postOperation(m, answers); err != nil {
		return nil, err
	}
	if m.Access == catalog.Read {
		if item["get"], err = getOperation(m, answers); err != nil {
			return nil, err
		}
	}
	return json.Marshal(item)
}

func describeEvents(c *catalog.Catalog) ([]endpoint.Event, error) {
	var list []endpoint.Event
	for _, k := range c.Events() {
		data, err := described(moved(k.Schema()), k.Kind)
		if err != nil {
			return nil, err
		}
		list = append(list, endpoint.Event{
			Kind: k.Kind, Summary: k.Summary, Class: string(k.Class), Source: "platform", Scope: contract.PerAccount,
			Data: withDoc(data, memberDocs["data"]),
		})
	}
	return list, nil
}

func encoded(values map[string]any) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for name, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// sdkParameters are the parameters that all methods share.
var sdkParameters = map[string]any{
	"Sdk.account": object{
		"name": "id", "in": "path", "required": true, "description": "The account's id, from GET /v1/accounts.", "schema": object{"type": "string"},
	},
	"Sdk.idempotencyKey": object{
		"name": "Idempotency-Key", "in": "header", "description": "Makes retries safe: for 24 hours, a call with the same key runs only once.",
		"schema": object{"type": "string", "maxLength": 255},
	},
	"Sdk.dryRun": object{
		"name": "X-Dry-Run", "in": "header", "description": "true: check everything and send nothing.", "schema": object{"type": "string", "enum": []string{"true"}},
	},
	"Sdk.prefer": object{
		"name": "Prefer", "in": "header", "description": "handling=lenient: drop unknown arguments.", "schema": object{"type": "string"},
	},
}

// sdkHeaders are the headers of a method's response.
var sdkHeaders = map[string]any{
	"Sdk.duration": object{"description": "The time that the platform took, in milliseconds.", "schema": object{"type": "integer"}},
	"Sdk.state":    object{"description": "The account's state after the call.", "schema": object{"type": "string"}},
}

// dryName is the component of the response to a dry run, which is the same for all methods.
const dryName = sdkPrefix + "Dry"

var drySchema = object{
	"type": "object", "required": []string{"result", "dryRun"}, "description": "The response to a dry run.",
	"properties": object{"result": object{"type": "null", "description": "Nothing was done, so there is no result."}, "dryRun": object{"type": "boolean", "const": true, "description": "Nothing was sent."}},
}

// pageOf returns the name of the component that describes a method's page.
func pageOf(m *catalog.Method) (string, bool) {
	name, ok := strings.CutPrefix(m.ResultName(), "Page<")
	return sdkPrefix + "Page." + strings.TrimSuffix(name, ">"), ok
}

func parameter(name string) object {
	return object{"$ref": "#/components/parameters/" + sdkPrefix + name}
}

// operation returns what the GET and POST operations of a method share.
func operation(m *catalog.Method, id string, answers object) (object, error) {
	var result any
	described, err := described(moved(m.ResultSchema()), m.ID(), "result")
	if err != nil {
		return nil, err
	}
	result = withDoc(described, memberDocs["result"])
	if page, ok := pageOf(m); ok {
		result = object{"$ref": "#/components/schemas/" + page, "description": memberDocs["result"]}
	}
	responses := maps.Clone(answers)
	responses["200"] = object{
		"description": "OK",
		"headers": object{
			"X-Upstream-Duration-Ms": object{"$ref": "#/components/headers/Sdk.duration"},
			"X-Account-State":        object{"$ref": "#/components/headers/Sdk.state"},
		},
		"content": object{"application/json": object{"schema": object{"anyOf": []object{
			{"type": "object", "required": []string{"result"}, "properties": object{"result": result}},
			{"$ref": "#/components/schemas/" + dryName},
		}}}},
	}
	op := object{
		"operationId": id, "tags": []string{m.Resource}, "summary": m.Summary,
		"description": strings.TrimSpace(notes(m) + " Needs the scope `" + scope.SDKCall.String() + "`."),
		"security":    []object{{"apiKey": []string{scope.SDKCall.String()}}}, "responses": responses,
		"x-scope": scope.SDKCall.String(), "x-sdk": sdkExtension(m),
	}
	if m.Deprecated != "" {
		op["deprecated"] = true
	}
	return op, nil
}

// sdkExtension returns facts about a method for code generators that OpenAPI cannot express. Defaults are omitted.
func sdkExtension(m *catalog.Method) object {
	x := object{"resource": m.Resource, "method": m.Name, "access": m.Access, "since": m.Since, "timeoutMs": m.Timeout.Milliseconds()}
	for name, holds := range map[string]bool{
		"idempotent": m.Idempotent, "destructive": m.Destructive, "async": m.Async, "sensitive": m.Sensitive, "paginated": m.Paginated,
	} {
		if holds {
			x[name] = true
		}
	}
	if len(m.Positional()) > 0 {
		x["positional"] = m.Positional()
	}
	if len(m.Emits) > 0 {
		x["emits"] = m.Emits
	}
	if m.Cost != 1 {
		x["cost"] = m.Cost
	}
	return x
}

func notes(m *catalog.Method) string {
	var lines []string
	for _, n := range []struct {
		holds bool
		text  string
	}{
		{m.Destructive, "It cannot be undone."}, {m.Async, "Asynchronous: the result arrives as an event."},
		{m.Sensitive, "It touches money or legal data."}, {m.Outbound, "Other people see what it sends."},
		{len(m.Emits) > 0, "Normally causes the event " + strings.Join(m.Emits, ", ") + "."},
	} {
		if n.holds {
			lines = append(lines, n.text)
		}
	}
	return strings.Join(lines, " ")
}

func postOperation(m *catalog.Method, answers object) (object, error) {
	op, err := operation(m, m.ID(), answers)
	if err != nil {
		return nil, err
	}
	named, err := described(m.ArgsSchema(), m.ID())
	if err != nil {
		return nil, err
	}
	positional, err := positionalSchema(m)
	if err != nil {
		return nil, err
	}
	parameters := []object{parameter("account"), parameter("dryRun"), parameter("prefer")}
	if m.Access == catalog.Write {
		parameters = append(parameters, parameter("idempotencyKey"))
	}
	op["parameters"] = parameters
	op["requestBody"] = object{
		"required": len(m.Required()) > 0,
		"content": object{"application/json": object{
			"schema": object{"oneOf": []any{named, positional}}, "example": m.Example,
		}},
	}
	return op, nil
}

// positionalSchema describes the form {"args": [...]}. The last item may be an object with further named arguments;
// null stands for an omitted argument.
func positionalSchema(m *catalog.Method) (object, error) {
	var items []any
	for _, name := range m.Positional() {
		others := []string{"object", "null"}
		if slices.Contains(m.Required(), name) {
			others = others[:1]
		}
		value, err := argument(m, name)
		if err != nil {
			return nil, err
		}
		items = append(items, object{"title": name, "anyOf": []any{value, object{"type": others}}})
	}
	list := object{
		"type": "array", "maxItems": len(items) + 1, "description": memberDocs["args"],
		"items": object{"type": "object", "description": "Further arguments, by name."},
	}
	if len(items) > 0 {
		list["prefixItems"] = items
	}
	return object{"type": "object", "required": []string{"args"}, "properties": object{"args": list}, "additionalProperties": false}, nil
}

// argument describes an argument of a method.
func argument(m *catalog.Method, name string) (json.RawMessage, error) {
	schema, err := described(m.ArgSchema(name), m.ID(), name)
	return withDoc(schema, memberDoc([]string{m.ID()}, name)), err
}

func getOperation(m *catalog.Method, answers object) (object, error) {
	op, err := operation(m, m.ID()+".get", answers)
	if err != nil {
		return nil, err
	}
	parameters := []object{parameter("account"), parameter("dryRun"), parameter("prefer")}
	for _, name := range m.Positional() {
		schema, err := argument(m, name)
		if err != nil {
			return nil, err
		}
		var doc struct{ Description string }
		if err := json.Unmarshal(schema, &doc); err != nil {
			return nil, fmt.Errorf("read the schema of %s of %s: %w", name, m.ID(), err)
		}
		parameters = append(parameters, object{
			"name": name, "in": "query", "required": slices.Contains(m.Required(), name), "description": doc.Description, "schema": m.ArgSchema(name),
		})
	}
	op["parameters"] = parameters
	return op, nil
}

// moved makes the references of a schema point to the components of a document.
func moved(schema json.RawMessage) json.RawMessage {
	return typeRef.ReplaceAll(schema, []byte(`"$$ref":"#/components/schemas/`+sdkPrefix+`$1"`))
}

// tool is a method in the format of the Model Context Protocol.
type tool struct {
	_           struct{}        `schema:"MethodTool" doc:"A method in the format of the Model Context Protocol."`
	Name        string          `json:"name" doc:"The name of the tool."`
	Title       string          `json:"title" doc:"The name of the method."`
	Description string          `json:"description" doc:"What the tool does."`
	InputSchema object          `json:"inputSchema" doc:"The JSON Schema of the arguments."`
	Annotations map[string]bool `json:"annotations" doc:"Hints about the effect of the tool."`
}

// tools describes methods for language models. Each tool has the account as its first argument.
func tools(methods []*catalog.Method) (any, error) {
	list := []tool{}
	for _, m := range methods {
		var args struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(m.ArgsSchema(), &args); err != nil {
			return nil, fmt.Errorf("read the arguments of %s: %w", m.ID(), err)
		}
		const account = "accountId"
		if args.Properties[account] != nil {
			return nil, fmt.Errorf("%s has an argument %s, which every tool has", m.ID(), account)
		}
		properties := object{account: object{"type": "string", "description": "The connected account to act on."}}
		for name, schema := range args.Properties {
			properties[name] = schema
		}
		list = append(list, tool{
			Name: m.Resource + "_" + m.Name, Title: m.ID(), Description: strings.TrimSpace(m.Summary + " " + notes(m)),
			InputSchema: object{
				"type": "object", "required": append([]string{account}, m.Required()...), "properties": properties, "additionalProperties": false,
			},
			Annotations: map[string]bool{
				"readOnlyHint": m.Access == catalog.Read, "destructiveHint": m.Destructive || m.Sensitive || m.Outbound, "idempotentHint": m.Idempotent, "openWorldHint": true,
			},
		})
	}
	return object{"tools": list}, nil
}
