package catalog

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/call"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
)

// reserved lists the words that cannot name a resource, because they are or may become API routes below an account.
var reserved = []string{
	"webhook", "webhooks", "events", "connect", "session", "sessions", "usage", "deliveries", "audit", "pause", "resume",
	"reauthenticate", "state", "sandbox", "media",
}

// Reserved reports whether a word is reserved for API routes below an account, so that no resource has this name.
func Reserved(word string) bool { return slices.Contains(reserved, word) }

// Defaults of a method.
const (
	defaultTimeout = 15 * time.Second
	defaultCost    = 1
)

// compiler turns a document into a catalog and collects faults.
type compiler struct {
	doc *manifest.Document
	cat *Catalog
	// defaultStyle is the paging style of results that name none.
	defaultStyle string
	// uploads are the methods with upload: true by their full names. Only files.forms refers to them.
	uploads map[string]*Method
	// ids is the pattern of ids that are texts, or nil if they are numbers.
	ids    *regexp.Regexp
	faults []manifest.Fault
}

// compile builds the catalog. Methods, events and types with faults are not in it.
func compile(doc *manifest.Document) (*Catalog, []manifest.Fault) {
	u := doc.Upstream
	c := &compiler{doc: doc, uploads: map[string]*Method{}, cat: &Catalog{
		ID: u.ID, Name: u.Name, Version: u.Version, Revision: doc.Revision,
		Environment: cmp.Or(environment.Environment(u.Environment), environment.Live), Home: u.Home, Logo: logoURL(doc.Logo),
		Origin: u.Origin, Isolation: cmp.Or(Isolation(u.Isolation), ByAccount),
		ListSince: u.ListSince, PassUnknown: u.PassUnknown, base: u.Base,
		byName: map[string]*Method{}, byKind: map[string]*EventKind{}, byFrame: map[string][]*EventKind{},
	}}
	// The order matters: events and results refer to types, methods refer to events and paging styles, and the last
	// three steps refer to methods. Types that nothing has referred to by then are unused.
	var faults []manifest.Fault
	c.compileIDs()
	c.compileSite()
	c.cat.types, faults = shape.New(doc.Types, c.ids)
	c.faults = append(c.faults, faults...)
	c.checkPageStyles()
	c.compileEvents()
	c.compileUpstream()
	for _, r := range doc.Resources {
		c.compileResource(r)
	}
	slices.SortFunc(c.cat.resources, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range c.cat.resources {
		c.cat.methods = append(c.cat.methods, r.Methods...)
	}
	c.cat.Verify = c.verifyMethod("verify", c.doc.Upstream.Verify, BySession)
	if jwt := c.cat.Session.JWT; jwt != nil {
		jwt.Verify = c.verifyMethod("session.jwt.verify", c.doc.Session.JWT.Verify, ByToken)
	}
	c.compileFiles()
	c.faults = append(c.faults, c.cat.types.Unused()...)
	return c.cat, c.faults
}

func (c *compiler) fault(pos manifest.Pos, format string, args ...any) {
	c.faults = append(c.faults, manifest.Fault{Pos: pos, Detail: fmt.Sprintf(format, args...)})
}

// upstreamFault adds a fault of upstream.yaml. The document has no line numbers for this file.
func (c *compiler) upstreamFault(format string, args ...any) {
	c.fault(manifest.Pos{File: "upstream.yaml"}, format, args...)
}

// logoURL returns an SVG image as a data: URL, or an empty string if there is none.
func logoURL(svg []byte) string {
	if svg == nil {
		return ""
	}
	return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg)
}

// compileIDs compiles the pattern of ids that are texts.
func (c *compiler) compileIDs() {
	text := c.doc.Upstream.IDs
	if text == "" {
		return
	}
	pattern, err := regexp.Compile(text)
	switch {
	case err != nil:
		c.upstreamFault("ids: the pattern is not a valid Go regular expression")
	case !strings.HasPrefix(text, "^") || !strings.HasSuffix(text, "$") || pattern.MatchString(""):
		c.upstreamFault("ids: the pattern must begin with ^, end with $ and not match an empty text")
	default:
		c.ids = pattern
	}
}

// checkPageStyles checks that each paging style is complete, and finds the default style.
func (c *compiler) checkPageStyles() {
	for _, name := range slices.Sorted(maps.Keys(c.doc.Pages)) {
		p := c.doc.Pages[name]
		if p.Usual {
			if c.defaultStyle != "" {
				c.upstreamFault("pages: both %s and %s have usual: true", c.defaultStyle, name)
			}
			c.defaultStyle = name
		}
		if p.Number != "" || p.At != "" || p.Last != "" {
			if p.Number == "" || p.At == "" || p.Last == "" || p.Limit == "" || p.Cursor+p.Next+p.NextOfLast+p.More != "" {
				c.upstreamFault("pages.%s: numbered pages need number, limit, at and last, and none of cursor, next, nextOfLast "+
					"and more", name)
			}
			continue
		}
		// A style either pages (cursor, limit, and a way to find the next cursor) or returns the whole list at once.
		// The cursor is a member of the page (next), or a member of its last item (nextOfLast), which says nothing
		// about whether more follows.
		paged := p.Cursor != ""
		if paged != (p.Limit != "") || paged != (p.Next != "" || p.NextOfLast != "") || !paged && p.More != "" {
			c.upstreamFault("pages.%s: cursor, limit and next (or nextOfLast) require each other, and more requires them", name)
		}
		if p.Next != "" && p.NextOfLast != "" || p.NextOfLast != "" && p.More == "" {
			c.upstreamFault("pages.%s: set next, or nextOfLast together with more", name)
		}
	}
}

