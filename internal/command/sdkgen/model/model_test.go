package model_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// document loads the model once for all tests. They must not change it.
var document = sync.OnceValues(func() (*model.Model, error) {
	openapi, err := os.ReadFile("../../../../openapi/openapi.json")
	if err != nil {
		return nil, err
	}
	return model.Load(openapi)
})

func load(t *testing.T) *model.Model {
	t.Helper()
	m, err := document()
	must.OK(t, err)
	return m
}

func TestLoadHasEverything(t *testing.T) {
	t.Parallel()
	m := load(t)
	methods, paged := 0, 0
	for _, r := range m.Resources {
		for _, method := range r.Methods {
			methods++
			if method.Page != nil {
				paged++
			}
			if method.Result.Kind != model.Named {
				t.Errorf("%s: the result has kind %s, want a named type", method.ID(), method.Result.Kind)
			}
			if method.Doc == "" || method.Scope == "" {
				t.Errorf("%s has no description or scope", method.ID())
			}
		}
	}
	if methods != 250 || paged != 52 {
		t.Errorf("got %d methods, %d paginated; want 250 and 52", methods, paged)
	}
	if len(m.Events) != 80 || len(m.Problems) < 50 || len(m.Scopes) != 8 {
		t.Errorf("%d events, %d problems, %d scopes", len(m.Events), len(m.Problems), len(m.Scopes))
	}
	for _, g := range m.Groups {
		if g.Doc == "" {
			t.Errorf("group %s has no description", g.Name)
		}
		for _, o := range g.Operations {
			if o.Form == model.JSON && o.Result.Kind == model.Any && o.Group != "problems" && o.ID != "getOpenAPI" {
				t.Errorf("%s: the result has no type", o.ID)
			}
		}
	}
}

func TestLoadReadsAMethod(t *testing.T) {
	t.Parallel()
	m := load(t)
	var send, list *model.Method
	for _, r := range m.Resources {
		for _, method := range r.Methods {
			switch method.ID() {
			case "messages.send":
				send = method
			case "messages.list":
				list = method
			}
		}
	}
	if send == nil || send.Read || send.Idempotent || !send.Required || send.Result.Name != "Message" || send.Params.Fields[0].JSON != "chatId" {
		t.Errorf("messages.send is %+v", send)
	}
	if list == nil || list.Page == nil || list.Page.In != "cursor" || list.Page.Items != "items" || list.Page.Item.Name != "Message" {
		t.Errorf("messages.list is %+v", list)
	}
}

func TestEveryReferenceIsKnown(t *testing.T) {
	t.Parallel()
	m := load(t)
	var check func(where string, r model.Ref)
	check = func(where string, r model.Ref) {
		if r.Elem != nil {
			check(where, *r.Elem)
		}
		if r.Kind == model.Named && m.Type(r.Name) == nil {
			t.Errorf("%s has the unknown type %s", where, r.Name)
		}
		if r.Kind == "" || (r.Elem == nil) == (r.Kind == model.Array || r.Kind == model.Map) {
			t.Errorf("%s: %+v", where, r)
		}
	}
	for _, typ := range m.Types {
		if typ.Doc == "" && typ.Name != "Event" {
			t.Errorf("%s has no description; add one to the Go type, or to type_docs.go for the platform's", typ.Name)
		}
		for _, f := range typ.Fields {
			check(typ.Name+"."+f.JSON, f.Type)
		}
	}
	for _, e := range m.Events {
		check(e.Kind, e.Data)
		if e.Doc == "" {
			t.Errorf("%s has no description", e.Kind)
		}
	}
}

// TestLastResponseDecides checks an operation whose first response is unwrapped and whose last one is not.
func TestLastResponseDecides(t *testing.T) {
	t.Parallel()
	for _, g := range load(t).Groups {
		for _, o := range g.Operations {
			if o.ID == "connectCurl" && (o.Unwrap != "" || o.Result.Name != "CurlAttempt") {
				t.Errorf("the result is %s, member %q", o.Result.Name, o.Unwrap)
			}
		}
	}
}

// TestStreamsAreDescribedAsPages checks that operations that can stream are described as what the generated methods do.
func TestStreamsAreDescribedAsPages(t *testing.T) {
	t.Parallel()
	described := 0
	for _, g := range load(t).Groups {
		for _, o := range g.Operations {
			if o.ID != "streamEvents" && o.ID != "streamAccountEvents" {
				continue
			}
			described++
			if o.Form != model.JSON || !strings.HasPrefix(o.Title, "List ") || !strings.Contains(o.Doc, "page by page") {
				t.Errorf("%s: %s: %s. %s", o.ID, o.Form, o.Title, o.Doc)
			}
		}
	}
	if described != 2 {
		t.Errorf("got %d operations, want 2", described)
	}
}

func TestLoadRejectsUnknownOperationsAndTypes(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"no JSON":                              "{",
		"an unknown operation":                 `{"paths":{"/v1/x":{"get":{"operationId":"getX"}}}}`,
		"a stream with pages that has no text": `{"paths":{"/v1/me":{"get":{"operationId":"getMe","responses":{"200":{"content":{"application/json":{},"text/event-stream":{}}}}}}}}`,
		"an unknown type":                      `{"paths":{"/v1/me":{"get":{"operationId":"getMe","responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/X"}}}}}}}}}`,
	} {
		if _, err := model.Load([]byte(document)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
