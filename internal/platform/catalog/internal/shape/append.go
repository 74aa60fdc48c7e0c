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

// Mismatch is an answer that does not have the form that the manifest says. It names places, never values.
type Mismatch struct {
	// Path is where in the answer, in the platform's names.
	Path string
	// Want is what should be there.
	Want string
}

// Error is the mismatch in words.
func (m *Mismatch) Error() string { return m.Path + ": " + m.Want }

// ErrTooLarge means that an answer would grow beyond bounds.
var ErrTooLarge = errors.New("the answer grows too large")

// Bounds of what becomes of an answer, because types may repeat parts of it: so many times its size, and this much besides.
const (
	maxGrowth = 16
	maxSmall  = 1 << 20
)

// Reads says whether anything of the answer is needed.
func (sh *Shape) Reads() bool { return sh.reads }

// Append appends what the value at a place of the tape becomes. Errors are a *Mismatch or ErrTooLarge.
func (sh *Shape) Append(dst []byte, t *tape.Tape, at uint32) ([]byte, error) {
	m := mapper{t: t, out: dst, most: len(dst) + maxGrowth*t.Size() + maxSmall}
	if m.value(sh, at) {
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

// mapper is one run of a plan. A failure leaves value after value, each adding its step to the path.
type mapper struct {
	t        *tape.Tape
	out      []byte
	path     []string // backwards
	want     string
	most     int
	tooLarge bool
}

func (m *mapper) fail(want string) bool {
	m.want = want
	return false
}

func (m *mapper) at(step string) bool {
	m.path = append(m.path, step)
	return false
}

// value appends one value.
func (m *mapper) value(sh *Shape, at uint32) bool {
	switch sh.what {
	case record:
		return m.record(sh, at)
	case list:
		return m.list(sh, at)
	case page:
		return m.page(sh, at)
	case below:
		return m.below(sh, at)
	case enum:
		return m.enumeration(sh, at)
	case csv:
		return m.csv(sh, at)
	case constant:
		m.out = append(m.out, sh.literal...)
		return true
	case text, integer, number, boolean, object, anything, id, cents, times, unix, flag:
		return m.scalar(sh.what, at)
	}
	panic("a shape of no kind")
}

// scalar appends a value that is one value in both worlds.
func (m *mapper) scalar(what what, at uint32) bool {
	kind := m.t.Kind(at)
	if want := wanted[what]; want.kind != kind && !want.any && (what != boolean || kind != tape.False) {
		return m.fail(want.text)
	}
	ok := true
	switch what {
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
		ok = m.time(convert.ParseTime(m.t.AppendText(buf[:0], at)))
	case unix:
		ok = m.time(convert.ParseUnix(m.t.Raw(at)))
	case flag:
		ok = m.flag(m.t.Raw(at))
	case csv, enum, constant, record, list, page, below:
	}
	if !ok {
		return m.fail(wanted[what].text)
	}
	return true
}

// wanted says what a conversion takes.
var wanted = [...]struct {
	kind tape.Kind
	any  bool
	text string
}{
	text:     {kind: tape.String, text: "should be a text"},
	integer:  {kind: tape.Number, text: "should be a whole number"},
	number:   {kind: tape.Number, text: "should be a number"},
	boolean:  {kind: tape.True, text: "should be true or false"},
	object:   {kind: tape.Object, text: "should be an object"},
	anything: {any: true},
	id:       {kind: tape.Number, text: "should be a number without sign and fraction"},
	cents:    {kind: tape.Number, text: "should be a number with at most two decimals"},
	times:    {kind: tape.String, text: "should be a time as in RFC 3339"},
	unix:     {kind: tape.Number, text: "should be seconds since 1970"},
	flag:     {kind: tape.Number, text: "should be 0 or 1"},
}

// below appends what stands further down.
func (m *mapper) below(sh *Shape, at uint32) bool {
	next, ok := m.t.Get(at, sh.at)
	if !ok {
		m.fail("is missing")
		return m.steps(sh.at)
	}
	if m.value(sh.item, next) {
		return true
	}
	return m.steps(sh.at)
}

func (m *mapper) flag(number []byte) bool {
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

// record appends an object that is made of members.
func (m *mapper) record(sh *Shape, at uint32) bool {
	if len(m.out) > m.most {
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
		next, ok := m.member(&sh.members[i], at, hint)
		if !ok {
			return false
		}
		hint = next
	}
	m.out = append(m.out, '}')
	return true
}

// member appends one member of a record. It gives back where in the object to look first for the next.
func (m *mapper) member(mb *member, at, hint uint32) (uint32, bool) {
	m.out = append(m.out, mb.key...)
	for i, step := range mb.from {
		if m.t.Kind(at) != tape.Object {
			m.fail("should be an object")
			return hint, m.steps(mb.from[:i])
		}
		value, next, ok := m.t.Find(at, step, hint*first(i))
		if i == 0 {
			hint = next
		}
		if !ok || m.t.Kind(value) == tape.Null {
			if m.absent(mb) {
				return hint, true
			}
			return hint, m.steps(mb.from[:i+1])
		}
		at = value
	}
	if m.value(mb.shape, at) {
		return hint, true
	}
	return hint, m.steps(mb.from)
}

// first is 1 for the first step of a path: a hint is about the object that the path starts at.
func first(step int) uint32 {
	if step == 0 {
		return 1
	}
	return 0
}

// absent appends what stands for a value that is not there.
func (m *mapper) absent(mb *member) bool {
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

// steps adds a path to a failure's, backwards.
func (m *mapper) steps(path []string) bool {
	for _, step := range slices.Backward(path) {
		m.at(step)
	}
	return false
}

func (m *mapper) list(sh *Shape, at uint32) bool {
	if m.t.Kind(at) != tape.Array {
		return m.fail("should be a list")
	}
	m.out = append(m.out, '[')
	i := 0
	for item := range m.t.Items(at) {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		if !m.value(sh.item, item) {
			return m.at(strconv.Itoa(i))
		}
		i++
	}
	m.out = append(m.out, ']')
	return true
}

// csv appends a list that the platform writes as one text.
func (m *mapper) csv(sh *Shape, at uint32) bool {
	if m.t.Kind(at) != tape.String {
		return m.fail("should be a text with commas")
	}
	m.out = append(m.out, '[')
	var buf [256]byte
	rest := m.t.AppendText(buf[:0], at)
	for i := 0; len(rest) > 0 || i > 0; i++ {
		part, after, more := bytes.Cut(rest, comma)
		if i > 0 {
			m.out = append(m.out, ',')
		}
		if !m.part(sh.item.what, bytes.TrimSpace(part)) {
			m.fail("has an item that should be digits")
			return m.at(strconv.Itoa(i))
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

// part appends one item of a text with commas.
func (m *mapper) part(what what, part []byte) bool {
	if what == integer {
		n, err := strconv.ParseInt(string(part), 10, 64)
		m.out = strconv.AppendInt(m.out, n, 10)
		return err == nil
	}
	m.out = tape.AppendQuoted(m.out, part)
	return what != id || convert.IsID(part)
}

// enumeration appends our word for theirs; a value that is not listed passes as it is, in our type.
func (m *mapper) enumeration(sh *Shape, at uint32) bool {
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
	return m.scalar(sh.base, at)
}
