package model

import "encoding/json"

// Sample is a call with example arguments. Every language writes it as code for the API reference.
type Sample struct {
	// Account is set for methods of the platform, which are called on an account.
	Account bool
	// Owner is the resource or group, Name the method or operation.
	Owner, Name string
	// HTTP is the HTTP method of an operation.
	HTTP string
	// Path holds the values of the path parameters, in order. A value that starts with $ is a variable
	// that every sample has.
	Path []string
	// Params is the type of the other parameters, Args their values; both nil for none.
	Params *Type
	Args   *Node
	Paged  bool
}

// SampleWidth is the preferred length of a line in a sample.
const SampleWidth = 72

// ParseObject parses a JSON object. It returns nil for anything else and for an empty object.
func ParseObject(raw json.RawMessage) *Node {
	n := &Node{}
	if len(raw) == 0 || json.Unmarshal(raw, n) != nil || len(n.Keys) == 0 {
		return nil
	}
	return n
}
