package endpoint

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// inOrder returns an example with its members in the order of the fields of a type, as a reader expects them. It panics if
// the example is not JSON: it is written in the code.
func inOrder(example any, typ reflect.Type) json.RawMessage {
	text, err := json.Marshal(example)
	if err != nil {
		panic(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		panic(err)
	}
	if text, err = json.Marshal(sorted(value, typ)); err != nil {
		panic(err)
	}
	return text
}

func sorted(value any, typ reflect.Type) any {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch v := value.(type) {
	case []any:
		if typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array {
			for i := range v {
				v[i] = sorted(v[i], typ.Elem())
			}
		}
	case map[string]any:
		if typ.Kind() != reflect.Struct {
			return v
		}
		list := apimodel.Object[any]{}
		addSorted(&list, v, typ)
		for _, name := range slices.Sorted(maps.Keys(v)) { // members that the type does not list
			list = append(list, apimodel.Member[any]{Name: name, Value: v[name]})
		}
		return list
	}
	return value
}

// addSorted moves the members that are fields of a type from members to list.
func addSorted(list *apimodel.Object[any], members map[string]any, typ reflect.Type) {
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			if embedded := field.Type; embedded.Kind() == reflect.Struct {
				addSorted(list, members, embedded)
			}
			continue
		}
		if value, ok := members[name]; ok {
			*list = append(*list, apimodel.Member[any]{Name: name, Value: sorted(value, field.Type)})
			delete(members, name)
		}
	}
}
