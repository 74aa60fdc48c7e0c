// Command tool reaches too deep.
package main

import _ "github.com/stagedoor/stagedoor/internal/org"
