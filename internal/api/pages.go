package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/route"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// pages are the documents about problems, rendered once.
type pages struct {
	byCode map[string]page
	index  page
	// policy allows the page's own style and nothing else.
	policy string
}

type page struct{ html, json []byte }

type pageJSON struct {
	Code      string `json:"code"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Retryable bool   `json:"retryable"`
	Fix       string `json:"fix"`
	Document  string `json:"document,omitempty"`
}

func renderPages() (pages, error) {
	sum := sha256.Sum256([]byte(pageStyle))
	p := pages{byCode: map[string]page{}, policy: "default-src 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
	shell, err := template.New("page").Parse(pageText)
	if err != nil {
		return p, fmt.Errorf("parse problem page: %w", err)
	}
	list := struct {
		Problems []pageJSON `json:"problems"`
	}{}
	for _, k := range problem.All() {
		about := pageJSON{Code: k.Code, Status: k.Status, Title: k.Title, Retryable: k.Retryable, Fix: k.Fix}
		list.Problems = append(list.Problems, about)
		if p.byCode[k.Code], err = renderPage(shell, "problems/"+k.Code+".md", k.Code, &about); err != nil {
			return p, err
		}
	}
	if p.index, err = renderPage(shell, "problems/README.md", "Problems", nil); err != nil {
		return p, err
	}
	if p.index.json, err = json.Marshal(list); err != nil {
		return p, fmt.Errorf("encode list of problems: %w", err)
	}
	return p, nil
}

// renderPage makes both forms of one document.
func renderPage(shell *template.Template, path, title string, about *pageJSON) (page, error) {
	source, err := docs.Problems.ReadFile(path)
	if err != nil {
		return page{}, fmt.Errorf("read problem page: %w", err)
	}
	var body, html bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert(source, &body); err != nil {
		return page{}, fmt.Errorf("render %s: %w", path, err)
	}
	err = shell.Execute(&html, map[string]any{
		"Title": title, "About": about, "Style": template.CSS(pageStyle), "Body": template.HTML(body.String()), // our own documents
	})
	if err != nil {
		return page{}, fmt.Errorf("render %s: %w", path, err)
	}
	p := page{html: html.Bytes()}
	if about != nil {
		about.Document = string(source)
		if p.json, err = json.Marshal(about); err != nil {
			return page{}, fmt.Errorf("encode %s: %w", path, err)
		}
	}
	return p, nil
}

func (a *API) documentRoutes() {
	both := []string{"text/html", "application/json"}
	route.Plain(a.table, route.Operation{
		ID: "getProblem", Method: http.MethodGet, Path: "/problems/{code...}", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: limit.Free, Media: both, Problems: []problem.Kind{problem.RouteNotFound},
		Summary: "About a problem", Description: "What the `type` of a problem links to: cause, example, fix. A page for browsers, JSON otherwise.",
	}, a.getProblem)
	route.Plain(a.table, route.Operation{
		ID: "listProblems", Method: http.MethodGet, Path: "/problems", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: limit.Free, Media: both,
		Summary: "All problems", Description: "The catalogue of problems. A page for browsers, JSON otherwise.",
	}, func(w http.ResponseWriter, r *http.Request) error { return a.writePage(w, r, a.pages.index) })
	route.Plain(a.table, route.Operation{
		ID: "getOpenAPI", Method: http.MethodGet, Path: "/v1/openapi.json", Tag: "Documents", Status: http.StatusOK,
		Public: true, Quota: limit.Free, Media: []string{"application/json"},
		Summary: "OpenAPI document", Description: "This document.",
	}, a.getOpenAPI)
}

func (a *API) getProblem(w http.ResponseWriter, r *http.Request) error {
	p, ok := a.pages.byCode[r.PathValue("code")]
	if !ok {
		return problem.RouteNotFound.New("There is no problem with this code. All of them are listed at " + a.Config.PublicURL + "/problems.")
	}
	return a.writePage(w, r, p)
}

// writePage chooses by what the caller says it accepts: browsers ask for HTML by name.
func (a *API) writePage(w http.ResponseWriter, r *http.Request, p page) error {
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public, max-age=300")
	body := p.json
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Security-Policy", a.pages.policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		body = p.html
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	return write(w, body)
}

func (a *API) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	doc, err := a.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	return write(w, doc)
}

// write sends a body. A caller that has gone is not an error of the operation's.
func write(w http.ResponseWriter, body []byte) error {
	_, _ = w.Write(body)
	return nil
}
