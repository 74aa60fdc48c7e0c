// Package compat finds the differences between two OpenAPI documents that can break a client, by the rules of
// docs/compatibility.md. Its test compares the document with that of the last release, openapi/released.json. Start
// reading at Breaking.
package compat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

type object = map[string]any

// Breaking returns what is in the first document and cannot be relied on with the second. Operations that were announced
// to end before now may be gone.
func Breaking(before, after []byte, now time.Time) ([]string, error) {
	c := comparison{now: now}
	if err := json.Unmarshal(before, &c.before); err != nil {
		return nil, fmt.Errorf("read the released document: %w", err)
	}
	if err := json.Unmarshal(after, &c.after); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	c.operations("paths", false)
	c.operations("webhooks", true)
	slices.Sort(c.faults)
	return slices.Compact(c.faults), nil
}

// comparison compares two documents.
type comparison struct {
	now           time.Time
	before, after object
	faults        []string
	// above are the pairs of references that are being compared, because schemas can contain themselves.
	above []string
}

func (c *comparison) add(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// operations compares the operations of a section. The requests of webhooks are sent by the service, so they are compared
// like responses.
func (c *comparison) operations(section string, sent bool) {
	for path, item := range part(c.before, section) {
		for method, one := range asObject(item) {
			old, name := asObject(one), strings.ToUpper(method)+" "+path
			current := part(c.after, section, path, method)
			if current == nil {
				if !c.over(old) {
					c.add("%s is gone", name)
				}
				continue
			}
			if old["operationId"] != current["operationId"] && !sent {
				c.add("%s: the operationId %v is now %v", name, old["operationId"], current["operationId"])
			}
			if sent {
				c.bodies(name, part(old, "requestBody"), part(current, "requestBody"), false)
				continue
			}
			c.parameters(name, old, current)
			c.bodies(name+" request", part(old, "requestBody"), part(current, "requestBody"), true)
			c.responses(name, old, current)
		}
	}
}

// responses compares the responses of an operation that report success.
func (c *comparison) responses(name string, old, current object) {
	for status, response := range part(old, "responses") {
		if status >= "4" {
			continue
		}
		now := c.deref(c.after, part(current, "responses", status))
		if now == nil {
			c.add("%s no longer responds with %s", name, status)
		}
		c.bodies(name+" "+status, c.deref(c.before, asObject(response)), now, false)
	}
}

// over reports whether the announced end of an operation has passed.
func (c *comparison) over(op object) bool {
	text, _ := op["x-sunset"].(string)
	end, err := time.Parse(time.DateOnly, text)
	return err == nil && op["deprecated"] == true && end.Before(c.now)
}

func (c *comparison) parameters(name string, old, current object) {
	list := func(root, op object) map[string]object {
		found := map[string]object{}
		parameters, _ := op["parameters"].([]any)
		for _, one := range parameters {
			p := c.deref(root, asObject(one))
			found[fmt.Sprint(p["in"], " ", p["name"])] = p
		}
		return found
	}
	before, after := list(c.before, old), list(c.after, current)
	for key, p := range before {
		if after[key] == nil {
			c.add("%s: the parameter %s is gone", name, key)
			continue
		}
		c.schemas(name+" "+key, asObject(p["schema"]), asObject(after[key]["schema"]), true)
	}
	for key, p := range after {
		if p["required"] == true && (before[key] == nil || before[key]["required"] != true) {
			c.add("%s: the parameter %s is required", name, key)
		}
	}
}

func (c *comparison) bodies(name string, old, current object, request bool) {
	for media, form := range part(old, "content") {
		now := part(current, "content", media)
		if now == nil {
			c.add("%s: the form %s is gone", name, media)
			continue
		}
		c.schemas(name, part(asObject(form), "schema"), part(now, "schema"), request)
	}
	if request && current["required"] == true && old["required"] != true {
		c.add("%s: the body is required", name)
	}
}

// schemas compares the schemas of a value that a client sends (request) or receives.
func (c *comparison) schemas(name string, old, current object, request bool) {
	pair := fmt.Sprint(old["$ref"], " ", current["$ref"], request)
	if old["$ref"] != nil || current["$ref"] != nil {
		if slices.Contains(c.above, pair) {
			return
		}
		c.above = append(c.above, pair)
		defer func() { c.above = c.above[:len(c.above)-1] }()
		old, current = c.deref(c.before, old), c.deref(c.after, current)
	}
	if old == nil {
		return
	}
	if current == nil {
		c.add("%s: the schema is gone", name)
		return
	}
	c.types(name, old, current, request)
	c.values(name, old, current, request)
	if request {
		c.bounds(name, old, current)
	}
	c.members(name, old, current, request)
	if items := asObject(old["items"]); items != nil {
		c.schemas(name+"[]", items, asObject(current["items"]), request)
	}
	for _, kind := range []string{"allOf", "anyOf", "oneOf"} {
		before, _ := old[kind].([]any)
		after, _ := current[kind].([]any)
		if len(after) < len(before) {
			c.add("%s: a form is gone", name)
			continue
		}
		for i, one := range before {
			c.schemas(name, asObject(one), asObject(after[i]), request)
		}
	}
}

// types compares the types. A client can send what it could, and receives nothing that it could not.
func (c *comparison) types(name string, old, current object, request bool) {
	before, after := texts(old["type"]), texts(current["type"])
	if len(before) == 0 || len(after) == 0 {
		return
	}
	wide, narrow := before, after
	if request {
		wide, narrow = after, before
	}
	for _, t := range narrow {
		if !slices.Contains(wide, t) && (t != "integer" || !slices.Contains(wide, "number")) {
			c.add("%s: the type %s is now %s", name, strings.Join(before, " or "), strings.Join(after, " or "))
			return
		}
	}
}

// values compares enumerations. In responses, only open sets (x-extensible-enum) get new values.
func (c *comparison) values(name string, old, current object, request bool) {
	before, after := texts(old["enum"]), texts(current["enum"])
	switch {
	case request && len(after) > 0:
		if len(before) == 0 {
			c.add("%s: takes only %s", name, strings.Join(after, ", "))
		}
		for _, value := range before {
			if !slices.Contains(after, value) {
				c.add("%s: no longer takes %s", name, value)
			}
		}
	case !request && len(before) > 0:
		for _, value := range after {
			if !slices.Contains(before, value) {
				c.add("%s: can be %s, and the set was closed", name, value)
			}
		}
		if len(after) == 0 {
			c.add("%s: the set of values is no longer closed", name)
		}
	}
}

// bounds compares the limits of what a request may contain.
func (c *comparison) bounds(name string, old, current object) {
	for _, bound := range []struct {
		name string
		up   bool // Raising it takes less than before.
	}{{"minLength", true}, {"minimum", true}, {"minItems", true}, {"maxLength", false}, {"maximum", false}, {"maxItems", false}, {"maxProperties", false}} {
		limit, has := current[bound.name].(float64)
		was, had := old[bound.name].(float64)
		if has && (!had && (!bound.up || limit > 0) || had && (bound.up && limit > was || !bound.up && limit < was)) {
			c.add("%s: %s is %v", name, bound.name, limit)
		}
	}
}

func (c *comparison) members(name string, old, current object, request bool) {
	before, after := asObject(old["properties"]), asObject(current["properties"])
	for member, schema := range before {
		now := asObject(after[member])
		if now == nil {
			c.add("%s.%s is gone", name, member)
			continue
		}
		c.schemas(name+"."+member, asObject(schema), now, request)
	}
	was, is := texts(old["required"]), texts(current["required"])
	if request {
		was, is = is, was
	}
	for _, member := range was {
		switch {
		case slices.Contains(is, member):
		case request:
			c.add("%s.%s is required", name, member)
		case after[member] != nil:
			c.add("%s.%s can be absent", name, member)
		}
	}
}

// deref follows a reference within a document.
func (*comparison) deref(root, node object) object {
	for node != nil {
		ref, ok := node["$ref"].(string)
		if !ok {
			return node
		}
		node = part(root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return node
}

// part returns the object at a path of names; nil if there is none.
func part(node object, names ...string) object {
	for _, name := range names {
		node = asObject(node[name])
	}
	return node
}

func asObject(value any) object {
	o, _ := value.(object)
	return o
}

// texts returns a value or the values of a list as texts.
func texts(value any) []string {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		list := make([]string, len(v))
		for i, one := range v {
			list[i] = fmt.Sprint(one)
		}
		return list
	}
	return []string{fmt.Sprint(value)}
}

// Contract returns the part of a document that clients rely on: without descriptions, examples and samples. It is what
// openapi/released.json contains.
func Contract(document []byte) ([]byte, error) {
	var root object
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	kept := object{"openapi": root["openapi"], "info": object{"version": part(root, "info")["version"]}, "paths": root["paths"], "webhooks": root["webhooks"]}
	components := object{}
	for name, value := range part(root, "components") {
		if name != "examples" {
			components[name] = value
		}
	}
	kept["components"] = components
	strip(kept, false)
	text, err := json.MarshalIndent(kept, "", " ")
	return append(text, '\n'), err
}

// dropped are the members of a document that promise nothing.
var dropped = []string{
	"description", "summary", "example", "examples", "title", "tags", "security", "x-codeSamples", "x-problems", "x-tone", "x-scope", "x-scopes",
	"x-audit", "x-event", "x-sdk", "x-role",
}

// strip removes what promises nothing. named means that the members of the node have names of their own.
func strip(node any, named bool) {
	switch n := node.(type) {
	case object:
		for _, name := range slices.SortedFunc(maps.Keys(n), cmp.Compare[string]) {
			if !named && slices.Contains(dropped, name) {
				delete(n, name)
				continue
			}
			// Problems may grow and are read by their codes.
			if status := strings.TrimPrefix(name, "Problem."); !named && len(name) == 3 && (name[0] == '4' || name[0] == '5') || status != name {
				delete(n, name)
				continue
			}
			strip(n[name], !named && (name == "properties" || name == "schemas" || name == "paths" || name == "webhooks"))
		}
	case []any:
		for _, one := range n {
			strip(one, false)
		}
	}
}