// verifyMethod looks up the method that checks whether the platform accepts credentials.
func (c *compiler) verifyMethod(key, name string, by Credentials) *Method {
	m := c.namedMethod(c.cat.byName, key, name)
	switch {
	case m.method == nil:
	case m.method.Access != Read || len(m.method.Required()) > 0:
		m.fault("must be a read that needs no arguments")
	case !m.method.Accepts(by):
		m.fault("must accept the credentials %s", by)
	}
	if by == BySession {
		m.checkField("id", "") // an account is identified by it
	}
	return m.method
}

func (c *compiler) compileResource(r manifest.Resource) {
	if Reserved(r.Name) {
		c.fault(r.Pos, "a resource cannot be named %s: the word is reserved for API routes", r.Name)
		return
	}
	compiled := &Resource{Name: r.Name, Summary: r.Summary}
	for _, m := range r.Methods {
		// A method with faults is left out, but the others of the resource are compiled.
		before := len(c.faults)
		method := c.compileMethod(r.Name, m)
		if len(c.faults) > before {
			continue
		}
		if m.Upload {
			c.uploads[method.ID()] = method
			continue
		}
		compiled.Methods = append(compiled.Methods, method)
		c.cat.byName[method.ID()] = method
	}
	if len(compiled.Methods) > 0 {
		c.cat.resources = append(c.cat.resources, compiled)
	}
}

func (c *compiler) compileMethod(resource string, m *manifest.Method) *Method {
	method := &Method{
		Platform: c.cat.ID, id: resource + "." + m.Name, Resource: resource, Name: m.Name, Summary: m.Summary,
		Access:     Access(m.Access),
		Idempotent: m.Idempotent || m.Access == "read", Destructive: m.Destructive, Async: m.Async, Sensitive: m.Sensitive, Outbound: m.Outbound,
		Emits: m.Emits, Cost: max(m.Cost, defaultCost), Timeout: time.Duration(m.TimeoutMs) * time.Millisecond,
		Since: m.Since, Deprecated: m.Deprecated, Example: m.Example, Credentials: c.compileCredentials(m.Pos, m.Credentials),
	}
	if m.Example == nil {
		method.Example = []byte("{}")
	}
	method.Timeout = cmp.Or(method.Timeout, defaultTimeout)
	method.Since = cmp.Or(method.Since, c.doc.Upstream.Version)
	if method.Access == Read && (len(m.Emits) > 0 || m.Destructive || m.Outbound) {
		c.fault(m.Pos, "%s: a read must not have emits, destructive or outbound", method.ID())
	}
	for _, kind := range m.Emits {
		if c.cat.byKind[kind] == nil {
			c.fault(m.Pos, "%s: there is no event %s", method.ID(), kind)
		}
	}
	page := c.compileResult(method, m)
	method.Paginated = page != nil && page.Paged()
	spec, faults := call.New(call.Platform{Base: c.cat.base, IDs: c.ids}, resource, m, page)
	c.faults = append(c.faults, faults...)
	method.spec = spec
	return method
}

// compileResult compiles the mapping of the response. It returns the paging style, or nil if the result is not a page.
func (c *compiler) compileResult(method *Method, m *manifest.Method) *manifest.Page {
	r := m.Result
	if r.From == nil && m.Root != "" {
		first := m.Root + ".0"
		r.From = &first
	}
	missing := func(name string) { c.fault(r.Pos, "%s: there is no type %s", method.ID(), name) }
	switch {
	case r.Page != "":
		style := cmp.Or(r.Style, c.defaultStyle)
		page, ok := c.doc.Pages[style]
		if !ok {
			c.fault(r.Pos, "%s: pages has no style %q", method.ID(), style)
			return nil
		}
		if page.Items == "$root" {
			if page.Items = m.Root; m.Root == "" {
				c.fault(r.Pos, "%s: the style %s has items: $root, but the method has no root", method.ID(), style)
			}
		}
		if method.result, ok = c.cat.types.Page(r.Page, page); !ok {
			missing(r.Page)
		}
		return &page
	case r.Of != "":
		named, ok := c.cat.types.Named(r.Of)
		if !ok {
			missing(r.Of)
			return nil
		}
		method.result = named.AtPath(r.From)
	default:
		var faults []manifest.Fault
		method.result, faults = c.cat.types.Record(r.Fields, r.From)
		for _, f := range faults {
			c.fault(f.Pos, "%s: %s", method.ID(), f.Detail)
		}
	}
	return nil
}
