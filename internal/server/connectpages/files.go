package connectpages

import (
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// getFile serves a file of the pages. Its address contains the version of the files, so it may be cached forever.
func (v *visit) getFile() {
	name := v.r.PathValue("file")
	file, ok := v.assets[name]
	if !ok || name == "connect.js" {
		v.notFound()
		return
	}
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	v.write(file)
}

// getScript serves the script with which other sites embed the pages.
func (v *visit) getScript() {
	v.w.Header().Set("Cache-Control", "public, max-age=3600")
	v.w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	v.write(v.assets["connect.js"])
}

func (v *visit) write(file asset) {
	head := v.w.Header()
	head.Set("Content-Type", file.kind)
	head.Set("ETag", file.tag)
	if v.r.Header.Get("If-None-Match") == file.tag {
		v.w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = v.w.Write(file.content)
}

// getLogo serves the logo of an org. Its address contains a tag that changes with the picture, so it may be cached
// forever. The dashboard shows it as well, which may have another origin.
func (v *visit) getLogo() {
	if v.stopIfGuessing() {
		return
	}
	org, err := id.Parse[id.Org](v.r.PathValue("org"))
	if err != nil {
		v.showError(problem.OrgNotFound.New("no such org"))
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	logo, tag, err := v.deps.Orgs.Logo(ctx, org)
	switch {
	case err != nil:
		v.showError(err)
		return
	case logo == nil:
		v.showError(problem.OrgNotFound.New("no logo"))
		return
	case v.r.URL.Query().Get("v") == tag:
		v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	v.w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	v.write(asset{logo, "image/png", `"` + tag + `"`})
}

// getPrivacy shows what is stored about creators.
func (v *visit) getPrivacy() {
	v.org.Name = "Stagedoor"
	v.show(http.StatusOK, "privacy", &page{})
}
