package call

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Args are arguments that satisfy their method, in one form whatever form they came in: defaults filled in, in order.
type Args struct {
	spec *Spec
	// json is the object of all arguments; spans are the values in it, by position, empty where there is none.
	json  []byte
	spans []span
}

type span struct{ from, to uint32 }

// JSON is the arguments as an object, its members in positional order. Equal arguments are equal bytes.
func (a Args) JSON() []byte { return a.json }

func (a Args) value(prop int) []byte { return a.json[a.spans[prop].from:a.spans[prop].to] }

// limits of a call's body; the face in front has its own, and these hold without it.
var limits = tape.Limits{Bytes: 1 << 20, Depth: 32, Nodes: 1 << 17}

// positional is the name that holds arguments by position. No argument has it.
const positional = "args"

// Parse reads a body in either form: an object of arguments, or {"args": [...]} by position. An empty body has none.
// With lenient, arguments that the method does not know are dropped. Errors are problems.
func (s *Spec) Parse(body []byte, lenient bool) (Args, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return s.read(body, lenient, "", formBody)
}

// FromObject reads an object of arguments.
func (s *Spec) FromObject(body []byte, lenient bool) (Args, error) {
	return s.read(body, lenient, "", formObject)
}

// FromPositional reads a list of arguments.
func (s *Spec) FromPositional(list []byte, lenient bool) (Args, error) {
	return s.read(list, lenient, "", formList)
}

// form is how arguments are given.
type form uint8

const (
	formBody   form = iota // an object of arguments, or of args alone
	formObject             // by name
	formList               // by position
	formEither             // by name or by position, as the JSON says
)

// read reads JSON in one of the forms.
func (s *Spec) read(text []byte, lenient bool, base string, form form) (Args, error) {
	t, err := tape.Read(text, limits)
	if err != nil {
		if base != "" {
			return Args{}, s.problem([]problem.Field{{Pointer: base, Code: "format", Detail: "must be JSON"}})
		}
		return Args{}, problem.MalformedJSON.New("The body is " + err.Error() + ".")
	}
	defer t.Release()
	r := reader{spec: s, t: t, lenient: lenient, base: base, options: none}
	if name, ok := t.Repeated(tape.Root); ok {
		return Args{}, problem.MalformedJSON.New("A name is repeated within one object.").
			At(base+"/"+escape(cut(t.Text(name))), "repeated", "appears twice")
	}
	switch {
	case form == formBody:
		r.body(tape.Root)
	case form == formList || form == formEither && t.Kind(tape.Root) == tape.Array:
		r.list(tape.Root)
	default:
		r.object(tape.Root)
	}
	return r.finish(len(text))
}

// reader is one call's arguments on their way in.
type reader struct {
	spec    *Spec
	t       *tape.Tape
	lenient bool
	// base is what pointers begin with.
	base string
	// given are the nodes of what was given, by position; 0 is nothing, because the root is no argument.
	given [maxArgs]uint32
	// byPosition means that arguments came in a list; from options on they are named again.
	byPosition bool
	options    int
	named      [maxArgs]bool
	// broken means that the form itself is wrong, so that nothing can be said about single arguments.
	broken bool
	// arg and path are the place of the value that is being looked at.
	arg    int
	path   [maxNesting]step
	depth  int
	out    []byte
	fields []problem.Field
	// strays are ids that are to stand in a path and cannot exist. Ids are opaque to callers, so such a call is in order; what it asks for
	// is not there.
	strays int
}

// maxNesting is how deep a place within an argument is told; the schema of one is not deeper.
const maxNesting = 8

// step leads from a value to a part of it: a name, or an index.
type step struct {
	name  string
	index int
}

// body tells the two forms of a body apart.
func (r *reader) body(at uint32) {
	if r.t.Kind(at) == tape.Object {
		if list, _, ok := r.t.Find(at, positional, 0); ok {
			r.base += "/" + positional
			if r.t.Len(at) > 1 {
				r.refuse("conflict", "stands alone: give arguments by position or by name, not both")
				return
			}
			r.list(list)
			return
		}
	}
	r.object(at)
}

// refuse refuses the form as a whole.
func (r *reader) refuse(code, detail string) {
	r.broken = true
	r.add(r.base, code, detail)
}

