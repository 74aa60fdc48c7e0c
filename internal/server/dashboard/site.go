package dashboard

import (
	"net/http"

	"github.com/stagedoor/stagedoor/internal/server/webapp"
)

// getAsset serves a file of the site.
func (v *visit) getAsset() {
	if !v.site.Asset(v.w, v.r, v.r.PathValue("file")) {
		v.gone()
	}
}

// getStyle serves the style of the pages before sign-in.
func (v *visit) getStyle() {
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	v.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = v.w.Write([]byte(v.style)) // the browser may have gone
}

// getSite serves the dashboard to whoever is signed in. Every address is the same page; the site finds out what to show.
func (v *visit) getSite() {
	if !webapp.Wants(v.r) {
		v.gone()
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
	places, err := v.Members.Places(ctx, b)
	if err != nil {
		v.refuse(err)
		return
	}
	if len(places) == 0 {
		v.show(http.StatusOK, "nowhere", "No organisation yet", &page{Who: b.Person.Email})
		return
	}
	frames := webapp.OwnFrames
	if at := v.Config.ConnectURL; at != "" && at != v.Config.PublicURL {
		frames += webapp.Frames(" " + at)
	}
	v.site.Document(v.w, v.r, "index.html", frames)
}
