package requestlog

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Fields are the fields of a request that its problem names, in the form in which they are stored: one code and pointer
// per line. They never contain a value, nor the problem's text, which may quote one.
type Fields string

// Field is one entry of Fields.
type Field struct{ Pointer, Code string }

const (
	// maxFields bounds the number of fields, maxPointer the length of a pointer in bytes.
	maxFields, maxPointer = 16, 128
	// maxName bounds one name in a pointer, in bytes.
	maxName = 64
)

// FieldsOf returns the codes and pointers of a problem's fields. A pointer can contain names that the caller chose,
// which may be sensitive, so FieldsOf replaces every name that does not look like an identifier.
func FieldsOf(wrong []problem.Field) Fields {
	if len(wrong) == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range wrong[:min(len(wrong), maxFields)] {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.Code + " " + plainPointer(f.Pointer))
	}
	return Fields(b.String())
}

// All returns the fields, an empty list if there are none.
func (f Fields) All() []Field {
	list := []Field{}
	if f == "" {
		return list
	}
	for line := range strings.SplitSeq(string(f), "\n") {
		code, pointer, _ := strings.Cut(line, " ")
		list = append(list, Field{pointer, code})
	}
	return list
}

// plainPointer replaces names that do not look like identifiers with *.
func plainPointer(pointer string) string {
	names := strings.Split(pointer, "/")
	for i, name := range names {
		if !isName(name) {
			names[i] = "*"
		}
	}
	short := strings.Join(names, "/")
	if len(short) > maxPointer {
		short = short[:maxPointer]
	}
	return short
}

func isName(text string) bool {
	if len(text) > maxName {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' && c != '~' {
			return false
		}
	}
	return true
}
