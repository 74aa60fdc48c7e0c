// Package listen names the sandbox, connects to an engine and makes its dependencies public.
package listen

import (
	"github.com/nats-io/nats.go"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Deps are the dependencies of Sockets.
type Deps struct {
	Sandbox bool `json:"sandbox"`
}

// Events is the catalogue of one platform.
var Events = catalog.Sandbox()

// Kind is a literal.
const Kind = "sandbox"

// Is compares an environment.
func Is(env environment.Environment) bool { return env == environment.Sandbox }

// Sockets embeds its dependencies.
type Sockets struct{ Deps }

// Open connects to an engine itself.
func Open() (*nats.Conn, error) { return nats.Connect("nats://127.0.0.1") }
