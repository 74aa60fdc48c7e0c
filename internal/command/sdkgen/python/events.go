package python

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// events writes a typed dictionary for each kind of event, and their union, which type checkers narrow by `event`.
func (p *generator) events() {
	envelope := p.model.Type(model.EventType)
	if envelope == nil {
		p.fail("the model has no type %s", model.EventType)
		return
	}
	f := newFile()
	f.use("typing", "Literal")
	names := []string{model.EventType, "EventKind"}
	for _, e := range p.model.Events {
		name := model.Title(e.Kind) + model.EventType
		names = append(names, name)
		p.object(f, name, e.Doc, p.eventFields(f, envelope, e), func(f model.Field) string { return f.JSON })
	}
	f.use("typing", "Union")
	f.printf("\n\nEvent = Union[\n")
	for _, name := range names[2:] {
		f.printf("    %s,\n", name)
	}
	f.printf("]\n%s",
		docstring("Any event. Comparing `event[\"event\"]` with a kind narrows the type of `event[\"data\"]`. "+
			"A newer server may send kinds that are not listed here: ignore unknown kinds.", 0))
	f.printf("\nEventKind = Literal[\n")
	for _, e := range p.model.Events {
		f.printf("    %q,\n", e.Kind)
	}
	f.printf("]\n%s", docstring("The kinds of events.", 0))
	p.exports(f, names)
	p.save("stagedoor/events.py", "Events, as typed dictionaries.", f)
}

// eventFields returns the envelope's members with the types for one kind.
func (p *generator) eventFields(f *file, envelope *model.Type, e *model.Event) []model.Field {
	var fields []model.Field
	for _, field := range envelope.Fields {
		switch field.JSON {
		case "event":
			field.Type = model.Ref{Kind: model.String, Enum: []string{e.Kind}}
		case "data":
			field.Type, field.Doc = e.Data, ""
		case "accountId":
			if !e.Org {
				field.Type.Nullable = false
			}
		}
		for _, name := range refNames(field.Type) {
			f.check(".types", name)
		}
		field.Doc = ""
		fields = append(fields, field)
	}
	return fields
}

// problems writes the problem codes and the scopes.
func (p *generator) problems() {
	f := newFile()
	f.use("typing", "Literal")
	f.printf("\nProblemCode = Literal[\n")
	for _, problem := range p.model.Problems {
		f.printf("    %q,\n", problem.Code)
	}
	f.printf("]\n%s", docstring("The problem codes. A newer server may send others.", 0))
	f.printf("\nScope = Literal[\n    %s,\n]\n", strings.ReplaceAll(quoted(p.model.Scopes), ", ", ",\n    "))
	f.printf("%s", docstring("The scopes of API keys.", 0))
	p.save("stagedoor/problems.py", "Problem codes and scopes.", f)
}
