package sign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// repaired is a body with one change undone, and a description of the change.
type repaired struct {
	body []byte
	Detail
}

var byteOrderMark = []byte{0xef, 0xbb, 0xbf}

const spaces = " \t\r\n"

// repairs returns what a body may have been before something changed it. It is used when the sent body is unknown.
func repairs(body []byte) []repaired {
	var list []repaired
	if rest, ok := bytes.CutPrefix(body, byteOrderMark); ok {
		list = append(list, repaired{rest, markDetail})
	}
	if trimmed := bytes.TrimRight(body, spaces); len(trimmed) < len(body) {
		list = append(list, repaired{trimmed, trailingDetail(len(body) - len(trimmed))})
	}
	if bytes.Contains(body, []byte("\r\n")) {
		list = append(list, repaired{bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), Detail{"line_endings", "Line breaks were changed to CR LF."}})
	}
	if narrow, ok := undoLatin1(body); ok {
		list = append(list, repaired{narrow, misread})
	}
	var inner string
	if json.Unmarshal(body, &inner) == nil {
		list = append(list, repaired{[]byte(inner), quotedTwice})
	}
	var compact bytes.Buffer
	if json.Compact(&compact, body) == nil && compact.Len() < len(body) {
		list = append(list, repaired{compact.Bytes(), spaced})
	}
	return list
}

var (
	markDetail  = Detail{"bom", "A byte order mark (EF BB BF) was added in front."}
	misread     = Detail{"charset", "The bytes were read as Latin-1 and written as UTF-8. The body is UTF-8; do not decode it before you verify it."}
	quotedTwice = Detail{"quoted", "The body is a JSON string that holds the body: it was encoded twice."}
	spaced      = Detail{"reserialized", "It was parsed and written again: spaces or line breaks were added."}
)

