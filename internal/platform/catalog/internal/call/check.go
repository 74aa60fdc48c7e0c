package call

import (
	"bytes"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// within goes one step down, to a part of a value; what comes after must go back up.
func (r *reader) within(name string, index int) {
	if r.depth < maxNesting {
		r.path[r.depth] = step{name, index}
	}
	r.depth++
}

// wrong notes what is wrong with the value that is being looked at.
func (r *reader) wrong(code, detail string) {
	pointer := r.place(r.arg)
	for _, s := range r.path[:min(r.depth, maxNesting)] {
		if s.name != "" {
			pointer += "/" + escape(s.name)
		} else {
			pointer += "/" + strconv.Itoa(s.index)
		}
	}
	r.add(pointer, code, detail)
}

var kindNames = [...]string{
	kindString: "a string", kindInteger: "an integer", kindNumber: "a number", kindBoolean: "true or false",
	kindArray: "a list", kindObject: "an object",
}

// value checks one value and appends it in its plainest form.
func (r *reader) value(c *check, at uint32) {
	from := len(r.out)
	ok := false
	switch kind := r.t.Kind(at); c.kind {
	case kindString:
		if ok = kind == tape.String; ok {
			r.out = r.t.AppendString(r.out, at)
			r.text(c, at)
		}
	case kindInteger:
		if kind == tape.Number {
			if r.out, ok = convert.AppendInteger(r.out, r.t.Raw(at)); ok {
				r.bounds(c, r.out[from:])
			}
		}
	case kindNumber:
		if ok = kind == tape.Number; ok {
			r.out = append(r.out, r.t.Raw(at)...)
		}
	case kindBoolean:
		if ok = kind == tape.True || kind == tape.False; ok {
			r.out = append(r.out, r.t.Raw(at)...)
		}
	case kindArray:
		if ok = kind == tape.Array; ok {
			r.items(c, at)
		}
	case kindObject:
		if ok = kind == tape.Object; ok {
			r.members(c, at)
		}
	}
	if !ok {
		r.wrong("type", "must be "+kindNames[c.kind])
		return
	}
	if c.enum != nil && !slices.ContainsFunc(c.enum, func(v []byte) bool { return bytes.Equal(v, r.out[from:]) }) {
		r.wrong("enum", "must be one of "+string(bytes.Join(c.enum, []byte(", "))))
	}
}

// text checks a string.
func (r *reader) text(c *check, at uint32) {
	raw := r.t.Raw(at)
	if r.t.Node(at).Escaped {
		raw = r.t.AppendText(nil, at)
		if bytes.IndexByte(raw, 0) >= 0 {
			r.wrong("character", "must not hold the character NUL")
			return
		}
	}
	if c.minLength > 0 || c.maxLength >= 0 {
		n := utf8.RuneCount(raw)
		if n < c.minLength || c.maxLength >= 0 && n > c.maxLength {
			r.wrong("length", "must have "+between(c.minLength, c.maxLength)+" characters")
		}
	}
	if c.as == asID && !convert.IsID(raw) {
		if c.segment {
			r.strays++ // it names nothing, and is not sent
			r.wrong("format", "is no id of this platform, so nothing has it")
			return
		}
		r.wrong("format", "must be an id: a string of digits")
	}
	if c.format != "" && !formats[c.format].match(raw) {
		r.wrong("format", "must be "+formats[c.format].text)
	}
	if c.pattern != nil && !c.pattern.Match(raw) {
		r.wrong("pattern", "must match "+c.pattern.String())
	}
	r.safe(c, raw)
}

// safe refuses texts that would be something else where they are going.
func (r *reader) safe(c *check, raw []byte) {
	switch {
	case c.segment && !oneSegment(raw):
		r.wrong("format", "must be one part of a path: not empty, no dots alone, no slash and no control character")
	case c.noComma && bytes.IndexByte(raw, ',') >= 0:
		r.wrong("format", "must not hold a comma")
	case c.header && bytes.ContainsFunc(raw, func(ch rune) bool { return ch < ' ' || ch > '~' }):
		r.wrong("format", "must be printable ASCII")
	}
}

// oneSegment says whether a text can be a segment of a path and nothing else.
func oneSegment(raw []byte) bool {
	if len(raw) == 0 || string(raw) == "." || string(raw) == ".." {
		return false
	}
	return !bytes.ContainsFunc(raw, func(ch rune) bool { return ch == '/' || ch == '\\' || ch < ' ' || ch == 0x7f })
}

// bounds checks an integer.
func (r *reader) bounds(c *check, digits []byte) {
	if c.minimum == nil && c.maximum == nil {
		return
	}
	n, err := strconv.ParseInt(string(digits), 10, 64) // beyond 64 bits it is the nearest that fits, with an error
	if err == nil && (c.minimum == nil || n >= *c.minimum) && (c.maximum == nil || n <= *c.maximum) {
		return
	}
	if err != nil && (digits[0] == '-' && c.minimum == nil || digits[0] != '-' && c.maximum == nil) {
		return
	}
	detail := "must be at least "
	switch {
	case c.minimum == nil:
		detail = "must be at most " + strconv.FormatInt(*c.maximum, 10)
	case c.maximum == nil:
		detail += strconv.FormatInt(*c.minimum, 10)
	default:
		detail += strconv.FormatInt(*c.minimum, 10) + " and at most " + strconv.FormatInt(*c.maximum, 10)
	}
	r.wrong("range", detail)
}

// items checks a list.
func (r *reader) items(c *check, at uint32) {
	if n := r.t.Len(at); n < c.minItems || c.maxItems >= 0 && n > c.maxItems {
		r.wrong("items", "must have "+between(c.minItems, c.maxItems)+" items")
		return
	}
	r.out = append(r.out, '[')
	var seen map[string]bool
	if c.unique {
		seen = map[string]bool{}
	}
	i := 0
	for item := range r.t.Items(at) {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		from := len(r.out)
		r.within("", i)
		r.value(c.item, item)
		r.depth--
		if c.unique {
			if seen[string(r.out[from:])] {
				r.wrong("unique", "must not have an item twice")
			}
			seen[string(r.out[from:])] = true
		}
		i++
	}
	r.out = append(r.out, ']')
}

// members checks an object. One without declared members is passed as it is.
func (r *reader) members(c *check, at uint32) {
	if c.props == nil {
		r.out = r.t.AppendValue(r.out, at)
		return
	}
	for name := range r.t.Members(at) {
		text := r.t.Text(name)
		if !r.lenient && !slices.ContainsFunc(c.props, func(p *prop) bool { return p.name == text }) {
			r.within(cut(text), 0)
			r.wrong("unknown", "is not known here: there are "+propNames(c.props))
			r.depth--
		}
	}
	r.out = append(r.out, '{')
	var hint uint32
	first := true
	for _, p := range c.props {
		value, next, ok := r.t.Find(at, p.name, hint)
		hint = next
		if !ok && p.fallback == nil {
			if p.required {
				r.within(p.name, 0)
				r.wrong("required", "is required")
				r.depth--
			}
			continue
		}
		if !first {
			r.out = append(r.out, ',')
		}
		first = false
		r.out = append(r.out, p.key...)
		if ok {
			r.within(p.name, 0)
			r.value(p.check, value)
			r.depth--
		} else {
			r.out = append(r.out, p.fallback...)
		}
	}
	r.out = append(r.out, '}')
}

func propNames(props []*prop) string {
	names := make([]string, len(props))
	for i, p := range props {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

func between(low, high int) string {
	switch {
	case high < 0:
		return "at least " + strconv.Itoa(low)
	case low == high:
		return strconv.Itoa(low)
	case low <= 0:
		return "at most " + strconv.Itoa(high)
	}
	return strconv.Itoa(low) + " to " + strconv.Itoa(high)
}

// formats are those of JSON Schema that arguments use, each a little stricter: times as we can read them, addresses of the web.
var formats = map[string]struct {
	text  string
	match func([]byte) bool
}{
	"date":      {"a date: YYYY-MM-DD", isDate},
	"date-time": {"a time as in RFC 3339, such as 2026-11-14T22:50:00Z", isTime},
	"uri":       {"an http or https URL", isURL},
	"email":     {"an e-mail address", isEmail},
}

func isDate(raw []byte) bool {
	_, err := time.Parse(time.DateOnly, string(raw))
	return err == nil
}

func isTime(raw []byte) bool {
	_, ok := convert.ParseTime(raw)
	return ok
}

func isURL(raw []byte) bool {
	u, err := url.Parse(string(raw))
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

func isEmail(raw []byte) bool {
	a, err := mail.ParseAddress(string(raw))
	return err == nil && a.Name == "" && a.Address == string(raw) && len(raw) <= 254
}
