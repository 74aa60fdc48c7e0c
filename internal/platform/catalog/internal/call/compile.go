package call

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Platform holds what the methods of a platform have in common.
type Platform struct {
	// Base is the prefix of all paths.
	Base string
	// IDs is the pattern of ids that are texts, or nil if they are numbers.
	IDs *regexp.Regexp
}

// New compiles the arguments of a method. page is its paging style, or nil if it is not paged. The returned faults are
// violations of the rules in docs/manifest.md.
func New(on Platform, resource string, m *manifest.Method, page *manifest.Page) (*Spec, []manifest.Fault) {
	verb, path, _ := strings.Cut(m.HTTP, " ")
	c := compiler{
		ids: on.IDs, method: m, taken: map[string]bool{}, placeholders: map[string]bool{},
		spec: &Spec{name: resource + "." + m.Name, verb: verb, index: map[string]int{}, example: m.Example},
	}
	c.compileArgs(page)
	c.compileTargets(on.Base + path)
	c.compileConstants()
	c.compileRoot()
	c.checkMethodRules()
	if len(c.faults) == 0 {
		c.checkExample()
	}
	return c.spec, c.faults
}

type compiler struct {
	ids    *regexp.Regexp
	method *manifest.Method
	spec   *Spec
	// taken lists the query parameters and headers in use, as query.x and header.y.
	taken map[string]bool
	// placeholders are the placeholders of the path. The value is true once an argument fills it.
	placeholders map[string]bool
	faults       []manifest.Fault
}

func (c *compiler) fault(pos manifest.Pos, format string, args ...any) {
	c.faults = append(c.faults, manifest.Fault{Pos: pos, Detail: c.spec.name + ": " + fmt.Sprintf(format, args...)})
}

// compileArgs compiles the arguments and adds limit and cursor to a paged method.
func (c *compiler) compileArgs(page *manifest.Page) {
	args := slices.Clone(c.method.Args)
	if page != nil && page.Paged() {
		args = append(args, pageArgs(c.method.Pos, page)...)
	}
	if len(args) > maxArgs {
		c.fault(c.method.Pos, "more than %d arguments", maxArgs)
		return
	}
	for _, p := range args {
		if _, ok := c.spec.index[p.Name]; ok {
			c.fault(p.Pos, "%s is an argument of every paged method; do not declare it", p.Name)
			continue
		}
		compiled := c.compileProp(p)
		compiled.check.number = page != nil && page.Number != "" && p.Name == "cursor"
		c.spec.index[p.Name] = len(c.spec.props)
		c.spec.props = append(c.spec.props, compiled)
	}
	for i, p := range c.spec.props {
		if i > 0 && p.required && !c.spec.props[i-1].required {
			c.fault(p.source.Pos, "%s is required and must come before the optional arguments", p.name)
		}
		if p.name == positional {
			c.fault(p.source.Pos, "an argument cannot be named %s: the name holds positional arguments", positional)
		}
		if p.required && p.fallback != nil {
			c.fault(p.source.Pos, "%s is required and has a default; one of them is wrong", p.name)
		}
	}
}

func pageArgs(pos manifest.Pos, page *manifest.Page) []*manifest.Property {
	one, hundred, longest := int64(1), int64(100), 512
	shortest := 1
	return []*manifest.Property{
		{
			Pos: pos, Name: "limit", Type: "integer", Minimum: &one, Maximum: &hundred, Default: json.RawMessage("20"),
			To: []string{page.Limit}, Description: "How many items a page has at most.",
		},
		{
			Pos: pos, Name: "cursor", Type: "string", MinLength: &shortest, MaxLength: &longest,
			To: []string{cmp.Or(page.Cursor, page.Number)}, Description: "nextCursor of the page before.",
		},
	}
}

// compileProp compiles an argument, or a member of an object argument.
func (c *compiler) compileProp(p *manifest.Property) *prop {
	compiled := &prop{
		name: p.Name, key: append(quoted(p.Name), ':'), required: p.Required, check: c.compileCheck(p, p.Name), source: p,
	}
	if p.Default != nil {
		compiled.fallback = c.compileDefault(compiled.check, p)
	}
	return compiled
}

// compileDefault returns the default in canonical form. It parses the default as the only argument of a temporary Spec,
// so that defaults are checked like any value.
func (c *compiler) compileDefault(ch *check, p *manifest.Property) []byte {
	probe := &Spec{name: "default", props: []*prop{{name: "value", key: []byte(`"value":`), check: ch}}, index: map[string]int{"value": 0}}
	args, err := probe.FromObject(slices.Concat([]byte(`{"value":`), p.Default, []byte("}")), false)
	if err != nil {
		c.fault(p.Pos, "the default of %s is not valid%s", p.Name, fieldDetails(err))
		return nil
	}
	return args.value(0)
}

