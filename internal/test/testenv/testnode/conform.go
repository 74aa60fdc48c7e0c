package testnode

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// document is an OpenAPI document that responses are validated against. The client libraries are generated from it,
// so it must describe what the server sends.
type document struct {
	mux     *http.ServeMux
	paths   map[string]map[string]operationDoc
	schemas *testenv.Schemas
}

// operationDoc is the part of an operation in the document that is checked.
type operationDoc struct {
	Ref       string `json:"$ref"`
	Responses map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]struct {
			Schema json.RawMessage
		}
	}
}

func readDocument(t testing.TB, text []byte, err error) *document {
	t.Helper()
	must.OK(t, err)
	var doc struct {
		Paths map[string]map[string]operationDoc
	}
	must.OK(t, json.Unmarshal(text, &doc))
	schemas, err := testenv.NewSchemas(text)
	must.OK(t, err)
	d := &document{mux: http.NewServeMux(), paths: doc.Paths, schemas: schemas}
	for route, item := range doc.Paths {
		for method := range item {
			d.mux.Handle(strings.ToUpper(method)+" "+muxPath(route), http.NotFoundHandler())
		}
	}
	return d
}

// muxPath converts a path of the document to a pattern for the mux. The code of a problem may contain a slash.
func muxPath(route string) string { return strings.Replace(route, "{code}", "{code...}", 1) }

// check returns the differences between a response and the document. It ignores requests that no operation serves; they
// have their own tests.
func (d *document) check(req *http.Request, reply Reply) (faults []string) {
	method, route, ok := strings.Cut(d.pattern(req), " ")
	if !ok || reply.Status == http.StatusMethodNotAllowed || path.Clean(req.URL.Path) != req.URL.Path {
		return nil
	}
	route = strings.Replace(route, "...}", "}", 1)
	operation := d.paths[route][strings.ToLower(method)]
	place := "#/paths/" + testenv.Pointer(route) + "/" + strings.ToLower(method) + "/responses/"
	status := strconv.Itoa(reply.Status)
	response, ok := operation.Responses[status]
	if !ok {
		status = status[:1] + "XX"
		response, ok = operation.Responses[status]
	}
	if !ok {
		return []string{fmt.Sprintf("the document does not describe status %d of %s %s", reply.Status, method, route)}
	}
	if len(reply.Body) == 0 || req.Method == http.MethodHead {
		return nil
	}
	media, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	if response.Ref != "" {
		place = response.Ref + "/content/" + testenv.Pointer(media) + "/schema"
	} else {
		place += status + "/content/" + testenv.Pointer(media) + "/schema"
		content, ok := response.Content[media]
		if _, any := response.Content["*/*"]; !ok && any {
			return nil
		}
		if !ok {
			return []string{fmt.Sprintf("the document does not describe %s with status %s of %s %s, only %v", media, status, method, route, slices.Sorted(maps.Keys(response.Content)))}
		}
		if content.Schema == nil {
			return nil
		}
	}
	if media != "application/json" && media != problem.ContentType {
		return nil
	}
	if err := d.schemas.Validate(place, reply.Body); err != nil {
		return []string{"the response does not match the document: " + err.Error()}
	}
	return nil
}

// pattern returns the operation of a request as method and path; empty if there is none.
func (d *document) pattern(req *http.Request) string {
	_, pattern := d.mux.Handler(&http.Request{Method: req.Method, URL: req.URL, Host: req.Host})
	return pattern
}
