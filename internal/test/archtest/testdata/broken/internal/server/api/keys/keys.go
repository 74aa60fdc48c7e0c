// Package keys imports a package that its own is kept apart from.
package keys

import _ "github.com/stagedoor/stagedoor/internal/server/admin"
