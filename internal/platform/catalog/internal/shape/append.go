package shape

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Mismatch is the error for a response that does not have the form that the manifest declares. It contains paths but
// never values, so it is safe to log.
type Mismatch struct {
	// Path is the place in the response, in the platform's names.
	Path string
	// Want describes the expected value.
	Want string
}

// Error returns the path and the expected value.
func (m *Mismatch) Error() string { return m.Path + ": " + m.Want }

// ErrTooLarge means that the result would exceed its size limit.
var ErrTooLarge = errors.New("the result is too large")

// A result may have at most maxGrowth times the size of the response plus maxSmall bytes. Types may use a part of the
// response more than once, at every level, so without a limit a small response could become a huge result.
const (
	maxGrowth = 16
	maxSmall  = 1 << 20
)

// ReadsResponse reports whether the shape uses any part of the response.
func (sh *Shape) ReadsResponse() bool { return sh.reads }

// Append maps the value at a node of the tape and appends the result. Errors are a *Mismatch or ErrTooLarge.
func (sh *Shape) Append(dst []byte, t *tape.Tape, at uint32) ([]byte, error) {
	m := mapper{t: t, out: dst, maxSize: len(dst) + maxGrowth*t.Size() + maxSmall}
	if m.appendValue(sh, at) {
		return m.out, nil
	}
	if m.tooLarge {
		return nil, ErrTooLarge
	}
	slices.Reverse(m.path)
	where := strings.Join(m.path, ".")
	if where == "" {
		where = "."
	}
	return nil, &Mismatch{Path: where, Want: m.want}
}

// mapper is one application of a shape. Its methods return false on failure. As a failure returns through the callers,
// each adds its step to the path, so that successful runs pay nothing for it.
type mapper struct {
	t        *tape.Tape
	out      []byte
	path     []string // of the failure, innermost step first
	want     string
	maxSize  int
	tooLarge bool
}

func (m *mapper) fail(want string) bool {
	m.want = want
	return false
}

func (m *mapper) addStep(step string) bool {
	m.path = append(m.path, step)
	return false
}

// appendValue maps the value at a node.
func (m *mapper) appendValue(sh *Shape, at uint32) bool {
	switch sh.op {
	case record:
		return m.appendRecord(sh, at)
	case list:
		return m.appendList(sh, at)
	case page:
		return m.appendPage(sh, at)
	case atPath:
		return m.appendAtPath(sh, at)
	case enum:
		return m.appendEnum(sh, at)
	case csv:
		return m.appendCSV(sh, at)
	case constant:
		m.out = append(m.out, sh.literal...)
		return true
	case textID:
		return m.appendTextID(sh, at)
	case text, integer, number, boolean, object, anything, id, cents, times, unix, unixms, flag:
		return m.appendScalar(sh.op, at)
	}
	panic("shape: unknown operation")
}

// appendScalar maps a value with one of the scalar operations.
func (m *mapper) appendScalar(op op, at uint32) bool {
	kind := m.t.Kind(at)
	if want := expected[op]; want.kind != kind && !want.any && (op != boolean || kind != tape.False) {
		return m.fail(want.text)
	}
	ok := true
	switch op {
	case text:
		m.out = m.t.AppendString(m.out, at)
	case number, boolean:
		m.out = append(m.out, m.t.Raw(at)...)
	case object, anything:
		m.out = m.t.AppendValue(m.out, at)
	case integer:
		m.out, ok = convert.AppendInteger(m.out, m.t.Raw(at))
	case id:
		digits := m.t.Raw(at)
		ok = convert.IsID(digits)
		m.out = append(append(append(m.out, '"'), digits...), '"')
	case cents:
		m.out, ok = convert.AppendCents(m.out, m.t.Raw(at))
	case times:
		var buf [64]byte
		ok = m.appendTime(convert.ParseTime(m.t.AppendText(buf[:0], at)))
	case unix:
		ok = m.appendTime(convert.ParseUnix(m.t.Raw(at)))
	case unixms:
		ok = m.appendTime(convert.ParseUnixMilli(m.t.Raw(at)))
	case flag:
		ok = m.appendFlag(m.t.Raw(at))
	case csv, enum, constant, record, list, page, atPath, textID:
	}
	if !ok {
		return m.fail(expected[op].text)
	}
	return true
}

