package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode turns a document that satisfies the schema into Go types. The remaining faults are numbers out of range and
// rules between keys that the schema does not express.
func decode(root *value) (*Document, []Fault) {
	d := decoder{doc: &Document{}}
	for name, into := range map[string]any{
		"upstream": &d.doc.Upstream, "session": &d.doc.Session, "signIn": &d.doc.SignIn,
		"errors": &d.doc.Errors, "pages": &d.doc.Pages, "socket": &d.doc.Socket, "poll": &d.doc.Poll, "files": &d.doc.Files,
	} {
		d.unmarshal(root.get(name), into)
	}
	for k, v := range root.get("types").members() {
		d.doc.Types = append(d.doc.Types, Type{Pos: k.pos, Name: k.name, Fields: d.decodeFields(v)})
	}
	for k, v := range root.get("events").members() {
		d.doc.Events = append(d.doc.Events, d.decodeEvent(k, v))
	}
	for k, v := range root.get("resources").members() {
		if name := v.get("resource"); name.string() != k.name {
			d.fault(name.pos, "the resource %s must be in resources/%s.yaml", name.string(), name.string())
			continue
		}
		r := Resource{Pos: v.get("resource").pos, Name: k.name, Summary: v.get("summary").string()}
		for mk, mv := range v.get("methods").members() {
			m := d.decodeMethod(mk, mv)
			if mv.get("root") == nil {
				m.Root = v.get("root").string()
			}
			if mv.get("credentials") == nil {
				m.Credentials = v.get("credentials").strings()
			}
			r.Methods = append(r.Methods, m)
		}
		d.doc.Resources = append(d.doc.Resources, r)
	}
	return d.doc, d.faults
}

type decoder struct {
	doc    *Document
	faults []Fault
}

func (d *decoder) fault(pos Pos, format string, args ...any) {
	d.faults = append(d.faults, Fault{pos, fmt.Sprintf(format, args...)})
}

// unmarshal decodes a value with encoding/json. It is for sections whose order has no meaning; a nil value is skipped.
func (d *decoder) unmarshal(v *value, into any) {
	if v == nil {
		return
	}
	if err := json.Unmarshal(v.raw(), into); err != nil {
		d.fault(v.pos, "cannot be decoded: %v", err)
	}
}

// decodeFields decodes a mapping of fields, in order. A question mark after the name marks a nullable field.
func (d *decoder) decodeFields(v *value) []*Field {
	var list []*Field
	for k, item := range v.members() {
		f := d.decodeField(item)
		f.Pos = k.pos
		f.Name, f.Nullable = strings.CutSuffix(k.name, "?")
		list = append(list, f)
	}
	return list
}

func (d *decoder) decodeField(v *value) *Field {
	f := &Field{
		Pos: v.pos, Type: v.get("type").string(), As: v.get("as").string(), Of: v.get("of").string(), From: v.get("from").optionalText(),
		Const: v.get("const").raw(), Values: decodePairs(v.get("values")), Default: v.get("default").raw(),
		Format: v.get("format").string(), Role: v.get("role").string(), Description: v.get("description").string(),
	}
	if items := v.get("items"); items != nil {
		if items.kind == yaml.ScalarNode {
			f.Items = &Field{Pos: items.pos, Of: items.text}
		} else {
			f.Items = d.decodeField(items)
		}
	}
	f.Fields = d.decodeFields(v.get("fields"))
	return f
}

// optionalText returns the text of a scalar, or nil if the value is nil.
func (v *value) optionalText() *string {
	if v == nil {
		return nil
	}
	return &v.text
}

func decodePairs(v *value) []Pair {
	var list []Pair
	for k, item := range v.members() {
		list = append(list, Pair{k.name, item.json})
	}
	return list
}

func (d *decoder) decodeEvent(k key, v *value) Event {
	e := Event{
		Pos: k.pos, Kind: k.name, Summary: v.get("summary").string(), Class: cmp.Or(v.get("class").string(), "durable"),
		Frames: v.get("frame").strings(),
	}
	e.EverySec, _ = strconv.Atoi(string(v.get("everySec").raw())) // the schema requires an integer; 0 if absent
	for path, want := range v.get("when").members() {
		e.When = append(e.When, Condition{path.name, want.json})
	}
	if data := v.get("data"); data.kind == yaml.ScalarNode {
		e.Of = data.text
	} else {
		e.Data = d.decodeFields(data)
	}
	return e
}

