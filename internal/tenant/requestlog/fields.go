package requestlog

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Fields are the fields of a request that its problem pointed at: a code and a pointer per line, as the table has them. They never hold a
// value, nor a problem's words about one.
type Fields string

// Field is one of them.
type Field struct{ Pointer, Code string }

const (
	// maxFields and maxPointer bound what is kept of a request that is wrong in many places or far down.
	maxFields, maxPointer = 16, 128
	// maxName bounds one name in a pointer.
	maxName = 64
)

// FieldsOf keeps where a request was wrong. Names in pointers are the caller's where the service knows none of them, so a name that does
// not look like one is not kept.
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

// All lists the fields.
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

// plainPointer writes * for names that do not look like one.
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
