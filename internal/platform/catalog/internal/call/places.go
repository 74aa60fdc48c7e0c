package call

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
)

var placeholder = regexp.MustCompile(`\{([^}]*)\}`)

// compileTargets compiles the target of every argument (to), and splits the path template into segments. Every
// placeholder must be filled by exactly one argument.
func (c *compiler) compileTargets(template string) {
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if _, twice := c.placeholders[m[1]]; twice {
			c.fault(c.method.Pos, "the path has {%s} twice", m[1])
		}
		c.placeholders[m[1]] = false
	}
	// Assign each argument to its target; filled remembers the argument of each placeholder.
	filled := map[string]int{}
	for i, p := range c.spec.props {
		if len(p.source.To) == 0 {
			c.fault(p.source.Pos, "%s is sent nowhere: set to: path, query, body or header", p.name)
		}
		for _, to := range p.source.To {
			kind, name, _ := strings.Cut(to, ".")
			switch kind {
			case "path":
				if name == "" {
					name = p.name
				}
				c.fillPlaceholder(p, name)
				filled[name] = i
			case "query", "header", "body":
				c.placeArg(i, kind, name)
			default:
				c.fault(p.source.Pos, "%s: to must be path, query, body or header, optionally with a name", p.name)
			}
		}
	}
	// Split the template: each segment is the text before a placeholder and the argument that fills it. The last
	// segment is the text after the last placeholder.
	rest := template
	for _, m := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		name := template[m[2]:m[3]]
		if !c.placeholders[name] {
			c.fault(c.method.Pos, "no argument fills {%s} of the path", name)
		}
		from := len(template) - len(rest)
		c.spec.path = append(c.spec.path, segment{text: template[from:m[0]], prop: filled[name]})
		rest = template[m[1]:]
	}
	c.spec.path = append(c.spec.path, segment{text: rest, prop: none})
}

// fillPlaceholder assigns an argument to a placeholder of the path.
func (c *compiler) fillPlaceholder(p *prop, name string) {
	taken, ok := c.placeholders[name]
	switch {
	case !ok:
		c.fault(p.source.Pos, "%s goes to the path, which has no {%s}", p.name, name)
	case taken:
		c.fault(p.source.Pos, "{%s} is filled twice", name)
	case !p.required && p.fallback == nil:
		c.fault(p.source.Pos, "%s goes to the path and must be required, or have a default", p.name)
	case p.check.kind == kindArray || p.check.kind == kindObject:
		c.fault(p.source.Pos, "%s goes to the path and must be a single value", p.name)
	}
	c.placeholders[name] = true
	// Free strings must be checked at run time; numbers and mapped values are always single segments.
	p.check.segment = p.check.kind == kindString && p.check.values == nil
}

// placeArg assigns argument i to a query parameter, a header or a member of the body.
func (c *compiler) placeArg(i int, kind, name string) {
	p := c.spec.props[i]
	if name == "" {
		name = shape.PlatformName(p.name, p.source.As)
	}
	pos := p.source.Pos
	switch kind {
	case "query":
		if c.reserveTarget(pos, "query", name) {
			if p.check.kind == kindObject || p.check.kind == kindArray && p.check.item.kind == kindObject {
				c.fault(pos, "%s is an object and cannot go to the query", p.name)
			}
			c.spec.query = append(c.spec.query, target{name: name, prop: i})
		}
	case "header":
		name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if c.reserveTarget(pos, "header", name) {
			if p.check.kind != kindString {
				c.fault(pos, "%s goes to a header and must be a string", p.name)
			}
			p.check.header = true
			c.spec.header = append(c.spec.header, target{name: name, prop: i})
		}
	case "body":
		c.addToBody(pos, name, &bodyNode{prop: i})
	}
}

// reservedHeaders are set by the transport or carry the session. No argument may set them.
var reservedHeaders = map[string]bool{
	"host": true, "cookie": true, "authorization": true, "connection": true, "content-length": true, "content-type": true,
	"content-encoding": true, "transfer-encoding": true, "te": true, "trailer": true, "upgrade": true, "expect": true,
	"accept-encoding": true, "user-agent": true, "proxy-authorization": true, "proxy-connection": true,
}

// reserveTarget claims a query parameter or a header. It returns false, with a fault, if the name is not allowed or
// already in use.
func (c *compiler) reserveTarget(pos manifest.Pos, kind, name string) bool {
	key := kind + "." + name
	switch {
	case strings.Contains(name, "."):
		c.fault(pos, "%s: a name in the %s must not have dots", key, kind)
		return false
	case c.taken[key]:
		c.fault(pos, "%s is given twice", key)
		return false
	case kind == "header" && reservedHeaders[name]:
		c.fault(pos, "an argument must not set the header %s", name)
		return false
	}
	c.taken[key] = true
	return true
}

// addToBody adds a leaf to the body at a dotted path, with the objects on the way.
func (c *compiler) addToBody(pos manifest.Pos, path string, leaf *bodyNode) {
	if c.spec.body == nil {
		c.spec.body = &bodyNode{prop: none}
	}
	node := c.spec.body
	names := strings.Split(path, ".")
	for i, name := range names {
		last := i == len(names)-1
		var next *bodyNode
		for _, child := range node.children {
			if child.name == name {
				next = child
			}
		}
		// Neither replace an existing member, nor descend into a leaf.
		if next != nil && (last || next.children == nil) {
			c.fault(pos, "body.%s is given twice", path)
			return
		}
		if next == nil {
			next = &bodyNode{prop: none}
			if last {
				next = leaf
			}
			next.name, next.key = name, append(quoted(name), ':')
			node.children = append(node.children, next)
		}
		node = next
	}
}

// compileRoot compiles what encloses the members of the body. The body of an upload is a form, which has no root.
func (c *compiler) compileRoot() {
	c.spec.opening, c.spec.closing = []byte("{"), []byte("}")
	if root := c.method.Root; root != "" && !c.method.Upload {
		c.spec.opening = slices.Concat([]byte("{"), quoted(root), []byte(":[{"))
		c.spec.closing = []byte("}]}")
	}
}

// compileConstants adds the values that are sent with every call.
func (c *compiler) compileConstants() {
	for _, s := range c.method.Send {
		kind, name, _ := strings.Cut(s.To, ".")
		if kind == "body" {
			c.addToBody(s.Pos, name, &bodyNode{prop: none, constant: compact(s.Value)})
			continue
		}
		text := string(s.Value)
		if s.Value[0] == '"' {
			// The manifest package has written this JSON, so it is valid.
			_ = json.Unmarshal(s.Value, &text)
		}
		if s.Value[0] == '{' || s.Value[0] == '[' || s.Value[0] == 'n' {
			c.fault(s.Pos, "%s: a constant in the query or a header must be a single value", s.To)
			continue
		}
		if !c.reserveTarget(s.Pos, kind, name) {
			continue
		}
		if kind == "query" {
			c.spec.query = append(c.spec.query, target{name: name, prop: none, text: text})
			continue
		}
		if http.CanonicalHeaderKey(name) == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			c.fault(s.Pos, "%s: a header must be printable ASCII", s.To)
		}
		c.spec.header = append(c.spec.header, target{name: name, prop: none, text: text})
	}
}

func compact(text json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return text
	}
	return out.Bytes()
}
