// Package docs carries the documents that the product itself serves.
package docs

import "embed"

// Problems holds the page of each problem, as problems/<code>.md.
//
//go:embed problems
var Problems embed.FS

// Files holds all documents, and the programs that they refer to.
//
//go:embed *.md adr clients operations platforms problems recipes reference runbooks spec verify
var Files embed.FS
