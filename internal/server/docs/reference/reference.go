// Package reference writes the reference as Markdown, from what the server itself knows: its OpenAPI document, the kinds of events, the
// scopes, the plans. Nothing in it is written by hand, so nothing in it can be out of date.
//
// Build is where to start reading. Code samples of the client libraries come from samples.json, which cmd/sdkgen writes together with the
// libraries; those for curl and the command line are made here.
package reference

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

//go:embed samples.json
var samplesText []byte

// Page is one page of the reference.
type Page struct {
	// Path is where it is, such as /docs/sdk/messages.
	Path, Title, Label string
	// Lead is a sentence or two; Intro is Markdown.
	Lead, Intro string
	Items       []Item
	// Index means that it lists other pages, and has nothing to say that is not there.
	Index bool
}

// Item is what is said about one operation, method or event.
type Item struct {
	ID, Title string
	// Mono sets the title as code.
	Mono bool
	// Verb and Address are how it is called over HTTP; empty for what is not.
	Verb, Address string
	// Facts are a few words each, in Markdown.
	Facts []string
	// Body is Markdown.
	Body string
	// Folds are closed until somebody wants to read them.
	Folds []Fold
	// Side is the code that stands beside it, in Markdown.
	Side string
}

// Fold is a part of an item.
type Fold struct {
	Title, Body string
	Open        bool
}

// Markdown is the page for readers without a browser.
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

// Source is what the reference is made from.
type Source struct {
	// OpenAPI is the document as the server gives it out.
	OpenAPI []byte
	// Events are all kinds; Catalog knows the data of the platform's.
	Events  []event.Kind
	Catalog *catalog.Catalog
}

// maker writes the pages.
type maker struct {
	doc     *document
	samples samples
	events  []event.Kind
	// data is the schema of an event's data, by its kind.
	data map[string]*schema
}

// samples are what cmd/sdkgen writes: code by operation, and an example of every event.
type samples struct {
	// Operations has code by operationId, or by resource.method; each is by language: ts, go, python.
	Operations map[string]map[string]string `json:"operations"`
	// Events has a whole event by its kind.
	Events map[string]json.RawMessage `json:"events"`
}

// Build writes all pages.
func Build(from Source) ([]Page, error) {
	doc, err := read(from.OpenAPI)
	if err != nil {
		return nil, err
	}
	m := &maker{doc: doc, events: from.Events}
	if err := json.Unmarshal(samplesText, &m.samples); err != nil {
		return nil, fmt.Errorf("read code samples: %w", err)
	}
	if m.data, err = dataOf(from.Catalog); err != nil {
		return nil, err
	}
	pages := m.api()
	pages = append(pages, m.sdk()...)
	pages = append(pages, m.eventPage(), m.scopePage(scope.Everyday()), limitPage())
	return pages, nil
}
