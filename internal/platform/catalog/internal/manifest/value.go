package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Pos is where something stands.
type Pos struct {
	File string
	Line int
}

// Fault is one thing that is wrong with a manifest.
type Fault struct {
	Pos
	// Detail says what is wrong and what would be right.
	Detail string
}

// String is the fault with its place, as compilers write it.
func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Detail
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Detail)
}

// value is a YAML value that knows its place. Maps keep their order.
type value struct {
	pos Pos
	// json is a scalar as JSON.
	json json.RawMessage
	// text is a scalar as it was meant: a string without quotes.
	text  string
	keys  []key
	items []*value
	kind  yaml.Kind
}

type key struct {
	pos  Pos
	name string
}

// What a file may be. A manifest is ours, but its loader must not be what breaks when one is not.
const (
	maxFile  = 256 << 10
	maxDepth = 24
	maxNodes = 50_000
)

// jsonNumber is how a number must be written; YAML knows more ways, and each reads differently somewhere.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?$`)

// parse reads one file.
func parse(file string, text []byte) (*value, *Fault) {
	if len(text) > maxFile {
		return nil, &Fault{Pos{file, 0}, fmt.Sprintf("is larger than %d bytes", maxFile)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, yamlFault(file, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &Fault{Pos{file, second.Line}, "holds more than one document"}
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, &Fault{Pos{file, 1}, "must be a map of names"}
	}
	c := converter{file: file}
	v := c.convert(doc.Content[0], 0)
	if c.fault != nil {
		return nil, c.fault
	}
	return v, nil
}

// yamlLine finds the line in an error of the YAML reader's.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func yamlFault(file string, err error) *Fault {
	pos := Pos{file, 0}
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		// The pattern allows digits only.
		_, _ = fmt.Sscan(m[1], &pos.Line)
		text = text[len(m[0]):]
	}
	if strings.Contains(text, "',' or '}'") {
		text += `; within braces YAML wants quotes around a name with ?: {"linkId?": {as: id}}`
	}
	return &Fault{pos, "is not YAML: " + text}
}

// converter turns YAML's nodes into values and remembers the first thing that is wrong.
type converter struct {
	file  string
	nodes int
	fault *Fault
}

func (c *converter) fail(n *yaml.Node, format string, args ...any) *value {
	if c.fault == nil {
		c.fault = &Fault{Pos{c.file, n.Line}, fmt.Sprintf(format, args...)}
	}
	return nil
}

func (c *converter) convert(n *yaml.Node, depth int) *value {
	if c.nodes++; c.fault != nil || c.nodes > maxNodes || depth > maxDepth {
		return c.fail(n, "is nested too deeply, or too long")
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return c.fail(n, "anchors and aliases are not used in manifests: write it out")
	}
	v := &value{pos: Pos{c.file, n.Line}, kind: n.Kind}
	switch n.Kind {
	case yaml.ScalarNode:
		return c.scalar(v, n)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			v.items = append(v.items, c.convert(item, depth+1))
		}
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			switch {
			case k.Kind != yaml.ScalarNode || k.Anchor != "":
				return c.fail(k, "a key must be a plain name")
			case k.Tag == "!!merge":
				return c.fail(k, "merge keys are not used in manifests: write it out")
			case seen[k.Value]:
				return c.fail(k, "%q is written twice", k.Value)
			}
			seen[k.Value] = true
			v.keys = append(v.keys, key{Pos{c.file, k.Line}, k.Value})
			v.items = append(v.items, c.convert(n.Content[i+1], depth+1))
		}
	case yaml.DocumentNode, yaml.AliasNode:
		return c.fail(n, "is not a value")
	}
	return v
}

func (c *converter) scalar(v *value, n *yaml.Node) *value {
	v.text = n.Value
	switch n.ShortTag() {
	case "!!str", "!!timestamp": // a date without quotes is still a text
		v.json = tape.AppendQuoted(nil, n.Value)
	case "!!int", "!!float":
		if !jsonNumber.MatchString(n.Value) {
			return c.fail(n, "%q is no number as JSON writes it; quote it if it is a text", n.Value)
		}
		v.json = json.RawMessage(n.Value)
	case "!!bool":
		if n.Value != "true" && n.Value != "false" {
			return c.fail(n, "write true or false")
		}
		v.json = json.RawMessage(n.Value)
	case "!!null":
		v.json = json.RawMessage("null")
	default:
		return c.fail(n, "the tag %s is not used in manifests", n.Tag)
	}
	return v
}

// get finds a member of a map, nil if there is none.
func (v *value) get(name string) *value {
	if v == nil {
		return nil
	}
	for i, k := range v.keys {
		if k.name == name {
			return v.items[i]
		}
	}
	return nil
}

// member steps through a map in order.
func (v *value) members() func(yield func(key, *value) bool) {
	return func(yield func(key, *value) bool) {
		if v == nil {
			return
		}
		for i, k := range v.keys {
			if !yield(k, v.items[i]) {
				return
			}
		}
	}
}

// string is the text of a scalar, empty for nil.
func (v *value) string() string {
	if v == nil {
		return ""
	}
	return v.text
}

func (v *value) strings() []string {
	if v == nil {
		return nil
	}
	if v.kind == yaml.ScalarNode {
		return []string{v.text}
	}
	var list []string
	for _, item := range v.items {
		list = append(list, item.text)
	}
	return list
}

func (v *value) bool() bool { return v != nil && string(v.json) == "true" }

// raw is the value as JSON, nil for nil. Members stay in their order.
func (v *value) raw() json.RawMessage {
	if v == nil {
		return nil
	}
	return v.appendJSON(nil)
}

func (v *value) appendJSON(dst []byte) []byte {
	switch v.kind {
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i, k := range v.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(tape.AppendQuoted(dst, k.name), ':')
			dst = v.items[i].appendJSON(dst)
		}
		return append(dst, '}')
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return append(dst, v.json...)
}

// any is the value as the schema's checker wants it.
func (v *value) any() any {
	switch v.kind {
	case yaml.SequenceNode:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			list[i] = item.any()
		}
		return list
	case yaml.MappingNode:
		m := make(map[string]any, len(v.keys))
		for i, k := range v.keys {
			m[k.name] = v.items[i].any()
		}
		return m
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch c := v.json[0]; c {
	case '"':
		return v.text
	case 't', 'f':
		return c == 't'
	case 'n':
		return nil
	}
	return json.Number(v.json)
}