func trailingDetail(n int) Detail {
	return Detail{"trailing_newline", fmt.Sprintf("%s of white space at its end: a line break was added.", count(n, "byte"))}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// undoLatin1 reverses a conversion that read UTF-8 as Latin-1. It reports false if there was none.
func undoLatin1(body []byte) ([]byte, bool) {
	narrow, wide := make([]byte, 0, len(body)), false
	for _, r := range string(body) {
		if r > 0xff {
			return nil, false
		}
		wide = wide || r >= 0x80
		narrow = append(narrow, byte(r))
	}
	return narrow, wide && utf8.Valid(narrow)
}

// Compare describes how a body differs from the one that was sent, without quoting either; it names JSON pointers where
// that helps. sent is compact JSON without white space around it. The result is empty only if both are equal.
func Compare(sent, got []byte) []Detail {
	var list []Detail
	if bytes.Equal(sent, got) {
		return nil
	}
	if len(got) == 0 {
		return []Detail{{"empty", "It is empty: something read it before, such as a body parser."}}
	}
	if rest, ok := bytes.CutPrefix(got, byteOrderMark); ok {
		list, got = append(list, markDetail), rest
	}
	if trimmed := bytes.TrimRight(got, spaces); len(trimmed) < len(got) {
		list, got = append(list, trailingDetail(len(got)-len(trimmed))), trimmed
	}
	if trimmed := bytes.TrimLeft(got, spaces); len(trimmed) < len(got) {
		list, got = append(list, Detail{"leading_space", "There is white space before it."}), trimmed
	}
	if bytes.Equal(sent, got) {
		return list
	}
	if d, ok := findTruncation(sent, got); ok {
		return append(list, d)
	}
	if d, ok := findEncoding(sent, got); ok {
		return append(list, d)
	}
	return append(list, compareJSON(sent, got)...)
}

// findTruncation detects a missing or an extra end.
func findTruncation(sent, got []byte) (Detail, bool) {
	switch {
	case len(got) == 0 || bytes.HasPrefix(sent, got):
		return Detail{"truncated", fmt.Sprintf("It ends after %d of %d bytes: it was cut off, or not read to its end.", len(got), len(sent))}, true
	case bytes.HasPrefix(got, sent):
		return Detail{"appended", count(len(got)-len(sent), "byte") + " too many at its end."}, true
	}
	return Detail{}, false
}

// findEncoding detects another character set, and a body that was encoded twice.
func findEncoding(sent, got []byte) (Detail, bool) {
	if narrow, ok := undoLatin1(got); ok && bytes.Equal(narrow, sent) {
		return misread, true
	}
	if !utf8.Valid(got) {
		wide := make([]rune, len(got))
		for i, b := range got {
			wide[i] = rune(b)
		}
		if string(wide) == string(sent) {
			return Detail{"charset", "It was written as Latin-1. The body is UTF-8; use the bytes as they came."}, true
		}
	}
	switch {
	case bytes.HasPrefix(got, []byte{0xff, 0xfe}) || bytes.HasPrefix(got, []byte{0xfe, 0xff}) || bytes.IndexByte(got, 0) >= 0:
		return Detail{"charset", "It is UTF-16. The body is UTF-8; use the bytes as they came."}, true
	case bytes.Contains(got, []byte("\uFFFD")) && !bytes.Contains(sent, []byte("\uFFFD")):
		return Detail{"charset", "Characters were replaced by U+FFFD: it was not decoded as UTF-8."}, true
	}
	var inner string
	if json.Unmarshal(got, &inner) == nil {
		return quotedTwice, true
	}
	return Detail{}, false
}

func compareJSON(sent, got []byte) []Detail {
	if !json.Valid(got) {
		if bytes.HasPrefix(got, []byte("%7B")) || bytes.Contains(got, []byte("=%7B")) || bytes.HasPrefix(got, []byte("payload=")) {
			return []Detail{{"form", "It is form-encoded. The body is JSON; something has encoded it again."}}
		}
		text := fmt.Sprintf("It is not JSON. The first difference is at byte %d.", firstDifference(sent, got))
		return []Detail{{"not_json", text}}
	}
	d := &difference{}
	d.compare(sent, got, "", 0)
	switch {
	case d.value != nil:
		return append([]Detail{{"value_changed", "The content differs " + d.value.Text}}, d.forms()...)
	case len(d.forms()) > 0:
		return d.forms()
	}
	return []Detail{spaced}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// difference records how two JSON documents differ: in their content (value), or only in how it is written. The other
// fields hold the first place of each kind.
type difference struct {
	value                                        *Detail
	orderAt, escapingAt, numberAt                string
	orderDiffers, escapingDiffers, numberDiffers bool
}

// forms describes the differences in how the same content is written.
func (d *difference) forms() []Detail {
	var list []Detail
	add := func(how, at string) {
		text := "It was parsed and written again: " + how + " at " + place(at) + "."
		list = append(list, Detail{"reserialized", text})
	}
	if d.orderDiffers {
		add("the order of members differs", d.orderAt)
	}
	if d.escapingDiffers {
		add("characters are escaped differently", d.escapingAt)
	}
	if d.numberDiffers {
		add("a number is written differently", d.numberAt)
	}
	return list
}

func place(pointer string) string {
	return cmp.Or(pointer, "the top")
}

// maxDepth limits the depth of the comparison, because every level is parsed again for each level above it.
const maxDepth = 64

// compare records the first difference of each kind. at is the JSON pointer of both values.
func (d *difference) compare(sent, got json.RawMessage, at string, depth int) {
	sent, got = bytes.TrimSpace(sent), bytes.TrimSpace(got)
	if d.value != nil || bytes.Equal(sent, got) {
		return
	}
	if len(sent) == 0 || len(got) == 0 || jsonKind(sent[0]) != jsonKind(got[0]) || depth == maxDepth {
		d.addDifference(at, "the value differs")
		return
	}
	switch jsonKind(sent[0]) {
	case '{':
		d.objects(sent, got, at, depth)
	case '[':
		d.arrays(sent, got, at, depth)
	case '"':
		var a, b string
		if json.Unmarshal(sent, &a) != nil || json.Unmarshal(got, &b) != nil || a != b {
			d.addDifference(at, "the text differs")
		} else if !d.escapingDiffers {
			d.escapingDiffers, d.escapingAt = true, at
		}
	case '0':
		a, okA := new(big.Rat).SetString(boundedNumber(sent))
		b, okB := new(big.Rat).SetString(boundedNumber(got))
		if !okA || !okB || a.Cmp(b) != 0 {
			d.addDifference(at, "the number differs; numbers above 2^53 lose digits when they become floats")
		} else if !d.numberDiffers {
			d.numberDiffers, d.numberAt = true, at
		}
	default:
		d.addDifference(at, "the value differs")
	}
}

func (d *difference) addDifference(at, how string) {
	d.value = &Detail{"value_changed", "at " + place(at) + ": " + how + "."}
}

// boundedNumber returns a number, or an empty text if it is too large to compare: a huge exponent would become a huge
// number.
func boundedNumber(text []byte) string {
	if len(text) > 100 || bytes.ContainsAny(text, "eE") && len(text) > 20 {
		return ""
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(string(text)), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return ""
	}
	return string(text)
}

func jsonKind(first byte) byte {
	if first == '-' || first >= '0' && first <= '9' {
		return '0'
	}
	return first
}

type member struct {
	name  string
	value json.RawMessage
}

var errShape = errors.New("not as expected")

// members returns the members of an object in their order.
func members(text json.RawMessage) (list []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errShape
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if !ok {
			return nil, errShape
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, member{text, value})
	}
	return list, nil
}

func (d *difference) objects(sent, got json.RawMessage, at string, depth int) {
	a, errA := members(sent)
	b, errB := members(got)
	if errA != nil || errB != nil {
		d.addDifference(at, "the object differs")
		return
	}
	of := make(map[string]json.RawMessage, len(b))
	for _, m := range b {
		of[m.name] = m.value
	}
	for i, m := range a {
		value, ok := of[m.name]
		if !ok {
			d.addDifference(at+"/"+m.name, "a member is missing")
			return
		}
		if i < len(b) && b[i].name != m.name && !d.orderDiffers {
			d.orderDiffers, d.orderAt = true, at
		}
		d.compare(m.value, value, at+"/"+m.name, depth+1)
		delete(of, m.name)
	}
	if len(of) > 0 {
		d.addDifference(at, "there are members that we did not send")
	}
}

func (d *difference) arrays(sent, got json.RawMessage, at string, depth int) {
	var a, b []json.RawMessage
	if json.Unmarshal(sent, &a) != nil || json.Unmarshal(got, &b) != nil || len(a) != len(b) {
		d.addDifference(at, "the list has a different length")
		return
	}
	for i := range a {
		d.compare(a[i], b[i], fmt.Sprintf("%s/%d", at, i), depth+1)
	}
}