// object takes arguments by name.
func (r *reader) object(at uint32) {
	if r.t.Kind(at) != tape.Object {
		r.refuse("type", "must be an object of arguments")
		return
	}
	for name, value := range r.t.Members(at) {
		if i, ok := r.find(name); ok {
			r.given[i], r.named[i] = value, true
		}
	}
}

// find looks an argument up by its name, and complains about one that there is not.
func (r *reader) find(name uint32) (int, bool) {
	i, ok := r.spec.lookup(r.t, name)
	if !ok && !r.lenient {
		base := r.base
		if r.options != none {
			base += "/" + strconv.Itoa(r.options)
		}
		r.add(base+"/"+escape(cut(r.t.Text(name))), "unknown", r.spec.known())
	}
	return i, ok
}

func (s *Spec) lookup(t *tape.Tape, name uint32) (int, bool) {
	if t.Node(name).Escaped {
		i, ok := s.index[t.Text(name)]
		return i, ok
	}
	i, ok := s.index[string(t.Raw(name))]
	return i, ok
}

// known says what a method takes.
func (s *Spec) known() string {
	if len(s.props) == 0 {
		return "is not an argument: " + s.name + " takes none"
	}
	return "is not an argument: " + s.name + " takes " + strings.Join(s.Names(), ", ")
}

// list takes arguments by position. null is an argument that was left out; an object at the end, where no object is
// expected, names further ones.
func (r *reader) list(at uint32) {
	if r.t.Kind(at) != tape.Array {
		r.refuse("type", "must be a list of arguments")
		return
	}
	r.byPosition = true
	count := r.t.Len(at)
	i := 0
	for item := range r.t.Items(at) {
		last := i == count-1
		object := r.t.Kind(item) == tape.Object
		fits := i < len(r.spec.props)
		switch {
		case last && object && (!fits || r.spec.props[i].check.kind != kindObject):
			r.takeOptions(i, item)
		case !fits:
			r.add(r.base+"/"+strconv.Itoa(i), "unknown", "is one too many: "+r.spec.name+" takes "+strconv.Itoa(len(r.spec.props)))
			return
		case r.t.Kind(item) != tape.Null:
			r.given[i] = item
		}
		i++
	}
}

// takeOptions takes arguments by name from the object at the end of a list.
func (r *reader) takeOptions(position int, at uint32) {
	r.options = position
	for name, value := range r.t.Members(at) {
		i, ok := r.find(name)
		switch {
		case !ok:
		case r.given[i] != 0:
			r.add(r.base+"/"+strconv.Itoa(position)+"/"+r.spec.props[i].name, "repeated", "is given by position already")
		default:
			r.given[i], r.named[i] = value, true
		}
	}
}

// place is the pointer of an argument, in the form the caller used.
func (r *reader) place(i int) string {
	name := "/" + r.spec.props[i].name
	switch {
	case !r.byPosition:
		return r.base + name
	case r.named[i]:
		return r.base + "/" + strconv.Itoa(r.options) + name
	}
	return r.base + "/" + strconv.Itoa(i)
}

// finish checks what was given and writes it down. size is that of the text it came in.
func (r *reader) finish(size int) (Args, error) {
	s := r.spec
	if r.broken {
		return Args{}, s.problem(r.fields)
	}
	a := Args{spec: s, spans: make([]span, len(s.props))}
	r.out = append(make([]byte, 0, size+64), '{')
	for i, p := range s.props {
		if r.given[i] == 0 && p.fallback == nil {
			if p.required && len(r.fields) < maxFields {
				r.add(r.place(i), "required", "is required: "+p.name)
			}
			continue
		}
		if len(r.out) > 1 {
			r.out = append(r.out, ',')
		}
		r.out = append(r.out, p.key...)
		from := uint32(len(r.out))
		if r.given[i] == 0 {
			r.out = append(r.out, p.fallback...)
		} else {
			r.arg = i
			r.value(p.check, r.given[i])
		}
		a.spans[i] = span{from, uint32(len(r.out))}
	}
	switch {
	case len(r.fields) > 0 && len(r.fields) == r.strays:
		p := problem.UpstreamNotFound.New("The platform has no such thing: its ids have another form.")
		p.Fields = r.fields
		return Args{}, p
	case len(r.fields) > 0:
		return Args{}, s.problem(r.fields)
	}
	a.json = append(r.out, '}')
	return a, nil
}

