package endpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type listInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"100"`
	State string `query:"state" enum:"active,paused"`
}

// The input of an operation that writes its response itself is checked before admission. Its errors are problems until
// the response has started; after that the response is cut off, so that the caller does not take it for complete.
func TestWrittenResponsesAreCutOffOnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	endpoint.Written(f.Table, endpoint.Operation{
		ID: "list", Method: http.MethodGet, Path: "/list", Tag: "T", Summary: "S", Status: http.StatusOK, Quota: admission.Plain, Answer: nothing{}.Body,
	}, func(w http.ResponseWriter, _ *http.Request, in *listInput) error {
		if in.State == "paused" {
			return problem.AccountNotFound.New("none")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rows":[`)
		if in.Limit == 13 {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			return errors.New("the database went away")
		}
		fmt.Fprintf(w, `%d]}`, in.Limit)
		return nil
	})
	for target, want := range map[string]string{
		"/list?limit=7": `{"rows":[7]}`, "/list": `{"rows":[0]}`, "/list?state=paused": `"account-not-found"`, "/list?limit=x": `"invalid-request"`,
		"/list?limit=101": `"invalid-request"`, "/list?stat=active": `"invalid-request"`,
	} {
		if w := f.do(t, http.MethodGet, target, nil); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	if n := len(f.admission.calls()); n != 3 {
		t.Errorf("%d calls admitted", n)
	}
	server := httptest.NewServer(f.Table)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/list?limit=13", nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer x")
	res, err := server.Client().Do(req)
	must.OK(t, err)
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the broken response looks complete: %s", body)
	}
	doc, err := f.OpenAPI()
	if err != nil || !strings.Contains(string(doc), `"name":"state"`) {
		t.Errorf("%v %s", err, doc)
	}
}

// A plain operation that declares a body gets valid JSON, and the document has its schema.
func TestPlainBodies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "call", Method: http.MethodPost, Path: "/call/{id}", Tag: "T", Summary: "S", Status: http.StatusOK, Unaudited: "x",
		Body: struct {
			Text string `json:"text"`
		}{}, Example: map[string]any{"text": "hello"},
	}, func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(w, r.Body)
		return err
	})
	for body, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `{"a":1,"a":2}`: `"malformed-json"`, ``: `"malformed-json"`, strings.Repeat(" ", 1<<20) + "1": `"payload-too-large"`} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/call/1", strings.NewReader(body))
		r.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.20q: %s", body, w.Body)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/call/1", strings.NewReader(`{}`))
	r.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"text/plain"}}
	w := httptest.NewRecorder()
	if f.ServeHTTP(w, r); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	text, err := f.OpenAPI()
	var doc struct {
		Paths map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema, Example json.RawMessage
					}
				}
			}
		}
	}
	err = errors.Join(err, json.Unmarshal(text, &doc))
	must.OK(t, err)
	if c := doc.Paths["/call/{id}"].Post.RequestBody.Content["application/json"]; len(c.Schema) < 10 || string(c.Example) != `{"text":"hello"}` {
		t.Errorf("%s", text)
	}
}

type hidden struct {
	Limit int `query:"limit"`
}

// An input that embeds an unexported type, whose fields huma would not see, stops the start.
func TestHiddenFieldsStopTheStart(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("served")
		}
	}()
	endpoint.Written(newFixture(t, nil).Table, endpoint.Operation{
		ID: "list", Method: http.MethodGet, Path: "/list", Tag: "T", Summary: "S", Status: http.StatusOK,
	}, func(http.ResponseWriter, *http.Request, *struct{ hidden }) error { return nil })
}
