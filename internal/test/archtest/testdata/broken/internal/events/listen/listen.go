// Package listen names the sandbox.
package listen

import (
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Event has the name only in a tag, which is allowed.
type Event struct {
	Sandbox bool `json:"sandbox"`
}

// Events is the catalogue of one platform.
var Events = catalog.Sandbox()

// Kind is a literal.
const Kind = "sandbox"

// Is compares an environment.
func Is(env environment.Environment) bool { return env == environment.Sandbox }
