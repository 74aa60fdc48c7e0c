package call

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Request is a request to the platform. The driver adds scheme, host and the session's headers. It prints as its method
// only, because any other part may contain secrets.
type Request struct {
	Method string
	// Path is escaped and starts with a slash.
	Path string
	// Query is escaped and has no question mark. It is empty if there is none.
	Query string
	// Header is nil if there is none.
	Header http.Header
	// Body is JSON, or nil if there is none.
	Body []byte
}

// String hides the contents: arguments, codes and passwords may be in any part of a request.
func (r Request) String() string { return r.Method + " [request]" }

// GoString hides the contents in %#v.
func (r Request) GoString() string { return r.String() }

// LogValue hides the contents in log lines.
func (r Request) LogValue() slog.Value { return slog.StringValue(r.String()) }

// The conversions of docs/manifest.md.
const (
	asID    = "id"
	asCents = "cents"
	asTime  = "time"
	asUnix  = "unix"
	asMilli = "unixms"
	asFlag  = "flag"
	asCSV   = "csv"
)

// Request builds the request. The parameters of the query and the members of the body are in the order of the manifest,
// and arguments that were not given are omitted.
func (a Args) Request() Request {
	s := a.spec
	b, _ := binders.Get().(*binder)
	b.args = a
	b.out = b.out[:0]
	// Path and query share one string, which saves an allocation.
	b.appendPath()
	path := len(b.out)
	b.appendQuery()
	text := string(b.out)
	req := Request{Method: s.verb, Path: text[:path], Query: text[path:]}
	for _, t := range s.header {
		value := t.text
		if t.prop != none {
			given := a.value(t.prop)
			if len(given) == 0 {
				continue
			}
			b.scratch = appendPlain(b.scratch[:0], s.props[t.prop].check, given)
			value = string(b.scratch)
		}
		if req.Header == nil {
			req.Header = make(http.Header, len(s.header))
		}
		req.Header.Set(t.name, value)
	}
	if s.body != nil {
		b.out = append(b.out[:0], s.opening...)
		b.appendMembers(s.body.children)
		b.out = append(b.out, s.closing...)
		req.Body = bytes.Clone(b.out)
	}
	b.args = Args{}
	if cap(b.out)+cap(b.scratch) <= maxPooledBytes {
		binders.Put(b)
	}
	return req
}

// FormField is a field of a form that is not a file.
type FormField struct{ Name, Value string }

// FormFields returns the fields of the form that a method with upload: true sends instead of a JSON body, without the
// file.
func (a Args) FormFields() []FormField {
	if a.spec.body == nil {
		return nil
	}
	var list []FormField
	for _, n := range a.spec.body.children {
		if n.constant != nil {
			list = append(list, FormField{n.name, string(unquoteScalar(n.constant))})
		} else if value := a.value(n.prop); len(value) > 0 {
			list = append(list, FormField{n.name, string(appendPlain(nil, a.spec.props[n.prop].check, value))})
		}
	}
	return list
}

// FormNames returns the names of the fields that FormFields can return.
func (s *Spec) FormNames() []string {
	if s.body == nil {
		return nil
	}
	var names []string
	for _, n := range s.body.children {
		names = append(names, n.name)
	}
	return names
}

// unquoteScalar returns the text of a JSON string, or any other scalar as written.
func unquoteScalar(value []byte) []byte {
	if value[0] == '"' {
		return unquote(value)
	}
	return value
}

// maxPooledBytes bounds the buffers that return to the pool.
const maxPooledBytes = 64 << 10

// binder builds one request. Binders are pooled for their buffers.
type binder struct {
	args         Args
	out, scratch []byte
}

var binders = sync.Pool{New: func() any { return &binder{} }}

func (b *binder) appendPath() {
	for _, seg := range b.args.spec.path {
		b.out = append(b.out, seg.text...)
		if seg.prop != none {
			b.scratch = appendPlain(b.scratch[:0], b.args.spec.props[seg.prop].check, b.args.value(seg.prop))
			b.out = appendEscaped(b.out, b.scratch)
		}
	}
}

func (b *binder) appendQuery() {
	start := len(b.out)
	for _, t := range b.args.spec.query {
		if t.prop == none {
			b.scratch = append(b.scratch[:0], t.text...)
			b.appendParameter(start, t.name)
			continue
		}
		value := b.args.value(t.prop)
		if len(value) == 0 {
			continue
		}
		c := b.args.spec.props[t.prop].check
		if c.kind != kindArray || c.as == asCSV {
			b.scratch = appendPlain(b.scratch[:0], c, value)
			b.appendParameter(start, t.name)
			continue
		}
		list := mustRead(value)
		for item := range list.Items(tape.Root) {
			b.scratch = appendPlain(b.scratch[:0], c.item, list.Literal(item))
			b.appendParameter(start, t.name)
		}
		list.Release()
	}
}

