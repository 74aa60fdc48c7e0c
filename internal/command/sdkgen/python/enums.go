package python

import (
	"maps"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// longEnum is how many values an enumeration has that gets a name of its own.
const longEnum = 4

// nameEnums finds the enumerations that are long, and names each by the shortest place where it stands: the states of an account
// are AccountState, whichever event or answer has them.
func (p *python) nameEnums() {
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

func (p *python) nameFields(place string, fields []model.Field) {
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

// aliases writes them.
func (p *python) aliases(f *pythonFile) {
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

// imported lists what a reference needs of types.py.
func (p *python) imported(r model.Ref) []string {
	names := refNames(r)
	for r.Elem != nil {
		r = *r.Elem
	}
	if alias := p.enums[strings.Join(r.Enum, ",")]; alias != "" && r.Kind == model.String {
		names = append(names, alias)
	}
	return names
}
