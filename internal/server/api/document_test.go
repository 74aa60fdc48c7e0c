package api_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// openapi is the part of an OpenAPI document that the tests check.
type openapi struct {
	OpenAPI string
	Info    struct{ Version string }
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Responses   map[string]json.RawMessage
		Security    []map[string][]string
		Scope       string                             `json:"x-scope"`
		Problems    []string                           `json:"x-problems"`
		SDK         *struct{ Resource, Method string } `json:"x-sdk"`
		Parameters  []struct {
			Ref      string `json:"$ref"`
			Name, In string
			Required bool
			Schema   json.RawMessage
		}
		RequestBody *struct {
			Required bool
			Content  map[string]struct {
				Schema struct{ OneOf []json.RawMessage }
			}
		} `json:"requestBody"`
	}
}

func document(t *testing.T, node *testnode.Node) ([]byte, openapi) {
	t.Helper()
	text := node.Call(t, http.MethodGet, "/v1/openapi.json", "", nil).Body
	var doc openapi
	must.OK(t, json.Unmarshal(text, &doc))
	return text, doc
}

// The document and the table of operations agree: every operation is described with its scope and problems, and every
// description has an operation.
func TestOpenAPIIsTheRouteTable(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	_, doc := document(t, node)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Info.Version != "1.0.0" {
		t.Errorf("OpenAPI %s of version %s", doc.OpenAPI, doc.Info.Version)
	}
	served := map[string]bool{}
	for _, op := range node.App.API().Operations() {
		path := strings.ReplaceAll(op.Path, "...}", "}")
		served[strings.ToLower(op.Method)+" "+path] = true
		described, ok := doc.Paths[path][strings.ToLower(op.Method)]
		if !ok || described.OperationID != op.ID {
			t.Errorf("%s %s is served but not described", op.Method, path)
			continue
		}
		if described.Scope != op.Scope.String() || (len(described.Security) == 0) != op.Public {
			t.Errorf("%s: described with scope %q, security %v", op.ID, described.Scope, described.Security)
		}
		for _, code := range described.Problems {
			k, ok := problem.Lookup(code)
			if !ok || described.Responses[itoa(k.Status)] == nil {
				t.Errorf("%s declares %s without a response for it", op.ID, code)
			}
		}
		for _, k := range op.Problems {
			if !slices.Contains(described.Problems, k.Code) {
				t.Errorf("%s can return %s but does not declare it", op.ID, k.Code)
			}
		}
	}
	for path, methods := range doc.Paths {
		for method, described := range methods {
			if !served[method+" "+path] && described.SDK == nil {
				t.Errorf("%s %s is described but not served", method, path)
			}
		}
	}
}

func itoa(n int) string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The committed document is what this code serves.
func TestCommittedOpenAPIIsCurrent(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	current, err := app.Document(t.Context())
	must.OK(t, err)
	if !bytes.Equal(committed, current) {
		t.Error("openapi/openapi.json is out of date; run make generate")
	}
}

// Every state has a tone, so that a new one is not shown without a colour by mistake.
func TestEveryStateHasATone(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum  []string
					Tones map[string]string `json:"x-tone"`
				}
			}
		}
	}
	must.OK(t, json.Unmarshal(text, &doc))
	for name, schema := range doc.Components.Schemas {
		if strings.HasPrefix(name, "Sdk.") {
			continue // The states of the platform's objects are not ours.
		}
		for member, p := range schema.Properties {
			if !slices.Contains([]string{"state", "laneState", "status"}, member) {
				continue
			}
			for _, value := range p.Enum {
				if p.Tones[value] == "" {
					t.Errorf("%s.%s: %s has no tone", name, member, value)
				}
			}
		}
	}
}

// Every problem has a page with the same facts, and every page has a problem.
func TestEveryProblemHasItsPage(t *testing.T) {
	t.Parallel()
	pages := map[string]bool{}
	err := fs.WalkDir(docs.Problems, "problems", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, "README.md") {
			pages[strings.TrimSuffix(strings.TrimPrefix(path, "problems/"), ".md")] = true
		}
		return err
	})
	must.OK(t, err)
	index, err := docs.Problems.ReadFile("problems/README.md")
	must.OK(t, err)
	for _, k := range problem.All() {
		if !pages[k.Code] {
			t.Errorf("%s has no page", k.Code)
			continue
		}
		delete(pages, k.Code)
		checkPage(t, k)
		if !strings.Contains(string(index), "`"+k.Code+"`") {
			t.Errorf("%s is not in the index", k.Code)
		}
	}
	for code := range pages {
		t.Errorf("the page %s has no problem", code)
	}
}

func checkPage(t *testing.T, k problem.Kind) {
	t.Helper()
	text, err := docs.Problems.ReadFile("problems/" + k.Code + ".md")
	must.OK(t, err)
	page := string(text)
	for _, heading := range []string{"# " + k.Title + "\n", "\n## Cause\n", "\n## Example\n", "\n## Fix\n", "\n## See also\n"} {
		if !strings.Contains(page, heading) {
			t.Errorf("%s: no %q", k.Code, heading)
		}
	}
	_, rest, _ := strings.Cut(page, "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	var body struct {
		Type, Title, Code string
		Status            int
		Retryable         bool
	}
	if err := json.Unmarshal([]byte(example), &body); err != nil {
		t.Errorf("%s: the example is not JSON: %v", k.Code, err)
	}
	if body.Code != k.Code || body.Status != k.Status || body.Title != k.Title || body.Retryable != k.Retryable || !strings.HasSuffix(body.Type, "/problems/"+k.Code) {
		t.Errorf("%s: the example says %+v", k.Code, body)
	}
}

