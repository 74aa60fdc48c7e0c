package apimodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

var reference = regexp.MustCompile(`"\$ref": ?"([^"]*)"`)

// Bundle returns a schema that can be used alone: the schemas in all that it refers to by a prefix and their name are in
// its $defs. The schema must be an object in JSON.
func Bundle(schema json.RawMessage, prefix string, all map[string]json.RawMessage) json.RawMessage {
	var (
		defs    bytes.Buffer
		collect func(text json.RawMessage) json.RawMessage
		seen    = map[string]bool{}
	)
	collect = func(text json.RawMessage) json.RawMessage {
		for _, m := range reference.FindAllSubmatch(text, -1) {
			name, ok := bytes.CutPrefix(m[1], []byte(prefix))
			if !ok || seen[string(name)] {
				continue
			}
			seen[string(name)] = true
			def := collect(all[string(name)])
			fmt.Fprintf(&defs, ",%q:%s", name, def)
		}
		return bytes.ReplaceAll(text, []byte(`"`+prefix), []byte(`"#/$defs/`))
	}
	schema = bytes.TrimSpace(collect(schema))
	if defs.Len() == 0 {
		return schema
	}
	separator := ","
	if bytes.Equal(schema, []byte("{}")) {
		separator = ""
	}
	head := bytes.TrimSuffix(schema, []byte("}"))
	return fmt.Appendf(bytes.Clone(head), `%s"$defs":{%s}}`, separator, defs.Bytes()[1:])
}
