// Command tool imports a package that is not its own.
package main

import _ "github.com/stagedoor/stagedoor/internal/tenant/org"
