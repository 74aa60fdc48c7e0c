package python

import (
	"maps"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// longEnum is the number of values from which on an enumeration gets a name.
const longEnum = 4

// nameEnums names the long enumerations. One that is used in several places gets the shortest name: the states of an
// account are AccountState in all events and results.
func (p *generator) nameEnums() {
	p.enums = map[string]string{}
	reached := p.reached()
	for _, t := range p.model.Types {
		if reached[t.Name] {
			p.nameFields(t.Name, t.Fields)
		}
	}
	for _, c := range p.calls() {
		if c.params != nil {
			p.nameFields(model.Title(c.owner, c.name), c.params.Fields)
		}
	}
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.enums)) {
		name := p.enums[key]
		for p.model.Type(name) != nil || taken[name] {
			name += "Value"
		}
		p.enums[key], taken[name] = name, true
	}
}

func (p *generator) nameFields(place string, fields []model.Field) {
	for _, field := range fields {
		r := field.Type
		for r.Elem != nil {
			r = *r.Elem
		}
		if r.Kind != model.String || len(r.Enum) < longEnum {
			continue
		}
		key, name := strings.Join(r.Enum, ","), model.Title(place, field.JSON)
		if have := p.enums[key]; have == "" || len(name) < len(have) {
			p.enums[key] = name
		}
	}
}

// aliases writes the named enumerations.
func (p *generator) aliases(f *file) {
	byName := map[string]string{}
	for key, name := range p.enums {
		byName[name] = key
	}
	f.use("typing", "Literal")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		values := strings.Split(quoted(strings.Split(byName[name], ",")), ", ")
		f.printf("\n%s", fold(name+" = Literal[", values, "]", ""))
	}
}

// imported returns the names that a type needs from types.py.
func (p *generator) imported(r model.Ref) []string {
	names := refNames(r)
	for r.Elem != nil {
		r = *r.Elem
	}
	if alias := p.enums[strings.Join(r.Enum, ",")]; alias != "" && r.Kind == model.String {
		names = append(names, alias)
	}
	return names
}