// appendParameter appends a query parameter whose value is in b.scratch. start is where the query begins in b.out.
func (b *binder) appendParameter(start int, name string) {
	if len(b.out) > start {
		b.out = append(b.out, '&')
	}
	b.out = append(b.out, name...)
	b.out = append(b.out, '=')
	b.out = appendEscaped(b.out, b.scratch)
}

// mustRead parses JSON that this package has written, so failure is a bug.
func mustRead(value []byte) *tape.Tape {
	t, err := tape.Read(value, limits)
	if err != nil {
		panic("call: canonical arguments are not JSON: " + err.Error())
	}
	return t
}

// appendPlain appends a converted value as it appears in a path, query or header: a string without quotes.
func appendPlain(dst []byte, c *check, value []byte) []byte {
	if c.as == asCSV {
		list := mustRead(value)
		defer list.Release()
		for item := range list.Items(tape.Root) {
			if item != tape.Root+1 {
				dst = append(dst, ',')
			}
			dst = appendPlain(dst, c.item, list.Literal(item))
		}
		return dst
	}
	from := len(dst)
	dst = appendScalar(dst, c, value)
	if len(dst) > from && dst[from] == '"' {
		return append(dst[:from], unquote(dst[from:])...)
	}
	return dst
}

// unquote returns the text of a JSON string. The result may alias the argument.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	t := mustRead(bytes.Clone(quoted))
	defer t.Release()
	return t.AppendText(nil, tape.Root)
}

// appendScalar converts a value that is neither an array nor an object to the platform's JSON.
func appendScalar(dst []byte, c *check, value []byte) []byte {
	// value is canonical JSON, so bytes can be compared.
	for i := range c.values {
		if bytes.Equal(c.values[i].ours, value) {
			return append(dst, c.values[i].theirs...)
		}
	}
	switch c.as {
	case asID:
		if c.ids != nil {
			return append(dst, value...)
		}
		return append(dst, value[1:len(value)-1]...)
	case asCents:
		return convert.AppendMajor(dst, value)
	case asTime, asUnix, asMilli:
		at, _ := convert.ParseTime(unquote(value)) // valid: format date-time was checked
		switch c.as {
		case asUnix:
			return convert.AppendUnix(dst, at)
		case asMilli:
			return strconv.AppendInt(dst, at.UnixMilli(), 10)
		}
		dst = append(dst, '"')
		dst = convert.AppendTime(dst, at)
		return append(dst, '"')
	case asFlag:
		if value[0] == 't' {
			return append(dst, '1')
		}
		return append(dst, '0')
	}
	return append(dst, value...)
}

// appendJSON converts a value to the platform's JSON, for the body.
func appendJSON(dst []byte, c *check, value []byte) []byte {
	switch {
	case c.as == asCSV:
		return tape.AppendQuoted(dst, appendPlain(nil, c, value))
	case c.kind == kindArray:
		list := mustRead(value)
		defer list.Release()
		dst = append(dst, '[')
		for item := range list.Items(tape.Root) {
			if item != tape.Root+1 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, c.item, list.Literal(item))
		}
		return append(dst, ']')
	case c.kind == kindObject && c.props != nil:
		return appendObject(dst, c, value)
	}
	return appendScalar(dst, c, value)
}

// appendObject converts an object with declared members. The members get the platform's names.
func appendObject(dst []byte, c *check, value []byte) []byte {
	t := mustRead(value)
	defer t.Release()
	dst = append(dst, '{')
	first := true
	var hint uint32
	for _, p := range c.props {
		member, next, ok := t.Find(tape.Root, p.name, hint)
		hint = next
		if !ok {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, p.theirs...)
		dst = appendJSON(dst, p.check, t.Literal(member))
	}
	return append(dst, '}')
}

// appendMembers appends the given members of an object of the body and reports whether there were any. An object whose
// members are all absent is omitted.
func (b *binder) appendMembers(nodes []*bodyNode) bool {
	found := false
	for _, n := range nodes {
		before := len(b.out)
		if found {
			b.out = append(b.out, ',')
		}
		b.out = append(b.out, n.key...)
		present := true
		switch {
		case n.children != nil:
			b.out = append(b.out, '{')
			present = b.appendMembers(n.children)
			b.out = append(b.out, '}')
		case n.constant != nil:
			b.out = append(b.out, n.constant...)
		default:
			value := b.args.value(n.prop)
			if present = len(value) > 0; present {
				b.out = appendJSON(b.out, b.args.spec.props[n.prop].check, value)
			}
		}
		if !present {
			b.out = b.out[:before]
			continue
		}
		found = true
	}
	return found
}

// appendEscaped percent-encodes all bytes except the unreserved characters of RFC 3986, so a value cannot change the
// structure of a URL.
func appendEscaped(dst, value []byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range value {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
