package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

func sandboxCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Sandbox()
	must.OK(t, err)
	return c
}

// Every method of the catalogue is an operation of the document with its own path: its arguments are parameters of a
// GET if it reads, and a body in both forms of a POST. The document has no other methods.
func TestEveryMethodIsAnOperation(t *testing.T) {
	t.Parallel()
	_, doc := document(t, testnode.Nodes(t, 1, testnode.Setup{})[0])
	c := sandboxCatalog(t)
	for _, m := range c.Methods() {
		item := doc.Paths["/v1/accounts/{id}/"+m.Resource+"/"+m.Name]
		post, get := item["post"], item["get"]
		if post.OperationID != m.ID() || post.Scope != "sdk:call" || post.RequestBody == nil ||
			len(post.RequestBody.Content["application/json"].Schema.OneOf) != 2 || post.RequestBody.Required != (len(m.Required()) > 0) {
			t.Errorf("%s is not described as a POST", m.ID())
			continue
		}
		example := decodeJSON(t, m.Example)
		for i, form := range []any{example, map[string]any{"args": []any{example}}} {
			if err := schemaOf(t, post.RequestBody.Content["application/json"].Schema.OneOf[i]).Validate(form); err != nil {
				t.Errorf("%s: the example does not match the schema: %v", m.ID(), err)
			}
		}
		if (m.Access == catalog.Read) != (get.OperationID != "") {
			t.Errorf("%s is described as a GET: %v", m.ID(), get.OperationID != "")
		}
		if m.Access != catalog.Read {
			continue
		}
		var names []string
		for _, p := range get.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
			if p.Required != slices.Contains(m.Required(), p.Name) {
				t.Errorf("%s: %s is described as required: %v", m.ID(), p.Name, p.Required)
			}
		}
		if !slices.Equal(names, m.Positional()) {
			t.Errorf("%s: the GET has the parameters %v", m.ID(), names)
		}
	}
	for path, methods := range doc.Paths {
		for _, op := range methods {
			if op.SDK == nil {
				continue
			}
			if _, ok := c.Method(op.SDK.Resource, op.SDK.Method); !ok || !strings.HasSuffix(path, op.SDK.Resource+"/"+op.SDK.Method) {
				t.Errorf("%s is in the document but not in the catalogue", path)
			}
		}
	}
}

var (
	reference     = regexp.MustCompile(`"\$ref": ?"#/components/([a-zA-Z]+)/([^"]+)"`)
	componentName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

// The document is consistent: operation ids are unique, component names are legal, every reference resolves, every path
// parameter is described, and every schema compiles.
func TestOpenAPIIsConsistent(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	owner := node.NewOrg(t, nil)
	whole, _ := document(t, node)
	for name, text := range map[string][]byte{
		"whole": whole, "sdk": node.Call(t, http.MethodGet, "/v1/sdk/methods?format=openapi", owner.Key, nil).Body,
		"part": node.Call(t, http.MethodGet, "/v1/sdk/methods?format=openapi&resource=lists&access=write", owner.Key, nil).Body,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkDocument(t, text)
		})
	}
}

func checkDocument(t *testing.T, text []byte) {
	t.Helper()
	var doc struct {
		openapi
		Components map[string]map[string]json.RawMessage
	}
	must.OK(t, json.Unmarshal(text, &doc))
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %q", doc.OpenAPI)
	}
	for _, m := range reference.FindAllSubmatch(text, -1) {
		kind, component := string(m[1]), string(m[2])
		if doc.Components[kind][component] == nil {
			t.Errorf("#/components/%s/%s does not exist", kind, component)
		}
	}
	for kind, components := range doc.Components {
		for name := range components {
			if !componentName.MatchString(name) {
				t.Errorf("%s %q has an illegal name", kind, name)
			}
		}
	}
	ids := map[string]bool{}
	parameters := regexp.MustCompile(`\{([^}]*)\}`)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.OperationID == "" || ids[op.OperationID] || len(op.Responses) == 0 {
				t.Errorf("%s %s: the id %q is missing or taken, or there is no response", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			described := map[string]bool{}
			for _, p := range op.Parameters {
				described[p.Name] = true
				if p.Ref == "#/components/parameters/Sdk.account" {
					described["id"] = true
				}
			}
			for _, m := range parameters.FindAllStringSubmatch(path, -1) {
				if !described[m[1]] {
					t.Errorf("%s %s: {%s} is not described", method, path, m[1])
				}
			}
		}
	}
	compiler := jsonschema.NewCompiler()
	must.OK(t, compiler.AddResource("openapi.json", decodeJSON(t, text)))
	for name := range doc.Components["schemas"] {
		if _, err := compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("%s is not a schema: %v", name, err)
		}
	}
}

func decodeJSON(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must.OK(t, err)
	return v
}

func schemaOf(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	must.OK(t, compiler.AddResource("schema.json", decodeJSON(t, text)))
	schema, err := compiler.Compile("schema.json")
	must.OK(t, err)
	return schema
}

// A caller with a current copy of the catalogue gets 304, whether its tag is alone, in a list or weak. Each
// representation has its own tag.
func TestTheCatalogueHasTags(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	owner := node.NewOrg(t, nil)
	seen := map[string]string{}
	for _, query := range []string{"", "?format=compact", "?format=mcp", "?format=openapi", "?resource=lists", "?resource=lists&access=read"} {
		first := node.Call(t, http.MethodGet, "/v1/sdk/methods"+query, owner.Key, nil)
		tag := first.Header.Get("ETag")
		if first.Status != http.StatusOK || !strings.HasPrefix(tag, `"`) || seen[tag] != "" {
			t.Fatalf("%s: %d, tag %s, which %q has", query, first.Status, tag, seen[tag])
		}
		seen[tag] = query
		for header, want := range map[string]int{
			tag: http.StatusNotModified, "W/" + tag: http.StatusNotModified, `"x", W/"y" , ` + tag: http.StatusNotModified,
			strings.Trim(tag, `"`): http.StatusOK, `"x"`: http.StatusOK,
		} {
			r := askMethods(t, node, query, owner.Key, header)
			if r.Status != want || r.Header.Get("ETag") != tag || want == http.StatusNotModified && (len(r.Body) > 0 || r.Header.Get("Content-Type") != "") {
				t.Errorf("%s with %s: %d %v %.40s", query, header, r.Status, r.Header, r.Body)
			}
		}
	}
}

func askMethods(t *testing.T, node *testnode.Node, query, key, tag string) testnode.Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, node.URL+"/v1/sdk/methods"+query, nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("If-None-Match", tag)
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

// An org of an environment without a platform gets 503.
func TestAnEnvironmentWithoutAPlatform(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	r := node.Operate(t, http.MethodPost, "/admin/v1/orgs", map[string]any{
		"name": "Live", "plan": "starter", "environment": "live", "contactEmail": "ops@example.com",
	})
	var made struct{ Key struct{ Key string } }
	if err := json.Unmarshal(r.Body, &made); err != nil || r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if r := node.Call(t, http.MethodGet, "/v1/sdk/methods", made.Key.Key, nil); r.Status != http.StatusServiceUnavailable || r.Code() != "service-unavailable" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
