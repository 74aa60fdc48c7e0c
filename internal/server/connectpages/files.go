package connectpages

import "net/http"

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

// getPrivacy shows what is stored about creators.
func (v *visit) getPrivacy() {
	v.org.Name = "Stagedoor"
	v.show(http.StatusOK, "privacy", &page{})
}
