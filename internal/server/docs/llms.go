package docs

import (
	"bytes"
	"encoding/xml"
	"strings"
)

// texts returns the files for programs: a list of all pages (llms.txt), all pages in one file (llms-full.txt), and the
// sitemap.
func (s *Docs) texts(t *site) map[string]*staticResponse {
	var list, full, sitemap bytes.Buffer
	list.WriteString("# Stagedoor\n\n> Connect a creator's account once, act on it over HTTP, and receive its events.\n\n" +
		"Every page is available as Markdown: add .md to its address. All pages in one file: " + s.deps.PublicURL + "/llms-full.txt. The OpenAPI document: " + s.deps.PublicURL + "/v1/openapi.json.\n")
	sitemap.WriteString(xml.Header + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	group := ""
	for _, p := range t.pages {
		heading := p.group
		if p.parent != nil {
			heading += ": " + p.parent.label
		}
		if heading != group {
			group = heading
			list.WriteString("\n## " + group + "\n\n")
		}
		list.WriteString("- [" + p.title + "](" + s.deps.PublicURL + p.path + ".md)")
		if lead := strings.Join(strings.Fields(p.lead), " "); lead != "" {
			list.WriteString(": " + lead)
		}
		list.WriteByte('\n')
		full.WriteString("<!-- " + s.deps.PublicURL + p.path + " -->\n\n")
		full.Write(bytes.TrimSpace(p.source))
		full.WriteString("\n\n")
		sitemap.WriteString("<url><loc>")
		_ = xml.EscapeText(&sitemap, []byte(s.deps.PublicURL+p.path)) // Writing to a buffer does not fail.
		sitemap.WriteString("</loc></url>\n")
	}
	sitemap.WriteString("</urlset>\n")
	return map[string]*staticResponse{
		"llms.txt":      newStaticResponse("text/plain; charset=utf-8", list.Bytes()),
		"llms-full.txt": newStaticResponse("text/plain; charset=utf-8", full.Bytes()),
		"sitemap.xml":   newStaticResponse("application/xml", sitemap.Bytes()),
	}
}
