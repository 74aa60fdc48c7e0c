// Package documents has the operations of the public API that serve documents: the OpenAPI document, and the pages that
// problems link to.
package documents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Deps are the dependencies of the operations.
type Deps struct {
	// PublicURL is the address at which callers reach the service, without a trailing slash.
	PublicURL string
	// Pages serves the pages about problems to browsers.
	Pages http.Handler
	// OpenAPI returns the OpenAPI document. It is called after all operations were added.
	OpenAPI func() ([]byte, error)
}

// sendTimeout bounds the time to send the OpenAPI document.
const sendTimeout = 30 * time.Second

type documents struct {
	Deps
	// byCode are the documents about problems in JSON, index is their list. Browsers get Deps.Pages instead.
	byCode map[string][]byte
	index  []byte
	// openAPI is the OpenAPI document with its ETag and its compressed form.
	openAPI func() (endpoint.Document, error)
}

type pageJSON struct {
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Retryable bool   `json:"retryable"`
	Fix       string `json:"fix"`
	Document  string `json:"document,omitempty"`
}

// Routes adds the operations. It fails if a page cannot be read.
func Routes(t *endpoint.Table, d Deps) error {
	a := &documents{Deps: d, byCode: map[string][]byte{}, openAPI: sync.OnceValues(func() (endpoint.Document, error) {
		doc, err := d.OpenAPI()
		if err != nil {
			return endpoint.Document{}, err
		}
		return endpoint.NewDocument(doc)
	})}
	if err := a.encodePages(); err != nil {
		return err
	}
	both := []string{"text/html", "application/json"}
	endpoint.Plain(t, endpoint.Operation{
		ID: "getProblem", Method: http.MethodGet, Path: "/problems/{code...}", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: both, Problems: []problem.Kind{problem.RouteNotFound},
		Summary: "Get the page of a problem", Description: "The page that the `type` of a problem links to: cause, example, fix. HTML for browsers, JSON otherwise.",
	}, a.getProblem)
	endpoint.Plain(t, endpoint.Operation{
		ID: "listProblems", Method: http.MethodGet, Path: "/problems", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: both,
		Summary: "List problems", Description: "The catalogue of problems. HTML for browsers, JSON otherwise.",
	}, func(w http.ResponseWriter, r *http.Request) error { return a.writePage(w, r, a.index) })
	endpoint.Plain(t, endpoint.Operation{
		ID: "getOpenAPI", Method: http.MethodGet, Path: "/v1/openapi.json", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: []string{"application/json"}, Conditional: true,
		Summary: "Get the OpenAPI document", Description: "This document. The response has an ETag.",
	}, a.getOpenAPI)
	return nil
}

func (a *documents) encodePages() error {
	list := struct {
		Problems []pageJSON `json:"problems"`
	}{}
	for _, k := range problem.All() {
		about := pageJSON{Code: k.Code, Status: k.Status, Title: k.Title, Retryable: k.Retryable, Fix: k.Fix}
		list.Problems = append(list.Problems, about)
		source, err := docs.Problems.ReadFile("problems/" + k.Code + ".md")
		if err != nil {
			return fmt.Errorf("read problem page: %w", err)
		}
		about.Document = string(source)
		if a.byCode[k.Code], err = json.Marshal(about); err != nil {
			return fmt.Errorf("encode problem page: %w", err)
		}
	}
	var err error
	if a.index, err = json.Marshal(list); err != nil {
		return fmt.Errorf("encode list of problems: %w", err)
	}
	return nil
}

func (a *documents) getProblem(w http.ResponseWriter, r *http.Request) error {
	p, ok := a.byCode[r.PathValue("code")]
	if !ok {
		return problem.RouteNotFound.New("There is no problem with this code. All problems are listed at " + a.PublicURL + "/problems.")
	}
	return a.writePage(w, r, p)
}

// writePage sends HTML to callers that name it in Accept, as browsers do, and JSON to others.
func (a *documents) writePage(w http.ResponseWriter, r *http.Request, forPrograms []byte) error {
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		a.Pages.ServeHTTP(w, r)
		return nil
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(forPrograms) // The caller may have disconnected.
	return nil
}

func (a *documents) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	doc, err := a.openAPI()
	if err != nil {
		return err
	}
	// The first caller waits until the document is built, which must not take away from the time to send it. A writer
	// without a connection has no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(clock.Now().Add(sendTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	doc.Serve(w, r)
	return nil
}