// expected lists the kind of JSON value that each scalar operation accepts, and the text of a mismatch. A boolean also
// accepts false.
var expected = [...]struct {
	kind tape.Kind
	any  bool
	text string
}{
	text:     {kind: tape.String, text: "should be a string"},
	integer:  {kind: tape.Number, text: "should be an integer"},
	number:   {kind: tape.Number, text: "should be a number"},
	boolean:  {kind: tape.True, text: "should be true or false"},
	object:   {kind: tape.Object, text: "should be an object"},
	anything: {any: true},
	id:       {kind: tape.Number, text: "should be a non-negative integer"},
	cents:    {kind: tape.Number, text: "should be a number with at most two decimals"},
	times:    {kind: tape.String, text: "should be an RFC 3339 time"},
	unix:     {kind: tape.Number, text: "should be seconds since 1970"},
	unixms:   {kind: tape.Number, text: "should be milliseconds since 1970"},
	flag:     {kind: tape.Number, text: "should be 0 or 1"},
}

// appendTextID maps an id that is a string.
func (m *mapper) appendTextID(sh *Shape, at uint32) bool {
	raw := m.t.Raw(at)
	if m.t.Node(at).Escaped {
		raw = m.t.AppendText(nil, at)
	}
	if m.t.Kind(at) != tape.String || !sh.ids.Match(raw) {
		return m.fail("should be an id of the platform")
	}
	m.out = m.t.AppendString(m.out, at)
	return true
}

// appendAtPath applies the inner shape to the value at sh.at.
func (m *mapper) appendAtPath(sh *Shape, at uint32) bool {
	next, ok := m.t.Get(at, sh.at)
	if !ok {
		m.fail("is missing")
		return m.addSteps(sh.at)
	}
	if m.appendValue(sh.item, next) {
		return true
	}
	return m.addSteps(sh.at)
}

func (m *mapper) appendFlag(number []byte) bool {
	switch string(number) {
	case "0":
		m.out = append(m.out, "false"...)
	case "1":
		m.out = append(m.out, "true"...)
	default:
		return false
	}
	return true
}

// appendRecord maps an object member by member. It also enforces the size limit, because only records can repeat
// parts of the response.
func (m *mapper) appendRecord(sh *Shape, at uint32) bool {
	if len(m.out) > m.maxSize {
		m.tooLarge = true
		return false
	}
	if sh.reads && m.t.Kind(at) != tape.Object {
		return m.fail("should be an object")
	}
	m.out = append(m.out, '{')
	var hint uint32
	for i := range sh.members {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		next, ok := m.appendMember(&sh.members[i], at, hint)
		if !ok {
			return false
		}
		hint = next
	}
	m.out = append(m.out, '}')
	return true
}

// appendMember maps one member of a record. It returns the hint for the next search of the object.
func (m *mapper) appendMember(mb *member, at, hint uint32) (uint32, bool) {
	m.out = append(m.out, mb.key...)
	// An absent or null value anywhere on the path makes the member absent, as does an index beyond the end of an array.
	// Any other value that is not an object is a mismatch.
	for i, step := range mb.from {
		var value uint32
		var ok bool
		switch m.t.Kind(at) {
		case tape.Object:
			var next uint32
			value, next, ok = m.t.Find(at, step, hint*hintFactor(i))
			if i == 0 {
				hint = next
			}
		case tape.Array:
			value, ok = m.t.Item(at, step)
			if !ok && !isIndex(step) {
				m.fail("should be an object")
				return hint, m.addSteps(mb.from[:i])
			}
		case tape.Null, tape.False, tape.True, tape.Number, tape.String:
			m.fail("should be an object")
			return hint, m.addSteps(mb.from[:i])
		}
		if !ok || m.t.Kind(value) == tape.Null {
			if m.appendAbsent(mb) {
				return hint, true
			}
			return hint, m.addSteps(mb.from[:i+1])
		}
		at = value
	}
	if m.appendValue(mb.shape, at) {
		return hint, true
	}
	return hint, m.addSteps(mb.from)
}

