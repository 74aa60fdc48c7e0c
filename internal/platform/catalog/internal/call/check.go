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

// pushStep descends to a part of the current value: a member by name, or an item by index if name is empty. The caller
// must decrement r.depth afterwards.
func (r *reader) pushStep(name string, index int) {
	if r.depth < maxNesting {
		r.path[r.depth] = step{name, index}
	}
	r.depth++
}

// reject records an error at the current value.
func (r *reader) reject(code, detail string) {
	pointer := r.pointer(r.arg)
	for _, s := range r.path[:min(r.depth, maxNesting)] {
		if s.name != "" {
			pointer += "/" + escape(s.name)
		} else {
			pointer += "/" + strconv.Itoa(s.index)
		}
	}
	r.addField(pointer, code, detail)
}

var kindNames = [...]string{
	kindString: "a string", kindInteger: "an integer", kindNumber: "a number", kindBoolean: "true or false",
	kindArray: "a list", kindObject: "an object",
}

// checkValue validates a value and appends it in canonical form. It records errors and continues, so that a response
// lists all of them.
func (r *reader) checkValue(c *check, at uint32) {
	from := len(r.out)
	ok := false
	switch kind := r.t.Kind(at); c.kind {
	case kindString:
		if ok = kind == tape.String; ok {
			r.out = r.t.AppendString(r.out, at)
			r.checkString(c, at)
		}
	case kindInteger:
		if kind == tape.Number {
			if r.out, ok = convert.AppendInteger(r.out, r.t.Raw(at)); ok {
				r.checkRange(c, r.out[from:])
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
			r.checkItems(c, at)
		}
	case kindObject:
		if ok = kind == tape.Object; ok {
			r.checkMembers(c, at)
		}
	}
	if !ok {
		r.reject("type", "must be "+kindNames[c.kind])
		return
	}
	if c.enum != nil && !slices.ContainsFunc(c.enum, func(v []byte) bool { return bytes.Equal(v, r.out[from:]) }) {
		r.reject("enum", "must be one of "+string(bytes.Join(c.enum, []byte(", "))))
	}
}

// checkString validates a string against its check.
func (r *reader) checkString(c *check, at uint32) {
	// NUL can only come from an escape; the parser rejects raw control characters.
	raw := r.t.Raw(at)
	if r.t.Node(at).Escaped {
		raw = r.t.AppendText(nil, at)
		if bytes.IndexByte(raw, 0) >= 0 {
			r.reject("character", "must not contain the character NUL")
			return
		}
	}
	if c.minLength > 0 || c.maxLength >= 0 {
		n := utf8.RuneCount(raw)
		if n < c.minLength || c.maxLength >= 0 && n > c.maxLength {
			r.reject("length", "must have "+describeBounds(c.minLength, c.maxLength)+" characters")
		}
	}
	if c.as == asID && !c.isID(raw) {
		if c.segment { // see reader.impossibleIDs
			r.impossibleIDs++
			r.reject("format", "is not an id of this platform, so nothing has this id")
			return
		}
		r.reject("format", "must be an id: a string "+c.describeIDs())
	}
	if c.number && !isPageNumber(raw) {
		r.reject("format", "must be the nextCursor of another page")
	}
	if c.format != "" && !formats[c.format].match(raw) {
		r.reject("format", "must be "+formats[c.format].text)
	}
	if c.pattern != nil && !c.pattern.Match(raw) {
		r.reject("pattern", "must match "+c.pattern.String())
	}
	r.checkPlacement(c, raw)
}

// isID reports whether a text can be an id of the platform.
func (c *check) isID(raw []byte) bool {
	if c.ids != nil {
		return c.ids.Match(raw)
	}
	return convert.IsID(raw)
}

func (c *check) describeIDs() string {
	if c.ids != nil {
		return "that matches " + c.ids.String()
	}
	return "of digits"
}

// isPageNumber reports whether a text is the number of a page after the first.
func isPageNumber(raw []byte) bool {
	n, err := strconv.ParseInt(string(raw), 10, 32)
	return err == nil && n > 1 && raw[0] >= '1' && raw[0] <= '9'
}

// checkPlacement rejects strings that would change meaning in their place: more than one path segment, a comma in a
// comma-separated list, or a line break in a header.
func (r *reader) checkPlacement(c *check, raw []byte) {
	switch {
	case c.segment && !oneSegment(raw):
		r.reject("format", "must be a single path segment: not empty, not . or .., without slashes and control characters")
	case c.noComma && bytes.IndexByte(raw, ',') >= 0:
		r.reject("format", "must not contain a comma")
	case c.header && bytes.ContainsFunc(raw, func(ch rune) bool { return ch < ' ' || ch > '~' }):
		r.reject("format", "must be printable ASCII")
	}
}

// oneSegment reports whether a text is safe as a single path segment.
func oneSegment(raw []byte) bool {
	if len(raw) == 0 || string(raw) == "." || string(raw) == ".." {
		return false
	}
	return !bytes.ContainsFunc(raw, func(ch rune) bool { return ch == '/' || ch == '\\' || ch < ' ' || ch == 0x7f })
}

// checkRange validates an integer in canonical form against minimum and maximum.
func (r *reader) checkRange(c *check, digits []byte) {
	if c.minimum == nil && c.maximum == nil {
		return
	}
	// ParseInt fails for numbers beyond 64 bits. Such a number violates any bound on its side.
	n, err := strconv.ParseInt(string(digits), 10, 64)
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
	r.reject("range", detail)
}

// checkItems validates an array and its items.
func (r *reader) checkItems(c *check, at uint32) {
	if n := r.t.Len(at); n < c.minItems || c.maxItems >= 0 && n > c.maxItems {
		r.reject("items", "must have "+describeBounds(c.minItems, c.maxItems)+" items")
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
		r.pushStep("", i)
		r.checkValue(c.item, item)
		r.depth--
		// Compare canonical forms, in which equal strings and integers are equal bytes.
		if c.unique {
			if seen[string(r.out[from:])] {
				r.reject("unique", "must not contain an item twice")
			}
			seen[string(r.out[from:])] = true
		}
		i++
	}
	r.out = append(r.out, ']')
}

// checkMembers validates an object and fills in defaults. An object without declared members is passed unchanged.
func (r *reader) checkMembers(c *check, at uint32) {
	if c.props == nil {
		r.out = r.t.AppendValue(r.out, at)
		return
	}
	for name := range r.t.Members(at) {
		text := r.t.Text(name)
		if !r.lenient && !slices.ContainsFunc(c.props, func(p *prop) bool { return p.name == text }) {
			r.pushStep(truncate(text), 0)
			r.reject("unknown", "is not a member: the members are "+propNames(c.props))
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
				r.pushStep(p.name, 0)
				r.reject("required", "is required")
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
			r.pushStep(p.name, 0)
			r.checkValue(p.check, value)
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

func describeBounds(low, high int) string {
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

// formats are the formats of JSON Schema that arguments may have. They are stricter than the standard: times must have
// a year from 0 to 9999, and a URI must be an http or https URL without user information.
var formats = map[string]struct {
	text  string
	match func([]byte) bool
}{
	"date":      {"a date: YYYY-MM-DD", isDate},
	"date-time": {"an RFC 3339 time, such as 2026-11-14T22:50:00Z", isTime},
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
