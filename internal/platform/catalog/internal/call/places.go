package call

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
)

var placeholder = regexp.MustCompile(`\{([^}]*)\}`)

// path compiles where every argument goes.
func (c *compiler) path(template string) {
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if _, twice := c.placeholders[m[1]]; twice {
			c.fault(c.method.Pos, "the path has {%s} twice", m[1])
		}
		c.placeholders[m[1]] = false
	}
	filled := map[string]int{}
	for i, p := range c.spec.props {
		kind, name, _ := strings.Cut(p.source.To, ".")
		switch kind {
		case "path":
			if name == "" {
				name = p.name
			}
			c.fill(p, name)
			filled[name] = i
		case "query", "header", "body":
			c.place(i, kind, name)
		case "":
			c.fault(p.source.Pos, "%s goes nowhere: say to: path, query, body or header", p.name)
		default:
			c.fault(p.source.Pos, "%s: to is path, query, body or header, each with or without a name", p.name)
		}
	}
	rest := template
	for _, m := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		name := template[m[2]:m[3]]
		if !c.placeholders[name] {
			c.fault(c.method.Pos, "the path has {%s}, and no argument goes there", name)
		}
		from := len(template) - len(rest)
		c.spec.path = append(c.spec.path, segment{text: template[from:m[0]], prop: filled[name]})
		rest = template[m[1]:]
	}
	c.spec.path = append(c.spec.path, segment{text: rest, prop: none})
}

// fill puts an argument into a placeholder.
func (c *compiler) fill(p *prop, name string) {
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
	p.check.segment = p.check.kind == kindString && p.check.values == nil
}

// place puts an argument into the query, a header or the body.
func (c *compiler) place(i int, kind, name string) {
	p := c.spec.props[i]
	if name == "" {
		name = shape.Theirs(p.name, p.source.As)
	}
	pos := p.source.Pos
	switch kind {
	case "query":
		if c.take(pos, "query", name) {
			if p.check.kind == kindObject || p.check.kind == kindArray && p.check.item.kind == kindObject {
				c.fault(pos, "%s is an object and cannot go to the query", p.name)
			}
			c.spec.query = append(c.spec.query, target{name: name, prop: i})
		}
	case "header":
		name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if c.take(pos, "header", name) {
			if p.check.kind != kindString {
				c.fault(pos, "%s goes to a header and must be a string", p.name)
			}
			p.check.header = true
			c.spec.header = append(c.spec.header, target{name: name, prop: i})
		}
	case "body":
		c.inBody(pos, name, &bodyNode{prop: i})
	}
}

// ownHeaders are those that a request has by itself, or that say who asks; no argument decides on them.
var ownHeaders = map[string]bool{
	"host": true, "cookie": true, "authorization": true, "connection": true, "content-length": true, "content-type": true,
	"content-encoding": true, "transfer-encoding": true, "te": true, "trailer": true, "upgrade": true, "expect": true,
	"accept-encoding": true, "user-agent": true, "proxy-authorization": true, "proxy-connection": true,
}

// take marks a place of the query or a header as taken.
func (c *compiler) take(pos manifest.Pos, kind, name string) bool {
	key := kind + "." + name
	switch {
	case strings.Contains(name, "."):
		c.fault(pos, "%s: a name in the %s has no dots", key, kind)
		return false
	case c.places[key]:
		c.fault(pos, "%s is given twice", key)
		return false
	case kind == "header" && ownHeaders[name]:
		c.fault(pos, "the header %s is not an argument's to set", name)
		return false
	}
	c.places[key] = true
	return true
}

// inBody adds a leaf to the body.
func (c *compiler) inBody(pos manifest.Pos, path string, leaf *bodyNode) {
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

// constants adds what goes with every call.
func (c *compiler) constants() {
	for _, s := range c.method.Send {
		kind, name, _ := strings.Cut(s.To, ".")
		if kind == "body" {
			c.inBody(s.Pos, name, &bodyNode{prop: none, constant: compact(s.Value)})
			continue
		}
		text := string(s.Value)
		if s.Value[0] == '"' {
			// It is JSON that we made of YAML.
			_ = json.Unmarshal(s.Value, &text)
		}
		if s.Value[0] == '{' || s.Value[0] == '[' || s.Value[0] == 'n' {
			c.fault(s.Pos, "%s: a constant in the query or a header is a single value", s.To)
			continue
		}
		if !c.take(s.Pos, kind, name) {
			continue
		}
		if kind == "query" {
			c.spec.query = append(c.spec.query, target{name: name, prop: none, text: text})
			continue
		}
		if http.CanonicalHeaderKey(name) == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			c.fault(s.Pos, "%s: a header is printable ASCII", s.To)
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
