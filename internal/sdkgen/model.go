// Package sdkgen writes the client libraries from openapi/openapi.json.
//
// Load reads the document into a Model, which says in plain terms what there is to call: types, the platform's methods,
// the operations of the interface, events, problems. A language is a function from the model to files; see sdkgen.go.
package sdkgen

import "encoding/json"

// Model is everything a client library is made of. All lists are in a fixed order, so that the same document gives the
// same libraries to the byte.
type Model struct {
	// Version is the document's, such as v1; Catalog is the version of the platform's methods.
	Version, Catalog string
	// Types are all named objects, by name: those of the document, and those that stand inline in it.
	Types []*Type
	// Resources are the platform's, with their methods, by name.
	Resources []*Resource
	// Groups are the operations of the interface itself, as a client shows them.
	Groups []*Group
	// Events are the platform's kinds in the order of the catalogue, then the service's own.
	Events []*Event
	// Problems are all codes, by code.
	Problems []Problem
	// Scopes are all that a key can have.
	Scopes []string

	byName map[string]*Type
}

// Type is an object with a name. (Enumerations and constants stand in the Ref of their field.)
type Type struct {
	// Name is in CamelCase and good in every language, such as MessagePage.
	Name   string
	Doc    string
	Fields []Field
	// Open means that members which are not listed may come as well.
	Open bool
	// Params means that it is sent, not received.
	Params bool
}

// Field is a member of an object, or a parameter.
type Field struct {
	// JSON is the name on the wire, such as chatId or reference_id.
	JSON string
	Doc  string
	Type Ref
	// Required means that it is always there. Whether it can be null is said by Type.Nullable.
	Required bool
	// Default is what holds if it is left out, as JSON; nil if the document does not say.
	Default json.RawMessage
	// Minimum is nil if the document has none.
	Minimum *int64
}

// Kind is what a value is.
type Kind string

// Kinds.
const (
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	// Null is always null.
	Null Kind = "null"
	// Any is any JSON.
	Any Kind = "any"
	// Named is an object with a type of its own.
	Named Kind = "named"
	// Array is a list of Elem, Map an object whose members are all Elem.
	Array Kind = "array"
	Map   Kind = "map"
)

// Ref says what a value is.
type Ref struct {
	Kind Kind
	// Name is the type's, for Named.
	Name string
	// Elem is for Array and Map.
	Elem *Ref
	// Nullable means that it can also be null.
	Nullable bool
	// Enum lists what a String can be. With EnumOpen, other values may come later. Of an Integer, it is the same in digits.
	Enum     []string
	EnumOpen bool
	// Const is the one value that a Boolean can have, as JSON; empty for none.
	Const string
	// Format is date-time, date, uri or empty.
	Format string
}

// Resource is a family of the platform's methods, such as messages.
type Resource struct {
	// Name is as on the wire: massMessages.
	Name    string
	Doc     string
	Methods []*Method
}

// Method is one of the platform's: client.account(id).messages.send.
type Method struct {
	Resource, Name string
	// Doc is a sentence.
	Doc string
	// Read methods change nothing and need no idempotency key.
	Read bool
	// HTTP is GET for a read whose arguments fit into an address, and POST otherwise.
	HTTP string
	// Idempotent means that repeating it is harmless; Destructive, that it cannot be undone; Async, that an event tells when
	// it is finished.
	Idempotent, Destructive, Async bool
	// Params has what it takes; nil for nothing.
	Params *Type
	// Required means that something in Params is.
	Required bool
	// Positional names the arguments in their order.
	Positional []string
	Result     Ref
	// Page is nil for a method that does not list.
	Page  *Paging
	Scope string
	// Emits are events that it normally causes.
	Emits []string
	// Example is arguments that work on the sandbox.
	Example json.RawMessage
	// TimeoutMs is how long the platform is waited for.
	TimeoutMs int64
}

// ID is the full name, such as messages.send.
func (m *Method) ID() string { return m.Resource + "." + m.Name }

// Paging says how a list goes on: the member Out of the answer is sent as the parameter In, until it is null or does not
// change any more.
type Paging struct {
	In, Out string
	// InLatest is what is sent instead of In when the parameter latest is given, which turns the order; empty if there is none.
	InLatest string
	// Items is the member that has the list, Item what is in it.
	Items string
	Item  Ref
}

// Group is a family of operations, such as webhooks.
type Group struct {
	Name string
	// Title is what types of the group are called by; it is that of no resource.
	Title      string
	Doc        string
	Operations []*Operation
}

// Form says how an operation answers. A generator writes the JSON ones; every runtime has the others by hand, because
// they are no plain call.
type Form string

// Forms.
const (
	// JSON is asked and answered in JSON.
	JSON Form = "json"
	// Stream answers with server-sent events.
	Stream Form = "stream"
	// Binary answers with bytes, Upload is sent bytes.
	Binary Form = "binary"
	Upload Form = "upload"
)

// Operation is one operation of the interface: client.webhooks.set(accountId, {url}).
type Operation struct {
	// ID is the document's operationId.
	ID          string
	Group, Name string
	// Doc is a sentence or two; Title a few words.
	Title, Doc string
	// HTTP is GET, POST, …; Path has its parameters in braces.
	HTTP, Path string
	PathParams []Field
	// Params is what it takes besides: its query (InQuery) or its JSON body; nil for nothing.
	Params  *Type
	InQuery bool
	// Required means that something in Params is; BodyRequired, that the body must be sent even if nothing is.
	Required, BodyRequired bool
	Result                 Ref
	// Unwrap names the only member of the answer, which is the result; empty if the answer is the result itself.
	Unwrap string
	Page   *Paging
	// Scope is empty if any key will do.
	Scope string
	Form  Form
	// Accept is sent, if it is not empty, because the operation can answer in several ways.
	Accept string
	// IdempotencyKey means that the operation takes the header. A POST gets one by default.
	IdempotencyKey bool
	// Example is a body that works on the sandbox; nil for none.
	Example json.RawMessage
	// Wait means that it takes Prefer: wait=N, and holds the answer so many seconds until there is news.
	Wait bool
}

// Event is a kind of event.
type Event struct {
	// Kind is as on the wire: message, account.connected.
	Kind string
	Doc  string
	// Data is what is in its data.
	Data Ref
	// Ephemeral ones are not stored; Org ones concern no account; Service ones are our own, not the platform's.
	Ephemeral, Org, Service bool
	// Example is a whole event.
	Example json.RawMessage
}

// Problem is a code that errors can have.
type Problem struct {
	Code      string
	Status    int
	Title     string
	Retryable bool
	Fix       string
}

// Type finds a type; nil if there is none of this name.
func (m *Model) Type(name string) *Type { return m.byName[name] }

// Field finds a member by its name on the wire; nil if there is none.
func (t *Type) Field(json string) *Field {
	for i := range t.Fields {
		if t.Fields[i].JSON == json {
			return &t.Fields[i]
		}
	}
	return nil
}

// Operation finds an operation by its operationId; nil if there is none.
func (m *Model) Operation(id string) *Operation {
	for _, g := range m.Groups {
		for _, o := range g.Operations {
			if o.ID == id {
				return o
			}
		}
	}
	return nil
}