// Every member and every parameter of the document has a description of its own, or that of its type.
func TestEveryPropertyIsDescribed(t *testing.T) {
	t.Parallel()
	root := committedDocument(t)
	walkDocument(root, "#", func(at string, node map[string]any) {
		if node["in"] != nil && node["name"] != nil && !isDescribed(root, node) {
			t.Errorf("the parameter %v at %s has no description", node["name"], at)
		}
		properties, ok := node["properties"].(map[string]any)
		if !ok || strings.HasSuffix(at, "/properties") {
			return
		}
		for name, schema := range properties {
			if one, ok := schema.(map[string]any); ok && !isDescribed(root, one) {
				t.Errorf("%s has no description of %s", at, name)
			}
		}
	})
}

// Responses and events may get new members, so no schema of them says that it has all.
func TestResponsesMayGrow(t *testing.T) {
	t.Parallel()
	root := committedDocument(t)
	seen := map[string]bool{}
	var check func(at string, node any)
	check = func(at string, node any) {
		walkDocument(node, at, func(at string, node map[string]any) {
			if node["additionalProperties"] == false {
				t.Errorf("%s refuses new members", at)
			}
			if ref, ok := node["$ref"].(string); ok && !seen[ref] {
				seen[ref] = true
				check(ref, lookUp(root, ref))
			}
		})
	}
	check("#/webhooks", root["webhooks"])
	walkDocument(root["paths"], "#/paths", func(at string, node map[string]any) {
		if node["responses"] != nil {
			check(at+"/responses", node["responses"])
		}
	})
}

// The names of schemas and operations are those that a person would choose: they do not show how the code is divided.
func TestNamesAreForReaders(t *testing.T) {
	t.Parallel()
	root := committedDocument(t)
	schema := regexp.MustCompile(`^(Sdk\.)?(Page\.)?[A-Z][A-Za-z]+$`)
	code := regexp.MustCompile(`(Body|Input|Output|Struct|View|Payload|DTO|Map|List[A-Z].*)$`)
	for name := range root["components"].(map[string]any)["schemas"].(map[string]any) {
		if !schema.MatchString(name) || code.MatchString(name) {
			t.Errorf("the schema %s is named after the code; give its type the tag schema", name)
		}
	}
	operation := regexp.MustCompile(`^[a-z][A-Za-z]+(\.[a-z][A-Za-z]+)?(\.get)?$`)
	for path, item := range root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if id, _ := op.(map[string]any)["operationId"].(string); !operation.MatchString(id) {
				t.Errorf("%s %s has the operationId %q", method, path, id)
			}
		}
	}
}

func committedDocument(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	return decodeJSON(t, text).(map[string]any)
}

// walkDocument calls visit for every object in a part of a document except in examples.
func walkDocument(node any, at string, visit func(at string, node map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(at, n)
		for name, value := range n {
			if name != "example" && name != "examples" && name != "x-codeSamples" {
				walkDocument(value, at+"/"+name, visit)
			}
		}
	case []any:
		for i, value := range n {
			walkDocument(value, at+"/"+itoa(i), visit)
		}
	}
}

func isDescribed(root, schema map[string]any) bool {
	if text, _ := schema["description"].(string); text != "" {
		return true
	}
	ref, ok := schema["$ref"].(string)
	if !ok {
		return false
	}
	target, _ := lookUp(root, ref).(map[string]any)
	return isDescribed(root, target)
}

// lookUp returns the part of a document that a reference names.
func lookUp(root map[string]any, ref string) any {
	var node any = root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, _ := node.(map[string]any)
		node = object[name]
	}
	return node
}

// Every response, request and event of the document has an example that a server sent or accepts, and it matches its
// schema. Problems that no script can cause have no example.
func TestExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(testenv.Path(t, "openapi", "openapi.json"))
	must.OK(t, err)
	schemas, err := testenv.NewSchemas(text)
	must.OK(t, err)
	root := committedDocument(t)
	problems := root["components"].(map[string]any)["examples"].(map[string]any)
	if len(problems) < 60 {
		t.Errorf("the document shows only %d problems", len(problems))
	}
	count := 0
	check := func(at string, content any) {
		forms, _ := content.(map[string]any)
		form, _ := forms["application/json"].(map[string]any)
		if form["schema"] == nil {
			return
		}
		if form["example"] == nil && strings.HasPrefix(at, "#/webhooks/unknown/") {
			return // The sandbox sends nothing that the manifest does not name.
		}
		if form["example"] == nil {
			t.Errorf("%s has no example; run scripts/record-examples", at)
			return
		}
		body, err := json.Marshal(form["example"])
		must.OK(t, err)
		if err := schemas.Validate(at+"/content/application~1json/schema", body); err != nil {
			t.Errorf("the example at %s does not match its schema: %v", at, err)
		}
		count++
	}
	for _, section := range []string{"paths", "webhooks"} {
		for path, item := range root[section].(map[string]any) {
			for method, one := range item.(map[string]any) {
				op, at := one.(map[string]any), "#/"+section+"/"+testenv.Pointer(path)+"/"+method
				if body, ok := op["requestBody"].(map[string]any); ok {
					check(at+"/requestBody", body["content"])
				}
				for status, response := range op["responses"].(map[string]any) {
					check(at+"/responses/"+status, response.(map[string]any)["content"])
				}
			}
		}
	}
	for name, example := range problems {
		body, err := json.Marshal(example.(map[string]any)["value"])
		must.OK(t, err)
		if err := schemas.Validate("#/components/schemas/Problem", body); err != nil {
			t.Errorf("%s does not match its schema: %v", name, err)
		}
		count++
	}
	t.Logf("%d examples", count)
}
