package docs

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
)

// textFiles returns the names of the files for programs.
func textFiles() []string {
	names := []string{"llms.txt"}
	for _, a := range audiences {
		names = append(names, a.full)
	}
	return names
}

// texts returns the files for programs: a list of the pages for customers (llms.txt), all pages of each kind of readers
// in one file, and the sitemap. Pages below another one are not in the list, to keep it small.
func (s *Docs) texts(t *site) map[string]*staticResponse {
	var list, sitemap bytes.Buffer
	full := make([]bytes.Buffer, len(audiences))
	list.WriteString("# Stagedoor\n\n> Connect a creator's account once, act on it over HTTP, and receive its events.\n\n" +
		"Every page is available as Markdown: add .md to its address. The OpenAPI document: " + s.deps.PublicURL + "/v1/openapi.json. All pages in one file:\n\n")
	for _, a := range audiences {
		list.WriteString("- [" + a.name + "](" + s.deps.PublicURL + "/" + a.full + ")\n")
	}
	sitemap.WriteString(xml.Header + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	group := ""
	for _, p := range t.pages {
		if p.readers == customers && p.parent == nil {
			if p.group != group {
				group = p.group
				list.WriteString("\n## " + group + "\n\n")
			}
			list.WriteString("- [" + p.title + "](" + s.deps.PublicURL + p.path + ".md)")
			if lead := strings.Join(strings.Fields(p.lead), " "); lead != "" {
				list.WriteString(": " + lead)
			}
			list.WriteByte('\n')
		}
		all := &full[p.readers]
		all.WriteString("<!-- " + s.deps.PublicURL + p.path + " -->\n\n")
		all.Write(bytes.TrimSpace(p.source))
		all.WriteString("\n\n")
		sitemap.WriteString("<url><loc>")
		_ = xml.EscapeText(&sitemap, []byte(s.deps.PublicURL+p.path)) // Writing to a buffer does not fail.
		sitemap.WriteString("</loc></url>\n")
	}
	sitemap.WriteString("</urlset>\n")
	files := map[string]*staticResponse{
		"llms.txt":    newStaticResponse("text/plain; charset=utf-8", list.Bytes()),
		"sitemap.xml": newStaticResponse("application/xml", sitemap.Bytes()),
	}
	for i, a := range audiences {
		files[a.full] = newStaticResponse("text/plain; charset=utf-8", slices.Clone(full[i].Bytes()))
	}
	return files
}
