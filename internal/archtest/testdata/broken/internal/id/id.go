// Package id is too curious.
package id

import _ "github.com/stagedoor/stagedoor/internal/org"
