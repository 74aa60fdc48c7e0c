package call

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Request is what goes to the platform. Scheme and host are the driver's to add, and so are the session's headers.
type Request struct {
	Method string
	// Path is escaped, and begins with a slash.
	Path string
	// Query is escaped, without a question mark; empty for none.
	Query string
	// Header is nil for none.
	Header http.Header
	// Body is JSON; nil for none.
	Body []byte
}

// String hides what the request holds: arguments, codes and passwords may be in any part of it.
func (r Request) String() string { return r.Method + " [request]" }

// GoString hides it as well.
func (r Request) GoString() string { return r.String() }

// LogValue hides it in log lines.
func (r Request) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Conversions.
const (
	asID    = "id"
	asCents = "cents"
	asTime  = "time"
	asUnix  = "unix"
	asFlag  = "flag"
	asCSV   = "csv"
)

// Request makes the request of the arguments: path, query, headers, body, each in the order of the manifest.
func (a Args) Request() Request {
	s := a.spec
	b, _ := binders.Get().(*binder)
	b.args = a
	b.out = b.out[:0]
	b.path()
	path := len(b.out)
	b.query()
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
		b.out = append(b.out[:0], '{')
		b.members(s.body.children)
		req.Body = append(bytes.Clone(b.out), '}')
	}
	b.args = Args{}
	if cap(b.out)+cap(b.scratch) <= maxKept {
		binders.Put(b)
	}
	return req
}

// maxKept is how large a buffer may be to be used again.
const maxKept = 64 << 10

// binder holds what is used again from request to request.
type binder struct {
	args         Args
	out, scratch []byte
}

var binders = sync.Pool{New: func() any { return &binder{} }}

func (b *binder) path() {
	for _, seg := range b.args.spec.path {
		b.out = append(b.out, seg.text...)
		if seg.prop != none {
			b.scratch = appendPlain(b.scratch[:0], b.args.spec.props[seg.prop].check, b.args.value(seg.prop))
			b.out = appendEscaped(b.out, b.scratch)
		}
	}
}

func (b *binder) query() {
	start := len(b.out)
	for _, t := range b.args.spec.query {
		if t.prop == none {
			b.scratch = append(b.scratch[:0], t.text...)
			b.parameter(start, t.name)
			continue
		}
		value := b.args.value(t.prop)
		if len(value) == 0 {
			continue
		}
		c := b.args.spec.props[t.prop].check
		if c.kind != kindArray || c.as == asCSV {
			b.scratch = appendPlain(b.scratch[:0], c, value)
			b.parameter(start, t.name)
			continue
		}
		list := reread(value)
		for item := range list.Items(tape.Root) {
			b.scratch = appendPlain(b.scratch[:0], c.item, list.Literal(item))
			b.parameter(start, t.name)
		}
		list.Release()
	}
}

// parameter appends one parameter of the query, with the scratch as its value.
func (b *binder) parameter(start int, name string) {
	if len(b.out) > start {
		b.out = append(b.out, '&')
	}
	b.out = append(b.out, name...)
	b.out = append(b.out, '=')
	b.out = appendEscaped(b.out, b.scratch)
}

// reread reads a value that was written down by us.
func reread(value []byte) *tape.Tape {
	t, err := tape.Read(value, limits)
	if err != nil {
		panic("arguments that were written down are not JSON: " + err.Error())
	}
	return t
}

// appendPlain appends a value as a path, a query or a header has it: without quotes.
func appendPlain(dst []byte, c *check, value []byte) []byte {
	if c.as == asCSV {
		list := reread(value)
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

// unquote is the text of a JSON string in its plainest form.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	t := reread(bytes.Clone(quoted))
	defer t.Release()
	return t.AppendText(nil, tape.Root)
}

// appendScalar appends a value that is neither a list nor an object, as JSON of the platform's.
func appendScalar(dst []byte, c *check, value []byte) []byte {
	for i := range c.values {
		if bytes.Equal(c.values[i].ours, value) {
			return append(dst, c.values[i].theirs...)
		}
	}
	switch c.as {
	case asID:
		return append(dst, value[1:len(value)-1]...)
	case asCents:
		return convert.AppendMajor(dst, value)
	case asTime, asUnix:
		at, _ := convert.ParseTime(unquote(value)) // its format was checked
		if c.as == asUnix {
			return convert.AppendUnix(dst, at)
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

// appendJSON appends a value as the body has it.
func appendJSON(dst []byte, c *check, value []byte) []byte {
	switch {
	case c.as == asCSV:
		return tape.AppendQuoted(dst, appendPlain(nil, c, value))
	case c.kind == kindArray:
		list := reread(value)
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

// appendObject appends an object with the platform's names for its members.
func appendObject(dst []byte, c *check, value []byte) []byte {
	t := reread(value)
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

// members appends what there is of a part of the body, and says whether there was anything.
func (b *binder) members(nodes []*bodyNode) bool {
	some := false
	for _, n := range nodes {
		before := len(b.out)
		if some {
			b.out = append(b.out, ',')
		}
		b.out = append(b.out, n.key...)
		there := true
		switch {
		case n.children != nil:
			b.out = append(b.out, '{')
			there = b.members(n.children)
			b.out = append(b.out, '}')
		case n.constant != nil:
			b.out = append(b.out, n.constant...)
		default:
			value := b.args.value(n.prop)
			if there = len(value) > 0; there {
				b.out = appendJSON(b.out, b.args.spec.props[n.prop].check, value)
			}
		}
		if !there {
			b.out = b.out[:before]
			continue
		}
		some = true
	}
	return some
}

// appendEscaped percent-encodes everything but the characters that no part of a URL gives a meaning to.
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