func fieldDetails(err error) string {
	found, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return ": " + err.Error()
	}
	var lines []string
	for _, f := range found.Fields {
		lines = append(lines, f.Pointer+" "+f.Detail)
	}
	return ": " + strings.Join(lines, "; ")
}

var kinds = map[string]kind{
	"string": kindString, "integer": kindInteger, "number": kindNumber, "boolean": kindBoolean, "array": kindArray, "object": kindObject,
}

var conversionTypes = map[string]kind{
	asID: kindString, asCents: kindInteger, asTime: kindString, asUnix: kindString, asMilli: kindString,
	asFlag: kindBoolean, asCSV: kindArray,
}

// compileCheck compiles the rules and the conversion of a value. name is for messages.
func (c *compiler) compileCheck(p *manifest.Property, name string) *check {
	ch := &check{minLength: 0, maxLength: none, minItems: 0, maxItems: none, minimum: p.Minimum, maximum: p.Maximum, unique: p.UniqueItems,
		format: p.Format, as: p.As, ids: c.ids}
	set := func(into *int, from *int) {
		if from != nil {
			*into = *from
		}
	}
	set(&ch.minLength, p.MinLength)
	set(&ch.maxLength, p.MaxLength)
	set(&ch.minItems, p.MinItems)
	set(&ch.maxItems, p.MaxItems)
	typ := p.Type
	if p.ID {
		if typ != "" && typ != "string" || p.As != "" && p.As != asID {
			c.fault(p.Pos, "%s: $ref: Id implies type: string and as: id; remove type and as", name)
		}
		typ, ch.as = "string", asID
	}
	kind, known := kinds[typ]
	if !known {
		c.fault(p.Pos, "%s: give it a type, or $ref: Id", name)
		return ch
	}
	ch.kind = kind
	// compileParts must come before applyConversion, which may move the conversion to the items.
	c.checkBounds(p, ch, name)
	c.compileParts(p, ch, name)
	c.applyConversion(ch, p, name)
	c.compileEnum(p, ch, name)
	return ch
}

// checkBounds rejects keywords that do not apply to the type, and compiles the pattern.
func (c *compiler) checkBounds(p *manifest.Property, ch *check, name string) {
	for _, rule := range []struct {
		given bool
		kind  kind
		names string
	}{
		{p.MinLength != nil || p.MaxLength != nil || p.Pattern != "" || p.Format != "", kindString, "minLength, maxLength, pattern and format"},
		{p.Minimum != nil || p.Maximum != nil, kindInteger, "minimum and maximum"},
		{p.MinItems != nil || p.MaxItems != nil || p.UniqueItems || p.Items != nil, kindArray, "items, minItems, maxItems and uniqueItems"},
		{p.Properties != nil, kindObject, "properties"},
	} {
		if rule.given && ch.kind != rule.kind {
			c.fault(p.Pos, "%s: %s do not apply to this type", name, rule.names)
		}
	}
	if p.Pattern != "" {
		pattern, err := regexp.Compile(p.Pattern)
		if err != nil {
			c.fault(p.Pos, "%s: the pattern is not a valid Go regular expression", name)
		}
		ch.pattern = pattern
	}
}

// compileParts compiles the items of an array and the members of an object.
func (c *compiler) compileParts(p *manifest.Property, ch *check, name string) {
	if ch.kind == kindArray && p.Items == nil {
		c.fault(p.Pos, "%s: define its items", name)
		ch.item = &check{maxLength: none, maxItems: none}
	}
	if p.Items != nil {
		if p.Items.To != nil || p.Items.Default != nil {
			c.fault(p.Items.Pos, "%s: items cannot have to or default", name)
		}
		ch.item = c.compileCheck(p.Items, name+" items")
	}
	theirs := map[string]bool{}
	for _, member := range p.Properties {
		compiled := c.compileProp(member)
		to := shape.PlatformName(member.Name, member.As)
		if len(member.To) > 0 {
			to = member.To[0]
		}
		if len(member.To) > 1 || strings.Contains(to, ".") || theirs[to] {
			c.fault(member.Pos, "%s.%s: inside an object, to must be a single name that no other member has", name, member.Name)
		}
		theirs[to] = true
		compiled.theirs = append(quoted(to), ':')
		ch.props = append(ch.props, compiled)
	}
}

