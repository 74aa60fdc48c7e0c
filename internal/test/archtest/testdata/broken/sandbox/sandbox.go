// Package sandbox imports the product.
package sandbox

import _ "github.com/stagedoor/stagedoor/internal/base/id"
