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

// Args are valid arguments of a method in canonical form: an object in positional order, with defaults filled in. The
// form in which they were given leaves no trace.
type Args struct {
	spec *Spec
	// json is the object of all arguments. spans locates each value in it, by position; a span is empty if the argument
	// is absent.
	json  []byte
	spans []span
}

type span struct{ from, to uint32 }

// JSON returns the arguments as an object with its members in positional order. Equal arguments give equal bytes.
func (a Args) JSON() []byte { return a.json }

func (a Args) value(prop int) []byte { return a.json[a.spans[prop].from:a.spans[prop].to] }

// limits bound the body of a call. The API server has limits of its own; these also protect other callers.
var limits = tape.Limits{Bytes: 1 << 20, Depth: 32, Nodes: 1 << 17}

// positional is the member or query parameter that holds positional arguments. No argument may have this name.
const positional = "args"

// Parse reads a body: an object of arguments, or {"args": [...]} with positional arguments. An empty body has none. If
// lenient, unknown arguments are dropped instead of rejected. Errors are problems.
func (s *Spec) Parse(body []byte, lenient bool) (Args, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return s.parseForm(body, lenient, "", formBody)
}

func (s *Spec) FromObject(body []byte, lenient bool) (Args, error) {
	return s.parseForm(body, lenient, "", formObject)
}

func (s *Spec) FromPositional(list []byte, lenient bool) (Args, error) {
	return s.parseForm(list, lenient, "", formList)
}

// form is a form in which arguments can be given.
type form uint8

const (
	formBody   form = iota // an object of arguments, or an object with only the member args
	formObject             // an object of arguments
	formList               // an array of positional arguments
	formEither             // formObject or formList, depending on the JSON
)

// parseForm reads JSON in the given form. base is the prefix of pointers in errors.
func (s *Spec) parseForm(text []byte, lenient bool, base string, form form) (Args, error) {
	t, err := tape.Read(text, limits)
	if err != nil {
		if base != "" {
			return Args{}, s.problem([]problem.Field{{Pointer: base, Code: "format", Detail: "must be JSON"}})
		}
		return Args{}, problem.MalformedJSON.New("The body is " + err.Error() + ".")
	}
	defer t.Release()
	r := reader{spec: s, t: t, lenient: lenient, base: base, options: none}
	// Two parsers could choose different values of a repeated name, so reject it.
	if name, ok := t.Repeated(tape.Root); ok {
		return Args{}, problem.MalformedJSON.New("A name is repeated within one object.").
			At(base+"/"+escape(truncate(t.Text(name))), "repeated", "appears twice")
	}
	switch {
	case form == formBody:
		r.readBody(tape.Root)
	case form == formList || form == formEither && t.Kind(tape.Root) == tape.Array:
		r.readList(tape.Root)
	default:
		r.readObject(tape.Root)
	}
	return r.buildArgs(len(text))
}

// reader reads the arguments of one call. It first collects the given values (readBody and the like) and then validates
// them and writes the canonical form (buildArgs). Errors accumulate in fields.
type reader struct {
	spec    *Spec
	t       *tape.Tape
	lenient bool
	// base is the prefix of pointers.
	base string
	// given are the nodes of the given values, by position. 0 means absent: it is the root, which is never an argument.
	given [maxArgs]uint32
	// byPosition means that the arguments came in an array. options is the index of the object of named arguments at
	// its end, or none. named marks the arguments that were given by name. All three serve to build pointers.
	byPosition bool
	options    int
	named      [maxArgs]bool
	// malformed means that the form itself is invalid, so that single arguments are not checked.
	malformed bool
	// arg, path and depth locate the value that is being checked.
	arg    int
	path   [maxNesting]step
	depth  int
	out    []byte
	fields []problem.Field
	// impossibleIDs counts path arguments that cannot be ids of the platform. Ids are opaque to callers, so such a
	// call is answered like a call with an unknown id: not found, instead of invalid.
	impossibleIDs int
}

// maxNesting bounds the steps of a pointer inside an argument. No schema of an argument is nested deeper.
const maxNesting = 8

