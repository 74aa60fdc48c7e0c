package markdown_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func render(t *testing.T, source string, link func(string) string) markdown.Document {
	t.Helper()
	doc, err := markdown.Render([]byte(source), markdown.Options{Link: link, Prefix: "", Plain: false})
	must.OK(t, err)
	return doc
}

// Title, lead, headings and passages are read from a document.
func TestDocument(t *testing.T) {
	t.Parallel()
	doc := render(t, "# The `title`\n\nFirst *words*.\n\nMore.\n\n## One: a `thing`!\n\nBody.\n\n```sh\ncurl x\n```\n\n### Two\n\n## One: a `thing`!\n", nil)
	if doc.Title != "The title" || doc.Lead != "First words." {
		t.Errorf("title %q, lead %q", doc.Title, doc.Lead)
	}
	want := []markdown.Heading{{Level: 2, ID: "one-a-thing", Text: "One: a thing!"}, {Level: 3, ID: "two", Text: "Two"}, {Level: 2, ID: "one-a-thing-1", Text: "One: a thing!"}}
	if len(doc.Headings) != 3 || doc.Headings[0] != want[0] || doc.Headings[1] != want[1] || doc.Headings[2] != want[2] {
		t.Errorf("headings %+v", doc.Headings)
	}
	if p := doc.Passages[1]; p.ID != "one-a-thing" || p.Text != "Body." || p.Code != "curl x\n\n" {
		t.Errorf("passage %+v", p)
	}
	if strings.Contains(string(doc.HTML), "<h1") {
		t.Error("the HTML contains the title")
	}
}

// Each block is rendered so that it works without a script.
func TestHTML(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source    string
		has, lack []string
	}{
		"languages are tabs": {
			source: "```ts run\nlet x = 1\n```\n```go\nx := 1\n```\n\n```python\nx = 1\n```\n",
			has:    []string{`<fieldset class="tabs">`, `value="TypeScript" checked>`, `value="Go">`, `value="Python">`, `for="code1-3"`},
		},
		"one block is none":        {source: "```ts\nlet x\n```\n\n```json\n{}\n```\n", lack: []string{"fieldset"}},
		"curl and our own command": {source: "```sh\n# first\ncurl -s x\n```\n```sh\nstagedoor call\n```\n", has: []string{`value="curl"`, `value="CLI"`}},
		"long lines can be reached": {
			source: "```\n" + strings.Repeat("x", 50) + "\n```\n\n```\nshort\n```\n", has: []string{`<pre tabindex="0" role="group" aria-label="Text code">`, "<pre><code>short"},
		},
		"code is escaped and coloured": {source: "```go\nfunc a() string { return \"<b>\" }\n```\n", has: []string{`<span class="hk">func</span>`, "&lt;b&gt;"}, lack: []string{"<b>"}},
		"tables scroll":                {source: "| a | b |\n|---|--:|\n| 1 | 2 |\n", has: []string{`<div class="table" tabindex="0"`, `<td align="right">2</td>`}, lack: []string{"style="}},
		"notes":                        {source: "> [!WARNING]\n> Do *not*.\n", has: []string{`<div class="note warning"><p class="word">Warning</p>`, "Do <em>not</em>."}, lack: []string{"[!", "blockquote"}},
		"a quotation stays one":        {source: "> Said.\n", has: []string{"<blockquote>"}},
		"machines are tables": {
			source: "```mermaid\nstateDiagram-v2\n  [*] --> a: start\n  a --> b: when <x>\n```\n", has: []string{"<em>start</em>", "<code>b</code>", "when &lt;x&gt;"}, lack: []string{"<pre"},
		},
		"raw HTML is dropped": {source: "<script>alert(1)</script>\n\nText <img src=x onerror=y> more.\n\n<!-- prelude ts\nlet x\n-->\n", lack: []string{"script", "<img", "prelude"}, has: []string{"Text"}},
		"no script in links":  {source: "[x](javascript:alert(1))\n", lack: []string{"javascript:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(render(t, c.source, nil).HTML)
			for _, part := range c.has {
				if !strings.Contains(got, part) {
					t.Errorf("no %s in\n%s", part, got)
				}
			}
			for _, part := range c.lack {
				if strings.Contains(got, part) {
					t.Errorf("%s in\n%s", part, got)
				}
			}
		})
	}
}

// A link without an address on the site keeps its text.
func TestLinks(t *testing.T) {
	t.Parallel()
	doc := render(t, "See [the *code*](../x.go) and [keys](keys.md#one).\n", func(to string) string {
		if strings.HasPrefix(to, "keys.md") {
			return "/docs/" + strings.Replace(to, ".md", "", 1)
		}
		return ""
	})
	if got := string(doc.HTML); !strings.Contains(got, `See the <em>code</em> and <a href="/docs/keys#one">keys</a>.`) {
		t.Error(got)
	}
	if len(doc.Links) != 2 || doc.Links[0] != "../x.go" {
		t.Errorf("links %v", doc.Links)
	}
}

// Readers do not get the comments for the programs that check a document.
func TestUncommented(t *testing.T) {
	t.Parallel()
	source := "# A\n\n<!-- one -->\nText of <!-- fact: a.B -->64<!-- /fact --> words.\n<!-- prelude ts\nlet x\n-->\n```html\n<!-- kept -->\n```\n````md\n```\n<!-- kept too -->\n```\n````\n<!-- two -->\nEnd.\n"
	want := "# A\n\nText of 64 words.\n```html\n<!-- kept -->\n```\n````md\n```\n<!-- kept too -->\n```\n````\nEnd.\n"
	if got := string(markdown.Uncommented([]byte(source))); got != want {
		t.Errorf("%q", got)
	}
}
