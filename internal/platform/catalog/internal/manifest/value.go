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

// Pos is a position in a manifest. Line is 0 if it is not known.
type Pos struct {
	File string
	Line int
}

// Fault is one error in a manifest.
type Fault struct {
	Pos
	// Detail says what is wrong and, where possible, how to fix it.
	Detail string
}

// String returns the fault as file:line: detail.
func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Detail
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Detail)
}

// value is a YAML value with its position. Mappings keep their order, which defines the order of arguments and fields.
// Its accessors accept a nil receiver, so that optional keys need no checks.
type value struct {
	pos Pos
	// json is a scalar as JSON.
	json json.RawMessage
	// text is a scalar as text, a string without quotes.
	text string
	// keys and items are the members of a mapping, by index. A sequence has items only.
	keys  []key
	items []*value
	kind  yaml.Kind
}

type key struct {
	pos  Pos
	name string
}

// Limits of a file. Manifests are trusted, but the loader must also survive broken ones.
const (
	maxFile  = 256 << 10
	maxDepth = 24
	maxNodes = 50_000
)

// jsonNumber is the only notation that we accept for numbers. YAML has others (octal, 1_000, .inf), which parsers read
// differently.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?$`)

// parse reads one file, which must be a single YAML document with a mapping at the top.
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
		return nil, &Fault{Pos{file, 1}, "must be a mapping"}
	}
	c := converter{file: file}
	v := c.convert(doc.Content[0], 0)
	if c.fault != nil {
		return nil, c.fault
	}
	return v, nil
}

// yamlLine matches the line number in an error of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func yamlFault(file string, err error) *Fault {
	pos := Pos{file, 0}
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		// The pattern matches only digits.
		_, _ = fmt.Sscan(m[1], &pos.Line)
		text = text[len(m[0]):]
	}
	if strings.Contains(text, "',' or '}'") {
		text += `; inside braces YAML requires quotes around a name with ?: {"linkId?": {as: id}}`
	}
	return &Fault{pos, "is not YAML: " + text}
}

// converter turns YAML nodes into values. It keeps the first fault and ignores the rest.
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
		return c.fail(n, "is nested too deeply or has too many values")
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return c.fail(n, "anchors and aliases are not allowed in manifests")
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
				return c.fail(k, "merge keys are not allowed in manifests")
			case seen[k.Value]:
				return c.fail(k, "%q is defined twice", k.Value)
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
	case "!!str", "!!timestamp": // an unquoted date is a string for us
		v.json = tape.AppendQuoted(nil, n.Value)
	case "!!int", "!!float":
		if !jsonNumber.MatchString(n.Value) {
			return c.fail(n, "%q is not a JSON number; quote it if it is a string", n.Value)
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
		return c.fail(n, "the tag %s is not allowed in manifests", n.Tag)
	}
	return v
}

// get returns a member of a mapping, or nil if there is none.
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

// members iterates over a mapping in order.
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

// string returns the text of a scalar, or an empty string for nil.
func (v *value) string() string {
	if v == nil {
		return ""
	}
	return v.text
}

// strings returns the texts of a sequence, or of a single scalar.
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

// raw returns the value as JSON with its members in order, or nil for nil.
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

// toAny returns the value in the form that the schema validator expects.
func (v *value) toAny() any {
	switch v.kind {
	case yaml.SequenceNode:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			list[i] = item.toAny()
		}
		return list
	case yaml.MappingNode:
		m := make(map[string]any, len(v.keys))
		for i, k := range v.keys {
			m[k.name] = v.items[i].toAny()
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
