package stagedoor

import (
	"encoding/json"
	"net/url"
	"strings"
)

// query is the members of a struct as the parameters of an address. It goes by way of JSON, so that the tags say once what
// a member is called and when it is left out.
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
		words := make([]string, len(list))
		for i, one := range list {
			words[i] = plain(one)
		}
		// Every list in an address may be written with commas; not every one may be repeated.
		values.Set(name, strings.Join(words, ","))
	}
	return values
}

// plain is a JSON value as it stands in an address: texts without quotes.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
