package dashboard

import (
	"net/http"

	"github.com/stagedoor/stagedoor/internal/server/webapp"
)

// getAsset serves a file of the web application.
func (v *visit) getAsset() {
	if !v.site.Asset(v.w, v.r, v.r.PathValue("file")) {
		v.notFound()
	}
}

// getStyle serves the style sheet of the pages before sign-in.
func (v *visit) getStyle() {
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	v.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = v.w.Write([]byte(v.style)) // The browser may have disconnected.
}

// getRoot redirects to the dashboard's first page.
func (v *visit) getRoot() { http.Redirect(v.w, v.r, home, http.StatusSeeOther) }

// getSite serves the web application to signed-in users. Every address is the same document; its script decides what to
// show.
func (v *visit) getSite() {
	if v.r.URL.Path != home && !webapp.IsNavigation(v.r) {
		v.notFound()
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	b, ok, err := v.signedIn(ctx)
	if err != nil {
		v.refuse(err)
		return
	}
	if !ok {
		http.Redirect(v.w, v.r, signInAt(v.r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	places, err := v.deps.Members.Places(ctx, b)
	if err != nil {
		v.refuse(err)
		return
	}
	if len(places) == 0 {
		v.show(http.StatusOK, "nowhere", "No organisation yet", &page{Who: b.Person.Email})
		return
	}
	frames := webapp.OwnFrames
	if at := v.deps.Config.ConnectURL; at != "" && at != v.deps.Config.PublicURL {
		frames += webapp.Frames(" " + at)
	}
	v.site.Document(v.w, v.r, "index.html", frames)
}
