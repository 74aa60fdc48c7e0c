// Package sandbox leans on us.
package sandbox

import _ "github.com/stagedoor/stagedoor/internal/id"
