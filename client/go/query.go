package stagedoor

import (
	"encoding/json"
	"net/url"
	"strings"
)

// query encodes a struct as query parameters. It uses the JSON encoding, so that the names and omission rules in the
// json tags apply.
func query(params any) url.Values {
	if params == nil {
		return nil
	}
	data, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	values := url.Values{}
	for name, raw := range members {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			list = []json.RawMessage{raw}
		}
		items := make([]string, len(list))
		for i, one := range list {
			items[i] = queryText(one)
		}
		// All operations accept comma-separated lists; not all accept a repeated parameter.
		values.Set(name, strings.Join(items, ","))
	}
	return values
}

// queryText returns a JSON value as text; strings without quotes.
func queryText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
