package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode turns a document that the schema allows into Go types. What can still be wrong are numbers out of range and names
// that do not fit together.
func decode(root *value) (*Document, []Fault) {
	d := decoder{doc: &Document{}}
	for name, into := range map[string]any{
		"upstream": &d.doc.Upstream, "session": &d.doc.Session, "signIn": &d.doc.SignIn,
		"errors": &d.doc.Errors, "pages": &d.doc.Pages, "socket": &d.doc.Socket, "files": &d.doc.Files,
	} {
		d.plain(root.get(name), into)
	}
	for k, v := range root.get("types").members() {
		d.doc.Types = append(d.doc.Types, Type{Pos: k.pos, Name: k.name, Fields: d.fields(v)})
	}
	for k, v := range root.get("events").members() {
		d.doc.Events = append(d.doc.Events, d.event(k, v))
	}
	for k, v := range root.get("resources").members() {
		if name := v.get("resource"); name.string() != k.name {
			d.fault(name.pos, "the file of the resource %s must be resources/%s.yaml", name.string(), name.string())
			continue
		}
		r := Resource{Pos: v.get("resource").pos, Name: k.name, Summary: v.get("summary").string()}
		for mk, mv := range v.get("methods").members() {
			r.Methods = append(r.Methods, d.method(mk, mv))
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

// plain decodes a section whose order means nothing.
func (d *decoder) plain(v *value, into any) {
	if v == nil {
		return
	}
	if err := json.Unmarshal(v.raw(), into); err != nil {
		d.fault(v.pos, "cannot be read: %v", err)
	}
}

func (d *decoder) fields(v *value) []*Field {
	var list []*Field
	for k, item := range v.members() {
		f := d.field(item)
		f.Pos = k.pos
		f.Name, f.Nullable = strings.CutSuffix(k.name, "?")
		list = append(list, f)
	}
	return list
}

func (d *decoder) field(v *value) *Field {
	f := &Field{
		Pos: v.pos, Type: v.get("type").string(), As: v.get("as").string(), Of: v.get("of").string(), From: v.get("from").optional(),
		Const: v.get("const").raw(), Values: pairs(v.get("values")), Default: v.get("default").raw(),
		Format: v.get("format").string(), Role: v.get("role").string(), Description: v.get("description").string(),
	}
	if items := v.get("items"); items != nil {
		if items.kind == yaml.ScalarNode {
			f.Items = &Field{Pos: items.pos, Of: items.text}
		} else {
			f.Items = d.field(items)
		}
	}
	f.Fields = d.fields(v.get("fields"))
	return f
}

// optional is the text of a scalar, nil for nil.
func (v *value) optional() *string {
	if v == nil {
		return nil
	}
	return &v.text
}

func pairs(v *value) []Pair {
	var list []Pair
	for k, item := range v.members() {
		list = append(list, Pair{k.name, item.json})
	}
	return list
}

func (d *decoder) event(k key, v *value) Event {
	e := Event{
		Pos: k.pos, Kind: k.name, Summary: v.get("summary").string(), Class: v.get("class").string(), Frames: v.get("frame").strings(),
	}
	e.EverySec, _ = strconv.Atoi(string(v.get("everySec").raw())) // the schema has seen to it
	for path, want := range v.get("when").members() {
		e.When = append(e.When, Condition{path.name, want.json})
	}
	if data := v.get("data"); data.kind == yaml.ScalarNode {
		e.Of = data.text
	} else {
		e.Data = d.fields(data)
	}
	return e
}

func (d *decoder) method(k key, v *value) *Method {
	m := &Method{
		Pos: k.pos, Name: k.name, Summary: v.get("summary").string(), Access: v.get("access").string(), HTTP: v.get("http").string(),
		Safe: v.get("safe").bool(), Idempotent: v.get("idempotent").bool(), Destructive: v.get("destructive").bool(),
		Async: v.get("async").bool(), Sensitive: v.get("sensitive").bool(), Outbound: v.get("outbound").bool(), Emits: v.get("emits").strings(),
		Since: v.get("since").string(), Example: v.get("example").raw(),
	}
	if deprecated := v.get("deprecated"); deprecated != nil && string(deprecated.json) != "null" {
		m.Deprecated = deprecated.text
	}
	d.plain(v.get("timeoutMs"), &m.TimeoutMs)
	d.plain(v.get("cost"), &m.Cost)
	args := v.get("args")
	m.Args = d.properties(args.get("properties"), args.get("required"))
	for to, constant := range v.get("send").members() {
		m.Send = append(m.Send, Constant{to.pos, to.name, constant.raw()})
	}
	m.Result = d.result(v.get("result"))
	return m
}

func (d *decoder) result(v *value) Result {
	if v.kind == yaml.ScalarNode {
		return Result{Pos: v.pos, Of: v.text}
	}
	r := Result{
		Pos: v.pos, Of: v.get("of").string(), Page: v.get("page").string(), Style: v.get("style").string(),
		From: v.get("from").optional(), Fields: d.fields(v.get("fields")),
	}
	ways := 0
	for _, is := range []bool{r.Of != "", r.Page != "", r.Fields != nil} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		d.fault(v.pos, "a result has one of of, page and fields")
	}
	if r.Style != "" && r.Page == "" || r.From != nil && r.Page != "" {
		d.fault(v.pos, "style goes with page, from with of or fields")
	}
	return r
}

// properties reads arguments, and marks those that are required.
func (d *decoder) properties(v, required *value) []*Property {
	var list []*Property
	byName := map[string]*Property{}
	for k, item := range v.members() {
		p := d.property(item)
		p.Pos, p.Name = k.pos, k.name
		byName[k.name] = p
		list = append(list, p)
	}
	if required != nil {
		for _, name := range required.items {
			if p := byName[name.text]; p != nil {
				p.Required = true
			} else {
				d.fault(name.pos, "required names %q, which is not among the properties", name.text)
			}
		}
	}
	return list
}

func (d *decoder) property(v *value) *Property {
	p := &Property{
		Pos: v.pos, ID: v.get("$ref") != nil, Type: v.get("type").string(), Format: v.get("format").string(),
		Pattern: v.get("pattern").string(), Description: v.get("description").string(), Default: v.get("default").raw(),
		UniqueItems: v.get("uniqueItems").bool(), To: v.get("to").string(), As: v.get("as").string(), Values: pairs(v.get("values")),
	}
	for name, into := range map[string]any{
		"enum": &p.Enum, "minLength": &p.MinLength, "maxLength": &p.MaxLength, "minimum": &p.Minimum, "maximum": &p.Maximum,
		"minItems": &p.MinItems, "maxItems": &p.MaxItems,
	} {
		d.plain(v.get(name), into)
	}
	if items := v.get("items"); items != nil {
		p.Items = d.property(items)
	}
	p.Properties = d.properties(v.get("properties"), v.get("required"))
	return p
}
