package sdkgen

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// node is JSON that remembers the order of its members, since fields are written in the order of the document.
type node struct {
	keys   []string
	member map[string]*node
	items  []*node
	raw    json.RawMessage
}

func (n *node) UnmarshalJSON(data []byte) error {
	n.raw = bytes.Clone(data)
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	switch data[0] {
	case '[':
		return n.array(data)
	case '{':
		return n.object(data)
	}
	return nil
}

func (n *node) array(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, raw := range list {
		item := &node{}
		if err := item.UnmarshalJSON(raw); err != nil { // not Unmarshal, which would leave out a null
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func (n *node) object(data []byte) error {
	n.member = map[string]*node{}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("a member has no name but %v", token)
		}
		value := &node{}
		if err := d.Decode(value); err != nil {
			return err
		}
		n.keys = append(n.keys, key)
		n.member[key] = value
	}
	return nil
}

// at follows names; it never is nil, so that what is absent reads as empty.
func (n *node) at(names ...string) *node {
	for _, name := range names {
		next := n.member[name]
		if next == nil {
			return &node{}
		}
		n = next
	}
	return n
}

func (n *node) has(name string) bool { return n.member[name] != nil }

// text is the string it is, or empty.
func (n *node) text() string {
	var s string
	if json.Unmarshal(n.raw, &s) != nil {
		return ""
	}
	return s
}

func (n *node) truth() bool { return string(n.raw) == "true" }

func (n *node) number() int64 {
	var i int64
	if json.Unmarshal(n.raw, &i) != nil {
		return 0
	}
	return i
}

// texts is a list of strings; of a single string, a list of one.
func (n *node) texts() []string {
	if s := n.text(); s != "" {
		return []string{s}
	}
	var list []string
	for _, item := range n.items {
		if s := item.text(); s != "" {
			list = append(list, s)
		} else {
			list = append(list, string(item.raw))
		}
	}
	return list
}
