package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Node is a JSON value that keeps the order of its members, so that the libraries have fields in the
// order of the document.
type Node struct {
	// Keys holds the names of an object's members in order, Member their values. Both are nil for other values.
	Keys   []string
	Member map[string]*Node
	// Items holds the elements of an array.
	Items []*Node
	// Raw is the value as JSON.
	Raw json.RawMessage
}

// UnmarshalJSON accepts any JSON value.
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
		if err := item.UnmarshalJSON(raw); err != nil { // json.Unmarshal would skip this method for null
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
			return fmt.Errorf("the name of a member is %v, not a string", token)
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

// at returns the value at a path of member names. It is never nil: an absent value is an empty Node.
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

// text returns the value of a string, or an empty string for other values.
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

// texts returns the elements of an array as strings. A single string counts as an array of one.
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
