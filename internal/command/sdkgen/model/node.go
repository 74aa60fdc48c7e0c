package model

import (
	"bytes"
	"encoding/json"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// Node is a JSON value that keeps the order of its members, so that a sample has its arguments in the order of the
// document.
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
	var members apimodel.Object[Node]
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	n.Member = map[string]*Node{}
	for i := range members {
		n.Keys = append(n.Keys, members[i].Name)
		n.Member[members[i].Name] = &members[i].Value
	}
	return nil
}
