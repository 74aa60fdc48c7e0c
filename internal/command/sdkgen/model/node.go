package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Node is JSON that remembers the order of its members, since fields are written in the order of the document.
type Node struct {
	// Keys are the members' names in their order, and Member has their values; both are nil for what is no object.
	Keys   []string
	Member map[string]*Node
	// Items are those of a list.
	Items []*Node
	// Raw is the JSON itself.
	Raw json.RawMessage
}

// UnmarshalJSON reads any JSON.
func (n *Node) UnmarshalJSON(data []byte) error {
	n.Raw = bytes.Clone(data)
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

func (n *Node) array(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, raw := range list {
		item := &Node{}
		if err := item.UnmarshalJSON(raw); err != nil { // not Unmarshal, which would leave out a null
			return err
		}
		n.Items = append(n.Items, item)
	}
	return nil
}

func (n *Node) object(data []byte) error {
	n.Member = map[string]*Node{}
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
		value := &Node{}
		if err := d.Decode(value); err != nil {
			return err
		}
		n.Keys = append(n.Keys, key)
		n.Member[key] = value
	}
	return nil
}

// at follows names; it never is nil, so that what is absent reads as empty.
func (n *Node) at(names ...string) *Node {
	for _, name := range names {
		next := n.Member[name]
		if next == nil {
			return &Node{}
		}
		n = next
	}
	return n
}

func (n *Node) has(name string) bool { return n.Member[name] != nil }

// text is the string it is, or empty.
func (n *Node) text() string {
	var s string
	if json.Unmarshal(n.Raw, &s) != nil {
		return ""
	}
	return s
}

func (n *Node) truth() bool { return string(n.Raw) == "true" }

func (n *Node) number() int64 {
	var i int64
	if json.Unmarshal(n.Raw, &i) != nil {
		return 0
	}
	return i
}

// texts is a list of strings; of a single string, a list of one.
func (n *Node) texts() []string {
	if s := n.text(); s != "" {
		return []string{s}
	}
	var list []string
	for _, item := range n.Items {
		if s := item.text(); s != "" {
			list = append(list, s)
		} else {
			list = append(list, string(item.Raw))
		}
	}
	return list
}
