package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// pages are the documents about problems in JSON, encoded once. Browsers get the pages of Deps.Pages.
type pages struct {
	byCode map[string][]byte
	index  []byte
}

type pageJSON struct {
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Retryable bool   `json:"retryable"`
	Fix       string `json:"fix"`
	Document  string `json:"document,omitempty"`
}

func encodePages() (pages, error) {
	p := pages{byCode: map[string][]byte{}}
	list := struct {
		Problems []pageJSON `json:"problems"`
	}{}
	for _, k := range problem.All() {
		about := pageJSON{Code: k.Code, Status: k.Status, Title: k.Title, Retryable: k.Retryable, Fix: k.Fix}
		list.Problems = append(list.Problems, about)
		source, err := docs.Problems.ReadFile("problems/" + k.Code + ".md")
		if err != nil {
			return p, fmt.Errorf("read problem page: %w", err)
		}
		about.Document = string(source)
		if p.byCode[k.Code], err = json.Marshal(about); err != nil {
			return p, fmt.Errorf("encode problem page: %w", err)
		}
	}
	var err error
	if p.index, err = json.Marshal(list); err != nil {
		return p, fmt.Errorf("encode list of problems: %w", err)
	}
	return p, nil
}

func (a *API) documentRoutes() {
	both := []string{"text/html", "application/json"}
	endpoint.Plain(a.table, endpoint.Operation{
		ID: "getProblem", Method: http.MethodGet, Path: "/problems/{code...}", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: both, Problems: []problem.Kind{problem.RouteNotFound},
		Summary: "Get the page of a problem", Description: "The page that the `type` of a problem links to: cause, example, fix. HTML for browsers, JSON otherwise.",
	}, a.getProblem)
	endpoint.Plain(a.table, endpoint.Operation{
		ID: "listProblems", Method: http.MethodGet, Path: "/problems", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: both,
		Summary: "List problems", Description: "The catalogue of problems. HTML for browsers, JSON otherwise.",
	}, func(w http.ResponseWriter, r *http.Request) error { return a.writePage(w, r, a.pages.index) })
	endpoint.Plain(a.table, endpoint.Operation{
		ID: "getOpenAPI", Method: http.MethodGet, Path: "/v1/openapi.json", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: admission.Free, Media: []string{"application/json"}, Conditional: true,
		Summary: "Get the OpenAPI document", Description: "This document. The response has an ETag.",
	}, a.getOpenAPI)
}

func (a *API) getProblem(w http.ResponseWriter, r *http.Request) error {
	p, ok := a.pages.byCode[r.PathValue("code")]
	if !ok {
		return problem.RouteNotFound.New("There is no problem with this code. All problems are listed at " + a.Config.PublicURL + "/problems.")
	}
	return a.writePage(w, r, p)
}

// writePage sends HTML to callers that name it in Accept, as browsers do, and JSON to others.
func (a *API) writePage(w http.ResponseWriter, r *http.Request, forPrograms []byte) error {
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		a.Pages.ServeHTTP(w, r)
		return nil
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Content-Type", "application/json")
	return write(w, forPrograms)
}

func (a *API) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	doc, err := a.served()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	doc.Serve(w, r)
	return nil
}

// write sends a body. A caller that disconnected is not an error of the operation.
func write(w http.ResponseWriter, body []byte) error {
	_, _ = w.Write(body)
	return nil
}
