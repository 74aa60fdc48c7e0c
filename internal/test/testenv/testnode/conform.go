package testnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// document is an OpenAPI document that answers are held against: what the clients are generated from must be what is sent.
type document struct {
	mux   *http.ServeMux
	paths map[string]map[string]described
	mu    sync.Mutex
	// compiled are schemas by where they are in the document; the compiler is not for many goroutines.
	compiled map[string]*jsonschema.Schema
	compiler *jsonschema.Compiler
}

type described struct {
	Ref       string `json:"$ref"`
	Responses map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]struct {
			Schema json.RawMessage
		}
	}
}

const documentURL = "https://stagedoor.test/openapi.json"

func readDocument(t testing.TB, text []byte, err error) *document {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]described
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{mux: http.NewServeMux(), paths: doc.Paths, compiled: map[string]*jsonschema.Schema{}, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, root); err != nil {
		t.Fatal(err)
	}
	for route, item := range doc.Paths {
		for method := range item {
			d.mux.Handle(strings.ToUpper(method)+" "+muxPath(route), http.NotFoundHandler())
		}
	}
	return d
}

// muxPath writes a path as the mux wants it: a problem's code may have a slash.
func muxPath(route string) string { return strings.Replace(route, "{code}", "{code...}", 1) }

// judge lists where an answer is other than the document says. What no operation serves has its own tests.
func (d *document) judge(req *http.Request, reply Reply) (faults []string) {
	method, route, ok := strings.Cut(d.pattern(req), " ")
	if !ok || reply.Status == http.StatusMethodNotAllowed || path.Clean(req.URL.Path) != req.URL.Path {
		return nil
	}
	route = strings.Replace(route, "...}", "}", 1)
	operation := d.paths[route][strings.ToLower(method)]
	place := "#/paths/" + pointer(route) + "/" + strings.ToLower(method) + "/responses/"
	status := strconv.Itoa(reply.Status)
	response, ok := operation.Responses[status]
	if !ok {
		status = status[:1] + "XX"
		response, ok = operation.Responses[status]
	}
	if !ok {
		return []string{fmt.Sprintf("the document knows no answer %d of %s %s", reply.Status, method, route)}
	}
	if len(reply.Body) == 0 || req.Method == http.MethodHead {
		return nil
	}
	media, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	if response.Ref != "" {
		place = response.Ref + "/content/" + pointer(media) + "/schema"
	} else {
		place += status + "/content/" + pointer(media) + "/schema"
		content, ok := response.Content[media]
		if _, any := response.Content["*/*"]; !ok && any {
			return nil
		}
		if !ok {
			return []string{fmt.Sprintf("the document knows no %s in the answer %s of %s %s, only %v", media, status, method, route, slices.Sorted(maps.Keys(response.Content)))}
		}
		if content.Schema == nil {
			return nil
		}
	}
	if media != "application/json" && media != problem.ContentType {
		return nil
	}
	return d.validate(place, reply.Body)
}

func (d *document) pattern(req *http.Request) string {
	_, pattern := d.mux.Handler(&http.Request{Method: req.Method, URL: req.URL, Host: req.Host})
	return pattern
}

func (d *document) validate(place string, body []byte) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema := d.compiled[place]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile(documentURL + place); err != nil {
			return []string{"the document's schema: " + err.Error()}
		}
		d.compiled[place] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []string{"the body is not JSON: " + err.Error()}
	}
	if err := schema.Validate(value); err != nil {
		return []string{"the answer is not what the document says: " + err.Error()}
	}
	return nil
}

// pointer writes a name as a part of a JSON pointer in a URL.
func pointer(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return strings.NewReplacer("{", "%7B", "}", "%7D").Replace(name)
}