func (s *Spec) problem(fields []problem.Field) error {
	p := problem.ValidationFailed.Newf("The arguments are not what %s expects.", s.name)
	p.Fields = fields
	return p
}

// maxFields bounds how much of what is wrong is told.
const maxFields = 20

func (r *reader) add(pointer, code, detail string) {
	if len(r.fields) < maxFields {
		r.fields = append(r.fields, problem.Field{Pointer: pointer, Code: code, Detail: detail})
	}
}

// FromQuery reads arguments from the parameters of a GET: by name, or all of them as JSON in args.
func (s *Spec) FromQuery(values url.Values, lenient bool) (Args, error) {
	if given, ok := values[positional]; ok {
		base := "query/" + positional
		if len(values) > 1 || len(given) > 1 {
			return Args{}, s.problem([]problem.Field{{
				Pointer: base, Code: "conflict", Detail: "stands alone: give arguments as JSON or by name, not both",
			}})
		}
		return s.read([]byte(given[0]), lenient, base, formEither)
	}
	text := append(make([]byte, 0, 256), '{')
	var fields []problem.Field
	for _, name := range sortedNames(values) {
		plain, bracket := strings.CutSuffix(name, "[]")
		i, ok := s.index[plain]
		if ok && bracket {
			ok = s.props[i].check.kind == kindArray && values[plain] == nil
		}
		if !ok {
			if !lenient && len(fields) < maxFields {
				fields = append(fields, problem.Field{Pointer: "query/" + escape(cut(name)), Code: "unknown", Detail: s.known()})
			}
			continue
		}
		p := s.props[i]
		if p.check.kind != kindArray && len(values[name]) != 1 {
			fields = append(fields, problem.Field{Pointer: "query/" + p.name, Code: "repeated", Detail: "is given more than once"})
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, p.key...)
		text = p.check.appendQuery(text, values[name], bracket)
	}
	if len(fields) > 0 {
		return Args{}, s.problem(fields)
	}
	return s.read(append(text, '}'), lenient, "query", formObject)
}

// sortedNames makes the answer to a bad query the same every time.
func sortedNames(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendQuery writes parameters as the JSON value they stand for. What does not fit its type becomes a text, which the
// check then refuses. One value of a list may hold several with commas; several values, and those of name[], are taken as
// they are.
func (c *check) appendQuery(dst []byte, values []string, bracket bool) []byte {
	if c.kind != kindArray {
		return c.appendParameter(dst, values[0])
	}
	if len(values) == 1 && !bracket {
		if values[0] == "" {
			return append(dst, "[]"...)
		}
		values = strings.Split(values[0], ",")
	}
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.item.appendParameter(dst, v)
	}
	return append(dst, ']')
}

func (c *check) appendParameter(dst []byte, v string) []byte {
	switch c.kind {
	case kindInteger, kindNumber:
		if decimal(v, c.kind == kindNumber) {
			return append(dst, v...)
		}
	case kindBoolean:
		switch v {
		case "true", "1":
			return append(dst, "true"...)
		case "false", "0":
			return append(dst, "false"...)
		}
	case kindString, kindArray, kindObject:
	}
	return tape.AppendQuoted(dst, v)
}

// decimal says whether a text is a plain decimal number.
func decimal(v string, fraction bool) bool {
	v = strings.TrimPrefix(v, "-")
	whole, rest, point := strings.Cut(v, ".")
	if point && (!fraction || rest == "" || !digitsOnly(rest)) {
		return false
	}
	return whole != "" && digitsOnly(whole) && (whole == "0" || whole[0] != '0')
}

func digitsOnly(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return true
}

// maxEcho bounds a name of the caller's that is told back.
const maxEcho = 64

func cut(name string) string {
	if len(name) > maxEcho {
		return strings.ToValidUTF8(name[:maxEcho], "") + "…"
	}
	return name
}

// escape writes a name as a part of a JSON pointer (RFC 6901).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