// step is a step of a pointer: the name of a member, or the index of an item if name is empty.
type step struct {
	name  string
	index int
}

// readBody distinguishes the two forms of a body.
func (r *reader) readBody(at uint32) {
	if r.t.Kind(at) == tape.Object {
		if list, _, ok := r.t.Find(at, positional, 0); ok {
			r.base += "/" + positional
			if r.t.Len(at) > 1 {
				r.rejectForm("conflict", "must be the only member: give arguments by position or by name, not both")
				return
			}
			r.readList(list)
			return
		}
	}
	r.readObject(at)
}

// rejectForm rejects the arguments as a whole.
func (r *reader) rejectForm(code, detail string) {
	r.malformed = true
	r.addField(r.base, code, detail)
}

// readObject collects named arguments.
func (r *reader) readObject(at uint32) {
	if r.t.Kind(at) != tape.Object {
		r.rejectForm("type", "must be an object of arguments")
		return
	}
	for name, value := range r.t.Members(at) {
		if i, ok := r.findArg(name); ok {
			r.given[i], r.named[i] = value, true
		}
	}
}

// findArg returns the position of an argument by its name. Unless lenient, it records an error for an unknown name.
func (r *reader) findArg(name uint32) (int, bool) {
	i, ok := r.spec.lookup(r.t, name)
	if !ok && !r.lenient {
		base := r.base
		if r.options != none {
			base += "/" + strconv.Itoa(r.options)
		}
		r.addField(base+"/"+escape(truncate(r.t.Text(name))), "unknown", r.spec.describeArgs())
	}
	return i, ok
}

// lookup returns the position of the argument whose name is at a node. It does not allocate unless the name is escaped.
func (s *Spec) lookup(t *tape.Tape, name uint32) (int, bool) {
	if t.Node(name).Escaped {
		i, ok := s.index[t.Text(name)]
		return i, ok
	}
	i, ok := s.index[string(t.Raw(name))]
	return i, ok
}

// describeArgs returns the detail of an error about an unknown argument, which lists the known ones.
func (s *Spec) describeArgs() string {
	if len(s.props) == 0 {
		return "is not an argument: " + s.name + " takes none"
	}
	return "is not an argument: " + s.name + " takes " + strings.Join(s.Names(), ", ")
}

// readList collects positional arguments. null stands for an argument that is not given. An object as the last item,
// where no object argument is expected, holds further arguments by name.
func (r *reader) readList(at uint32) {
	if r.t.Kind(at) != tape.Array {
		r.rejectForm("type", "must be a list of arguments")
		return
	}
	r.byPosition = true
	count := r.t.Len(at)
	i := 0
	for item := range r.t.Items(at) {
		// An object as the last item is ambiguous only if the method expects an object there; then it is the argument.
		last := i == count-1
		object := r.t.Kind(item) == tape.Object
		fits := i < len(r.spec.props)
		switch {
		case last && object && (!fits || r.spec.props[i].check.kind != kindObject):
			r.readOptions(i, item)
		case !fits:
			r.addField(r.base+"/"+strconv.Itoa(i), "unknown", "is one too many: "+r.spec.name+" takes "+strconv.Itoa(len(r.spec.props)))
			return
		case r.t.Kind(item) != tape.Null:
			r.given[i] = item
		}
		i++
	}
}

// readOptions collects named arguments from the object at the end of an array.
func (r *reader) readOptions(position int, at uint32) {
	r.options = position
	for name, value := range r.t.Members(at) {
		i, ok := r.findArg(name)
		switch {
		case !ok:
		case r.given[i] != 0:
			r.addField(r.base+"/"+strconv.Itoa(position)+"/"+r.spec.props[i].name, "repeated", "is already given by position")
		default:
			r.given[i], r.named[i] = value, true
		}
	}
}

// pointer returns the JSON pointer of an argument, in the form that the caller used.
func (r *reader) pointer(i int) string {
	name := "/" + r.spec.props[i].name
	switch {
	case !r.byPosition:
		return r.base + name
	case r.named[i]:
		return r.base + "/" + strconv.Itoa(r.options) + name
	}
	return r.base + "/" + strconv.Itoa(i)
}