func (d *decoder) decodeMethod(k key, v *value) *Method {
	m := &Method{
		Pos: k.pos, Name: k.name, Summary: v.get("summary").string(), Access: v.get("access").string(), HTTP: v.get("http").string(),
		Root: v.get("root").string(), Credentials: v.get("credentials").strings(), Upload: v.get("upload").bool(),
		Safe: v.get("safe").bool(), Idempotent: v.get("idempotent").bool(), Destructive: v.get("destructive").bool(),
		Async: v.get("async").bool(), Sensitive: v.get("sensitive").bool(), Outbound: v.get("outbound").bool(), Emits: v.get("emits").strings(),
		Since: v.get("since").string(), Example: v.get("example").raw(),
	}
	if deprecated := v.get("deprecated"); deprecated != nil && string(deprecated.json) != "null" {
		m.Deprecated = deprecated.text
	}
	d.unmarshal(v.get("timeoutMs"), &m.TimeoutMs)
	d.unmarshal(v.get("cost"), &m.Cost)
	args := v.get("args")
	m.Args = d.decodeProperties(args.get("properties"), args.get("required"))
	for to, constant := range v.get("send").members() {
		m.Send = append(m.Send, Constant{to.pos, to.name, constant.raw()})
	}
	m.Result = d.decodeResult(v.get("result"))
	return m
}

func (d *decoder) decodeResult(v *value) Result {
	if v.kind == yaml.ScalarNode {
		return Result{Pos: v.pos, Of: v.text}
	}
	r := Result{
		Pos: v.pos, Of: v.get("of").string(), Page: v.get("page").string(), Style: v.get("style").string(),
		From: v.get("from").optionalText(), Fields: d.decodeFields(v.get("fields")),
	}
	forms := 0
	for _, is := range []bool{r.Of != "", r.Page != "", r.Fields != nil} {
		if is {
			forms++
		}
	}
	if forms != 1 {
		d.fault(v.pos, "a result needs exactly one of: of, page, fields")
	}
	if r.Style != "" && r.Page == "" || r.From != nil && r.Page != "" {
		d.fault(v.pos, "style requires page; from requires of or fields")
	}
	return r
}

// decodeProperties decodes a mapping of properties, in order, and marks the required ones.
func (d *decoder) decodeProperties(v, required *value) []*Property {
	var list []*Property
	byName := map[string]*Property{}
	for k, item := range v.members() {
		p := d.decodeProperty(item)
		p.Pos, p.Name = k.pos, k.name
		byName[k.name] = p
		list = append(list, p)
	}
	if required != nil {
		for _, name := range required.items {
			if p := byName[name.text]; p != nil {
				p.Required = true
			} else {
				d.fault(name.pos, "required lists %q, which is not a property", name.text)
			}
		}
	}
	return list
}

func (d *decoder) decodeProperty(v *value) *Property {
	p := &Property{
		Pos: v.pos, ID: v.get("$ref") != nil, Type: v.get("type").string(), Format: v.get("format").string(),
		Pattern: v.get("pattern").string(), Description: v.get("description").string(), Default: v.get("default").raw(),
		UniqueItems: v.get("uniqueItems").bool(), To: v.get("to").strings(), As: v.get("as").string(),
		Values: decodePairs(v.get("values")),
	}
	for name, into := range map[string]any{
		"enum": &p.Enum, "minLength": &p.MinLength, "maxLength": &p.MaxLength, "minimum": &p.Minimum, "maximum": &p.Maximum,
		"minItems": &p.MinItems, "maxItems": &p.MaxItems,
	} {
		d.unmarshal(v.get(name), into)
	}
	if items := v.get("items"); items != nil {
		p.Items = d.decodeProperty(items)
	}
	p.Properties = d.decodeProperties(v.get("properties"), v.get("required"))
	return p
}
