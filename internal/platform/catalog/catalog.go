// Package catalog describes a platform: its methods, types, events, sign-in, error responses and files.
//
// The description is a manifest (docs/manifest.md), a folder of YAML files that is validated and compiled once, when
// a node starts. A Catalog is immutable and safe for concurrent use. It turns arguments into requests and responses
// into results (method.go), frames into events (event.go) and error responses into kinds (refusal.go), builds the
// requests of the sign-in (signin.go) and knows where files are (files.go). It does no I/O; the driver sends and
// receives. Start with Sandbox or Load.
package catalog

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
)

//go:embed manifests
var manifests embed.FS

// Catalog is one compiled manifest.
type Catalog struct {
	// ID is a slug. Name is a display name.
	ID, Name string
	// Version is the version of the manifest, such as 2026.11.1.
	Version string
	// Revision is the SHA-256 of the manifest's files, as sha256:<hex>.
	Revision string
	// Environment is the environment whose accounts are on the platform.
	Environment environment.Environment
	// Home is the address of the platform's website for people, or empty.
	Home string
	// Logo is an SVG image as a data: URL, or empty.
	Logo string
	// Origin is scheme and host, such as https://platform.example. A setting may replace it. It is empty if Site is set.
	Origin string
	// Site is nil if all accounts are on Origin.
	Site *Site
	// Isolation decides which calls may share a connection.
	Isolation Isolation
	// ListSince means that the platform can list frames that a listener missed.
	ListSince bool
	// PassUnknown means that a frame without a mapping becomes the event unknown.
	PassUnknown bool
	// Verify is the read that checks a session. Its result is the signed-in user.
	Verify *Method

	Session Session
	SignIn  SignIn
	// Socket is nil for a platform without live frames.
	Socket *Socket
	// Poll is nil for a platform with a socket, or without events.
	Poll *Poll
	// Files is nil for a platform whose files are not available.
	Files *Files

	resources []*Resource
	methods   []*Method
	byName    map[string]*Method
	types     *shape.Set
	events    []*EventKind
	byKind    map[string]*EventKind
	// byFrame lists the kinds that a frame may become, those with more conditions first.
	byFrame  map[string][]*EventKind
	refusals refusals
	// base is the prefix of all API paths.
	base string
}

// Isolation decides which calls may share a connection to the platform: calls of one account, or calls through one
// proxy.
type Isolation string

// The isolations that a manifest can choose.
const (
	ByAccount Isolation = "account"
	ByProxy   Isolation = "proxy"
)

// Resource is a group of methods.
type Resource struct {
	Name, Summary string
	// Methods are in the order of the manifest.
	Methods []*Method
}

// Fault is one error in a manifest, with its file and line.
type Fault = manifest.Fault

// Faults are all errors in a manifest.
type Faults []Fault

// Error lists the faults, one per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return "the manifest has errors:\n" + strings.Join(lines, "\n")
}

// Sandbox returns the catalog of the sandbox platform. It is loaded once and shared.
func Sandbox() (*Catalog, error) { return Builtin("sandbox") }

// Builtin returns the catalog of a platform whose manifest is part of the program. Each is loaded once and shared.
func Builtin(id string) (*Catalog, error) {
	load, ok := builtins()[id]
	if !ok {
		return nil, fmt.Errorf("there is no built-in platform %q; there are: %s", id, strings.Join(BuiltinIDs(), ", "))
	}
	return load()
}

// BuiltinIDs returns the ids of the platforms whose manifests are part of the program, in the order of the alphabet.
func BuiltinIDs() []string { return slices.Sorted(maps.Keys(builtins())) }

// builtins has one function for each embedded folder, which loads its manifest on the first call.
var builtins = sync.OnceValue(func() map[string]func() (*Catalog, error) {
	entries, err := manifests.ReadDir("manifests")
	if err != nil {
		panic("catalog: the embedded manifests cannot be listed: " + err.Error())
	}
	list := map[string]func() (*Catalog, error){}
	for _, e := range entries {
		list[e.Name()] = sync.OnceValues(func() (*Catalog, error) {
			fsys, err := fs.Sub(manifests, "manifests/"+e.Name())
			if err != nil {
				return nil, fmt.Errorf("open the manifest of %s: %w", e.Name(), err)
			}
			return Load(fsys)
		})
	}
	return list
})

// Load reads, validates and compiles a manifest. Its error wraps Faults.
func Load(fsys fs.FS) (*Catalog, error) {
	c, faults := Draft(fsys)
	if len(faults) > 0 {
		return nil, fmt.Errorf("load the manifest: %w", Faults(faults))
	}
	return c, nil
}

// Draft compiles the valid parts of a manifest that is still being written and lists the faults in the rest. The
// catalog is nil if upstream.yaml is missing or invalid.
func Draft(fsys fs.FS) (*Catalog, []Fault) {
	doc, faults := manifest.Read(fsys)
	if doc == nil {
		return nil, faults
	}
	c, more := compile(doc)
	return c, append(faults, more...)
}

// Resources returns the resources in the order of their names.
func (c *Catalog) Resources() []*Resource { return c.resources }

func (c *Catalog) Resource(name string) (*Resource, bool) {
	i := slices.IndexFunc(c.resources, func(r *Resource) bool { return r.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.resources[i], true
}

// Methods returns all methods, grouped by resource.
func (c *Catalog) Methods() []*Method { return c.methods }

// Method returns a method by its name. Names are case-sensitive.
func (c *Catalog) Method(resource, method string) (*Method, bool) {
	// The concatenation does not allocate for up to 32 bytes, and most names are shorter.
	m, ok := c.byName[resource+"."+method]
	return m, ok
}

// Type is a named shape of results.
type Type struct {
	Name string
	// Schema is a JSON Schema (2020-12). It refers to other types as #/types/Name.
	Schema json.RawMessage
}

// Types returns the types in the order of the manifest.
func (c *Catalog) Types() []Type {
	list := make([]Type, 0, len(c.types.Names()))
	for _, name := range c.types.Names() {
		list = append(list, Type{name, c.types.Definition(name)})
	}
	return list
}
