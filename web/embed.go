// Package web holds the built dashboard and operator console.
//
// Vite writes them into dist (make web). Of dist only placeholder.html is in the
// repository, so that the Go code compiles on a fresh clone and without Node;
// a server built that way shows the placeholder in place of the pages.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Dist is the built site: index.html (the dashboard), ops.html (the operator
// console), assets/ with a hash in every name and .br and .gz files beside the
// larger ones, and placeholder.html. Without a build it has the last one alone.
func Dist() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