// applyConversion checks the conversion of a value against its type. On an array, every conversion but csv applies to
// the items, so it moves there.
func (c *compiler) applyConversion(ch *check, p *manifest.Property, name string) {
	if ch.as == "" {
		return
	}
	if ch.kind == kindArray && ch.as != asCSV {
		if ch.item.as != "" && ch.item.as != ch.as {
			c.fault(p.Pos, "%s: the items have another conversion", name)
		}
		ch.item.as, ch.as = ch.as, ""
		c.applyConversion(ch.item, p.Items, name+" items")
		return
	}
	if want := conversionTypes[ch.as]; ch.kind != want {
		c.fault(p.Pos, "%s: as: %s is for %s", name, ch.as, kindNames[want])
		return
	}
	if ch.as == asCSV {
		if ch.item.kind == kindArray || ch.item.kind == kindObject {
			c.fault(p.Pos, "%s: items of a comma-separated string cannot be arrays or objects", name)
		}
		ch.item.noComma = true
	}
	if ch.as == asTime || ch.as == asUnix || ch.as == asMilli {
		if ch.format != "" && ch.format != "date-time" {
			c.fault(p.Pos, "%s: as: %s requires format: date-time", name, ch.as)
		}
		ch.format = "date-time"
	}
}

// compileEnum compiles enum and values. Without an enum, the keys of values are the enum, except for booleans.
func (c *compiler) compileEnum(p *manifest.Property, ch *check, name string) {
	for _, v := range p.Enum {
		if (v[0] == '"') != (ch.kind == kindString) || v[0] != '"' && ch.kind != kindInteger {
			c.fault(p.Pos, "%s: enum has a value of another type", name)
		}
		ch.enum = append(ch.enum, v)
	}
	for _, pair := range p.Values {
		ours := []byte(pair.Ours)
		if ch.kind == kindString {
			ours = quoted(pair.Ours)
		}
		if ch.kind == kindArray || ch.kind == kindObject || ch.as != "" {
			c.fault(p.Pos, "%s: values apply to strings, integers and booleans without another conversion", name)
			return
		}
		// If both are given, values may map a part of the enum but not extend it.
		if p.Enum != nil && !slices.ContainsFunc(ch.enum[:len(p.Enum)], func(v []byte) bool { return string(v) == string(ours) }) {
			c.fault(p.Pos, "%s: values lists %s, which is not in enum", name, pair.Ours)
		}
		if p.Enum == nil && ch.kind != kindBoolean {
			ch.enum = append(ch.enum, ours)
		}
		ch.values = append(ch.values, pairOf(ours, pair.Theirs))
	}
}

func pairOf(ours, theirs []byte) pair { return pair{ours, theirs} }

// checkMethodRules checks the rules about verb, access and body. Arguments of reads must be flat, because a read can be
// called with a query.
func (c *compiler) checkMethodRules() {
	m := c.method
	read := m.Access == "read"
	switch {
	case read && c.spec.verb != http.MethodGet && !m.Safe:
		c.fault(m.Pos, "a read must be a GET or have safe: true")
	case !read && m.Safe:
		c.fault(m.Pos, "safe is for reads")
	case !read && c.spec.verb == http.MethodGet:
		c.fault(m.Pos, "a write must not be a GET")
	case c.spec.verb == http.MethodGet && c.spec.body != nil:
		c.fault(m.Pos, "a GET has no body; send it in the query")
	}
	if m.Upload {
		c.checkUpload()
	}
	if !read {
		return
	}
	for _, p := range c.spec.props {
		k := p.check.kind
		if k == kindObject || k == kindArray && (p.check.item.kind == kindArray || p.check.item.kind == kindObject) {
			c.fault(p.source.Pos, "%s: arguments of reads must be flat, so that they can be given in a query", p.name)
		}
	}
}

// checkUpload checks that a method with upload: true can send its arguments as fields of a form.
func (c *compiler) checkUpload() {
	if c.method.Access == "read" || c.spec.verb != http.MethodPost && c.spec.verb != http.MethodPut {
		c.fault(c.method.Pos, "upload: true is for writes with POST or PUT")
	}
	if c.spec.body == nil {
		return
	}
	for _, n := range c.spec.body.children {
		nested := n.children != nil || n.constant != nil && (n.constant[0] == '{' || n.constant[0] == '[')
		if n.prop != none {
			ch := c.spec.props[n.prop].check
			nested = ch.kind == kindObject || ch.kind == kindArray && ch.as != asCSV
		}
		if nested {
			c.fault(c.method.Pos, "body.%s: a field of a form must be a single value", n.name)
		}
	}
}

// checkExample checks that the example satisfies the arguments. A method with declared arguments must have one.
func (c *compiler) checkExample() {
	if c.spec.example == nil {
		if len(c.method.Args) > 0 {
			c.fault(c.method.Pos, "there is no example")
		}
		c.spec.example = json.RawMessage("{}")
		return
	}
	if _, err := c.spec.FromObject(c.spec.example, false); err != nil {
		c.fault(c.method.Pos, "the example does not satisfy its own arguments%s", fieldDetails(err))
	}
}

func quoted(text string) []byte { return tape.AppendQuoted(nil, text) }
