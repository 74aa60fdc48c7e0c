// Package reference generates the reference as Markdown from what the server itself knows: its OpenAPI document and
// the plans. Facts are not written by hand, so they cannot become outdated.
//
// Start reading at Build. The document has the code samples of the client libraries; those for curl and the command line
// are generated here.
package reference

import (
	"bytes"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Page is one page of the reference.
type Page struct {
	// Path is its address, for example /docs/sdk/messages.
	Path, Title, Label string
	// Lead is a sentence or two; Intro is Markdown.
	Lead, Intro string
	Items       []Item
	// Index means that the page only lists other pages.
	Index bool
}

// Item documents one operation, method or event.
type Item struct {
	ID, Title string
	// Mono renders the title as code.
	Mono bool
	// Verb and Address are the HTTP method and path; empty for an item that is not called.
	Verb, Address string
	// Facts are a few words each, in Markdown.
	Facts []string
	// Body is Markdown.
	Body string
	// Folds are closed until the reader opens them.
	Folds []Fold
	// Side is the code next to the text, in Markdown.
	Side string
}

// Fold is a collapsible part of an item.
type Fold struct {
	Title, Body string
	Open        bool
}

// Markdown returns the page as one Markdown document.
func (p Page) Markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# " + p.Title + "\n\n" + p.Lead + "\n\n")
	paragraph(&b, p.Intro)
	for _, i := range p.Items {
		title := i.Title
		if i.Mono {
			title = "`" + title + "`"
		}
		b.WriteString("## " + title + "\n\n")
		if i.Verb != "" {
			b.WriteString("`" + i.Verb + " " + i.Address + "`\n\n")
		}
		if len(i.Facts) > 0 {
			b.WriteString(strings.Join(i.Facts, " · ") + "\n\n")
		}
		paragraph(&b, i.Body)
		for _, f := range i.Folds {
			b.WriteString("### " + f.Title + "\n\n")
			paragraph(&b, f.Body)
		}
		paragraph(&b, i.Side)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func paragraph(b *bytes.Buffer, text string) {
	if text = strings.TrimSpace(text); text != "" {
		b.WriteString(text + "\n\n")
	}
}

// builder generates the pages.
type builder struct {
	doc   *apimodel.Document
	plans []org.PlanLimits
}

// Build generates all pages from the OpenAPI document that the server serves, and its plans.
func Build(openAPI []byte, plans []org.PlanLimits) ([]Page, error) {
	doc, err := apimodel.Read(openAPI)
	if err != nil {
		return nil, err
	}
	m := &builder{doc: doc, plans: plans}
	pages := m.api()
	pages = append(pages, m.sdk()...)
	pages = append(pages, m.eventPage(), m.scopePage(), m.limitPage())
	return pages, nil
}