// buildArgs validates the given arguments and writes their canonical form. size is the length of the source in bytes.
func (r *reader) buildArgs(size int) (Args, error) {
	s := r.spec
	if r.malformed {
		return Args{}, s.problem(r.fields)
	}
	// Write the values in positional order, whatever their order in the source, and remember where each one is. The
	// values are validated in the same pass; if there are errors, the output is discarded.
	a := Args{spec: s, spans: make([]span, len(s.props))}
	r.out = append(make([]byte, 0, size+64), '{')
	for i, p := range s.props {
		if r.given[i] == 0 && p.fallback == nil {
			if p.required && len(r.fields) < maxFields {
				r.addField(r.pointer(i), "required", "is required: "+p.name)
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
			r.checkValue(p.check, r.given[i])
		}
		a.spans[i] = span{from, uint32(len(r.out))}
	}
	switch {
	// If impossible ids are the only errors, the call is valid but can find nothing. It need not be sent.
	case len(r.fields) > 0 && len(r.fields) == r.impossibleIDs:
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

// maxFields bounds the errors that one response lists.
const maxFields = 20

func (r *reader) addField(pointer, code, detail string) {
	if len(r.fields) < maxFields {
		r.fields = append(r.fields, problem.Field{Pointer: pointer, Code: code, Detail: detail})
	}
}

// FromQuery reads arguments from the query of a GET: one parameter per argument, or all of them as JSON in args. It
// writes the parameters as a JSON object first, so that both forms pass the same checks.
func (s *Spec) FromQuery(values url.Values, lenient bool) (Args, error) {
	if given, ok := values[positional]; ok {
		base := "query/" + positional
		if len(values) > 1 || len(given) > 1 {
			return Args{}, s.problem([]problem.Field{{
				Pointer: base, Code: "conflict", Detail: "must be the only parameter: give arguments as JSON or by name, not both",
			}})
		}
		return s.parseForm([]byte(given[0]), lenient, base, formEither)
	}
	text := append(make([]byte, 0, 256), '{')
	var fields []problem.Field
	for _, name := range sortedNames(values) {
		// name[] is accepted for arrays, unless name is given as well.
		plain, bracket := strings.CutSuffix(name, "[]")
		i, ok := s.index[plain]
		if ok && bracket {
			ok = s.props[i].check.kind == kindArray && values[plain] == nil
		}
		if !ok {
			if !lenient && len(fields) < maxFields {
				fields = append(fields, problem.Field{Pointer: "query/" + escape(truncate(name)), Code: "unknown", Detail: s.describeArgs()})
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
	return s.parseForm(append(text, '}'), lenient, "query", formObject)
}

// sortedNames returns the names of the parameters in order, so that equal queries give equal errors.
func sortedNames(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendQuery writes the values of a parameter as JSON. A value that does not fit the type becomes a string, which the
// check then rejects. A single value of an array is split at commas; several values, and values of name[], are not.
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

// appendParameter writes one value as JSON of the declared type, or as a string if it does not fit.
func (c *check) appendParameter(dst []byte, v string) []byte {
	switch c.kind {
	case kindInteger, kindNumber:
		if isDecimal(v, c.kind == kindNumber) {
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

// isDecimal reports whether a text is a decimal number without exponent, and without fraction unless allowed.
func isDecimal(v string, fraction bool) bool {
	v = strings.TrimPrefix(v, "-")
	whole, rest, point := strings.Cut(v, ".")
	if point && (!fraction || rest == "" || !isDigits(rest)) {
		return false
	}
	return whole != "" && isDigits(whole) && (whole == "0" || whole[0] != '0')
}

func isDigits(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return true
}

// maxEchoedName bounds the bytes of a caller's name that an error repeats.
const maxEchoedName = 64

func truncate(name string) string {
	if len(name) > maxEchoedName {
		return strings.ToValidUTF8(name[:maxEchoedName], "") + "…"
	}
	return name
}

// escape returns a name as a token of a JSON pointer (RFC 6901).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
