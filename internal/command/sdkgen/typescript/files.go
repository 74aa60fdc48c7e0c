// Package typescript generates the TypeScript library. Start at Files.
package typescript

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// byHand lists the operations that the TypeScript client implements by hand, because they stream or transfer
// files. Generation fails for such an operation that is not listed, so that none is forgotten.
var byHand = map[string]string{
	"streamAttempt":   "src/connect.ts",
	"getAttemptQR":    "src/connect.ts",
	"fetchMedia":      "src/media.ts",
	"uploadMedia":     "src/media.ts",
	"uploadMediaPart": "src/media.ts",
	"downloadMedia":   "src/media.ts",
	"getJobResult":    "src/jobs.ts",
	"putJobItems":     "src/jobs.ts",
}

// Files of shared types and of events.
const (
	typesFile  = "types"
	eventsFile = "events"
)

// Files returns client/typescript/src/gen.
func Files(m *model.Model) (map[string][]byte, error) {
	ts := &generator{model: m, files: map[string]*file{}}
	ts.fileOf = ts.assignFiles()
	for _, t := range m.Types {
		if t.Name != model.EventType && ts.fileOf[t.Name] != "" {
			ts.typ(ts.file(ts.fileOf[t.Name]), t)
		}
	}
	for _, r := range m.Resources {
		ts.resource(r)
	}
	for _, g := range m.Groups {
		if err := ts.group(g); err != nil {
			return nil, err
		}
	}
	ts.events()
	ts.problems()
	ts.account()
	ts.client()
	ts.index()
	out := map[string][]byte{}
	for name, f := range ts.files {
		out["src/gen/"+name+".ts"] = f.bytes(name)
	}
	return out, nil
}

// generator holds the files so far.
type generator struct {
	model *model.Model
	// files holds the files so far, fileOf the file of each type; both by name without .ts.
	files  map[string]*file
	fileOf map[string]string
}

func (ts *generator) file(name string) *file {
	f := ts.files[name]
	if f == nil {
		f = &file{types: map[string]map[string]bool{}, values: map[string]map[string]bool{}}
		ts.files[name] = f
	}
	return f
}

// assignFiles decides which file declares each type. Parameters are declared next to their method and event data next
// to the events. Results, and types that several files use, are in the file of types.
func (ts *generator) assignFiles() map[string]string {
	users := map[string]map[string]bool{}
	use := func(r model.Ref, file string) { ts.recordUse(r, file, users) }
	param := func(t *model.Type, file string) {
		if t != nil {
			use(model.Ref{Kind: model.Named, Name: t.Name}, file)
		}
	}
	for _, r := range ts.model.Resources {
		for _, m := range r.Methods {
			param(m.Params, resourceFile(r))
			use(m.Result, typesFile)
		}
	}
	for _, g := range ts.model.Groups {
		for _, o := range g.Operations {
			if o.Form == model.JSON {
				param(o.Params, groupFile(g))
			}
			if o.Form == model.JSON || o.Form == model.Upload {
				use(o.Result, typesFile)
			}
		}
	}
	for _, e := range ts.model.Events {
		use(e.Data, eventsFile)
	}
	for _, always := range []string{"Attempt", "EventMeta"} {
		use(model.Ref{Kind: model.Named, Name: always}, typesFile)
	}
	fileOf := map[string]string{}
	for _, t := range ts.model.Types {
		files := slices.Sorted(maps.Keys(users[t.Name]))
		switch len(files) {
		case 0:
		case 1:
			fileOf[t.Name] = files[0]
		default:
			fileOf[t.Name] = typesFile
		}
	}
	// The file of types imports only events, so the types that it refers to must be in it too.
	for _, t := range ts.model.Types {
		if fileOf[t.Name] == typesFile {
			ts.moveToTypes(t, fileOf)
		}
	}
	return fileOf
}

// moveToTypes assigns the types of t's fields to the file of types.
func (ts *generator) moveToTypes(t *model.Type, fileOf map[string]string) {
	for _, f := range t.Fields {
		r := innermost(f.Type)
		if inner := ts.model.Type(r.Name); inner != nil && fileOf[inner.Name] != typesFile {
			fileOf[inner.Name] = typesFile
			ts.moveToTypes(inner, fileOf)
		}
	}
}

// recordUse records that a file uses a type and, recursively, the types of its fields.
func (ts *generator) recordUse(r model.Ref, file string, users map[string]map[string]bool) {
	r = innermost(r)
	t := ts.model.Type(r.Name)
	if r.Kind != model.Named || t == nil || users[t.Name][file] {
		return
	}
	if users[t.Name] == nil {
		users[t.Name] = map[string]bool{}
	}
	users[t.Name][file] = true
	for _, f := range t.Fields {
		ts.recordUse(f.Type, file, users)
	}
}

// innermost returns the innermost element type of arrays and maps, or r itself.
func innermost(r model.Ref) model.Ref {
	for r.Elem != nil {
		r = *r.Elem
	}
	return r
}

func resourceFile(r *model.Resource) string { return "resources/" + r.Name }

func groupFile(g *model.Group) string { return "groups/" + g.Name }

// file is a file that is being written.
type file struct {
	// types and values are imported names, by the file that exports them. types are imported as types only.
	types, values map[string]map[string]bool
	text          strings.Builder
	// exports makes the index export the file's types.
	exports bool
}

func (f *file) printf(format string, args ...any) { fmt.Fprintf(&f.text, format, args...) }

func (f *file) importType(name, from string)  { addImport(f.types, name, from) }
func (f *file) importValue(name, from string) { addImport(f.values, name, from) }

func addImport(list map[string]map[string]bool, name, from string) {
	if list[from] == nil {
		list[from] = map[string]bool{}
	}
	list[from][name] = true
}

// bytes returns the complete file: header, imports, text.
func (f *file) bytes(name string) []byte {
	var b strings.Builder
	b.WriteString("// " + model.Header + "\n\n")
	up := strings.Repeat("../", strings.Count(name, "/"))
	if up == "" {
		up = "./"
	}
	froms := map[string]bool{}
	for from := range f.types {
		froms[from] = true
	}
	for from := range f.values {
		froms[from] = true
	}
	delete(froms, name)
	for _, from := range slices.Sorted(maps.Keys(froms)) {
		path := up + from + ".js"
		if strings.HasPrefix(from, "../") && up == "./" {
			path = from + ".js"
		}
		values, types := slices.Sorted(maps.Keys(f.values[from])), slices.Sorted(maps.Keys(f.types[from]))
		if len(values) == 0 {
			b.WriteString(nameList("import type { ", types, " } from \""+path+"\";"))
			continue
		}
		for _, t := range types {
			values = append(values, "type "+t)
		}
		b.WriteString(nameList("import { ", values, " } from \""+path+"\";"))
	}
	if len(froms) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(strings.TrimRight(f.text.String(), "\n") + "\n")
	return []byte(b.String())
}

// maxWidth is the maximum length of a line.
const maxWidth = 120

// nameList writes names between two texts, on one line if they fit.
func nameList(before string, names []string, after string) string {
	if line := before + strings.Join(names, ", ") + after; len(line) <= maxWidth {
		return line + "\n"
	}
	return strings.TrimRight(before, " ") + "\n  " + strings.Join(names, ",\n  ") + ",\n" + strings.TrimLeft(after, " ") + "\n"
}
