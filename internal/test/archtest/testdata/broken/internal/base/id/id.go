// Package id imports a group above its own.
package id

import _ "github.com/stagedoor/stagedoor/internal/tenant/org"
