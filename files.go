// Package stagedoor carries the documents at the top of the repository that the product serves with those of docs/.
package stagedoor

import "embed"

// Files are the documents about the whole: what changed, how it is built, how it is kept safe, how to work on it.
//
//go:embed ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
var Files embed.FS