// isIndex reports whether a step of a path is the index of an array.
func isIndex(step string) bool { return step[0] >= '0' && step[0] <= '9' }

// hintFactor is 1 for the first step of a path and 0 for the others: a hint applies only to the object at which the
// path starts.
func hintFactor(step int) uint32 {
	if step == 0 {
		return 1
	}
	return 0
}

// appendAbsent appends the fallback or null for a value that is absent or null.
func (m *mapper) appendAbsent(mb *member) bool {
	switch {
	case mb.fallback != nil:
		m.out = append(m.out, mb.fallback...)
	case mb.nullable:
		m.out = append(m.out, "null"...)
	default:
		return m.fail("is missing")
	}
	return true
}

// addSteps adds a path to that of the failure and returns false.
func (m *mapper) addSteps(path []string) bool {
	for _, step := range slices.Backward(path) {
		m.addStep(step)
	}
	return false
}

func (m *mapper) appendList(sh *Shape, at uint32) bool {
	if m.t.Kind(at) != tape.Array {
		return m.fail("should be an array")
	}
	m.out = append(m.out, '[')
	i := 0
	for item := range m.t.Items(at) {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		if !m.appendValue(sh.item, item) {
			return m.addStep(strconv.Itoa(i))
		}
		i++
	}
	m.out = append(m.out, ']')
	return true
}

// appendCSV maps a comma-separated string to an array. Spaces around the items are dropped; an empty string is an empty
// array.
func (m *mapper) appendCSV(sh *Shape, at uint32) bool {
	if m.t.Kind(at) != tape.String {
		return m.fail("should be a comma-separated string")
	}
	m.out = append(m.out, '[')
	var buf [256]byte
	rest := m.t.AppendText(buf[:0], at)
	// After the first comma, an empty rest is an empty last item.
	for i := 0; len(rest) > 0 || i > 0; i++ {
		part, after, more := bytes.Cut(rest, comma)
		if i > 0 {
			m.out = append(m.out, ',')
		}
		if !m.appendCSVItem(sh.item, bytes.TrimSpace(part)) {
			m.fail("has an item that should be an integer or an id")
			return m.addStep(strconv.Itoa(i))
		}
		if !more {
			break
		}
		rest = after
	}
	m.out = append(m.out, ']')
	return true
}

var comma = []byte{','}

// appendCSVItem maps one item of a comma-separated string.
func (m *mapper) appendCSVItem(item *Shape, part []byte) bool {
	if item.op == integer {
		n, err := strconv.ParseInt(string(part), 10, 64)
		m.out = strconv.AppendInt(m.out, n, 10)
		return err == nil
	}
	m.out = tape.AppendQuoted(m.out, part)
	if item.op == textID {
		return item.ids.MatchString(string(part)) // a copy, so that the caller's buffer stays on the stack
	}
	return item.op != id || convert.IsID(part)
}

// appendEnum maps a value of an enumeration. Enumerations are open: a value that is not listed passes through, as a
// string if our values are strings.
func (m *mapper) appendEnum(sh *Shape, at uint32) bool {
	// The manifest's values are JSON in canonical form, so compare strings with their quotes and minimal escapes.
	kind := m.t.Kind(at)
	raw := m.t.Raw(at)
	if kind == tape.String {
		var buf [66]byte
		raw = m.t.AppendString(buf[:0], at)
	}
	for i := range sh.values {
		if bytes.Equal(sh.values[i].theirs, raw) {
			m.out = append(m.out, sh.values[i].ours...)
			return true
		}
	}
	if sh.base == text && (kind == tape.Number || kind == tape.True || kind == tape.False) {
		m.out = append(append(append(m.out, '"'), raw...), '"')
		return true
	}
	return m.appendScalar(sh.base, at)
}
