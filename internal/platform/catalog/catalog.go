// Package catalog knows what a platform can do and how to say it to the platform: methods, types, events, sign-in, refusals.
//
// All of it comes from a manifest (docs/manifest.md), a folder of YAML that is checked and compiled once, when a node
// starts. A Catalog never changes afterwards and is used by all goroutines. It does no I/O: it turns arguments into requests
// (method.go), answers into results, frames into events (event.go), refusals into kinds (refusal.go) and knows where files are (files.go); sending and
// receiving is the driver's. Start with Sandbox or Load.
package catalog

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
)

//go:embed manifests
var manifests embed.FS

// Catalog is one compiled manifest.
type Catalog struct {
	// ID is a slug, Name is for people.
	ID, Name string
	// Version is the manifest's, such as 2026.11.1.
	Version string
	// Revision is the SHA-256 of its files, as sha256:<hex>.
	Revision string
	// Origin is scheme and host, such as https://platform.example. A setting may replace it.
	Origin string
	// Isolation says whose calls may share a connection.
	Isolation Isolation
	// ListSince means that frames missed while away can be asked for.
	ListSince bool
	// PassUnknown means that a frame without a mapping becomes the event unknown.
	PassUnknown bool
	// Verify proves a session; its answer says who signed in.
	Verify *Method

	Session Session
	SignIn  SignIn
	// Socket is nil for a platform without live frames.
	Socket *Socket
	// Files is nil for a platform whose files cannot be had.
	Files *Files

	resources []*Resource
	methods   []*Method
	byName    map[string]*Method
	types     *shape.Set
	events    []*EventKind
	byKind    map[string]*EventKind
	byFrame   map[string][]*EventKind
	refusals  refusals
	base      string
}

// Isolation says whose calls may share a connection to the platform.
type Isolation string

// Isolations.
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

// Fault is one thing that is wrong with a manifest, with its file and line.
type Fault = manifest.Fault

// Faults are everything that is wrong with a manifest.
type Faults []Fault

// Error lists the faults, one per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return "the manifest has faults:\n" + strings.Join(lines, "\n")
}

// Sandbox is the catalog of the sandbox platform. It is loaded once and shared.
func Sandbox() (*Catalog, error) { return sandbox() }

var sandbox = sync.OnceValues(func() (*Catalog, error) {
	fsys, err := fs.Sub(manifests, "manifests/sandbox")
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's manifest: %w", err)
	}
	return Load(fsys)
})

// Load reads, checks and compiles a manifest. Its error is Faults.
func Load(fsys fs.FS) (*Catalog, error) {
	c, faults := Draft(fsys)
	if len(faults) > 0 {
		return nil, fmt.Errorf("load the manifest: %w", Faults(faults))
	}
	return c, nil
}

// Draft compiles what is sound of a manifest that is still being written, and lists what is not. Without a sound
// upstream.yaml there is no catalog.
func Draft(fsys fs.FS) (*Catalog, []Fault) {
	doc, faults := manifest.Read(fsys)
	if doc == nil {
		return nil, faults
	}
	c, more := compile(doc)
	return c, append(faults, more...)
}

// Resources lists the resources in the order of their names.
func (c *Catalog) Resources() []*Resource { return c.resources }

// Resource finds a resource.
func (c *Catalog) Resource(name string) (*Resource, bool) {
	i := slices.IndexFunc(c.resources, func(r *Resource) bool { return r.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.resources[i], true
}

// Methods lists all methods, resource by resource.
func (c *Catalog) Methods() []*Method { return c.methods }

// Method finds a method. Names are case-sensitive.
func (c *Catalog) Method(resource, method string) (*Method, bool) {
	// The compiler makes no string of it for a lookup of up to 32 bytes; most names are shorter.
	m, ok := c.byName[resource+"."+method]
	return m, ok
}

// Type is a shape of answers.
type Type struct {
	Name string
	// Schema is JSON Schema 2020-12; it refers to other types as #/types/Name.
	Schema json.RawMessage
}

// Types lists the shapes of answers, in the order of the manifest.
func (c *Catalog) Types() []Type {
	list := make([]Type, 0, len(c.types.Names()))
	for _, name := range c.types.Names() {
		list = append(list, Type{name, c.types.Definition(name)})
	}
	return list
}
