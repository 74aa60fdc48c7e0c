package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/call"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Access decides which quota a call uses, and whether it may be a GET.
type Access string

// The kinds of access.
const (
	Read  Access = "read"
	Write Access = "write"
)

// Method is one method of a platform. It is immutable.
type Method struct {
	// Platform is the id of the catalog.
	Platform       string
	Resource, Name string
	Summary        string
	Access         Access
	// Idempotent means that repeating the call is harmless. Destructive means that it cannot be undone. Async means
	// that the platform finishes later and reports the result with an event. Sensitive means that it concerns money
	// or legal data. Outbound means that it sends or publishes something to other people.
	Idempotent, Destructive, Async, Sensitive, Outbound bool
	// Credentials lists what can call the method; empty for all.
	Credentials []Credentials
	// Paginated means that the method has the arguments limit and cursor.
	Paginated bool
	// Emits are the events that a successful call normally causes.
	Emits []string
	// Cost is the number of calls that one call counts as.
	Cost    int
	Timeout time.Duration
	// Since is the version of the manifest that added the method. Deprecated is the version that will remove it, or
	// empty.
	Since, Deprecated string
	// Example holds arguments that work on the sandbox's seed data, as a JSON object.
	Example json.RawMessage

	id     string
	spec   *call.Spec
	result *shape.Shape
}

// Args are valid arguments of a method. Args.Request builds the request to the platform; Args.JSON returns their
// canonical form.
type Args = call.Args

// Request is a request to the platform without scheme and host, which are Catalog.Origin.
type Request = call.Request

// ID returns the full name, such as messages.send.
func (m *Method) ID() string { return m.id }

// Parse reads arguments from a body: an object of arguments, or {"args": [...]} with positional arguments. An empty
// body has none. If lenient, unknown arguments are dropped instead of rejected. Errors are problems that list the
// invalid arguments.
func (m *Method) Parse(body []byte, lenient bool) (Args, error) { return m.spec.Parse(body, lenient) }

// FromObject reads arguments from a JSON object.
func (m *Method) FromObject(body []byte, lenient bool) (Args, error) {
	return m.spec.FromObject(body, lenient)
}

// FromPositional reads arguments from a JSON array.
func (m *Method) FromPositional(list []byte, lenient bool) (Args, error) {
	return m.spec.FromPositional(list, lenient)
}

// FromQuery reads arguments from the query of a GET. It does not check Access; the caller must, because only reads
// may be called with a GET.
func (m *Method) FromQuery(values url.Values, lenient bool) (Args, error) {
	return m.spec.FromQuery(values, lenient)
}

// Positional returns the names of the arguments in positional order.
func (m *Method) Positional() []string { return m.spec.Names() }

// ArgsSchema returns the JSON Schema (2020-12) of the arguments.
func (m *Method) ArgsSchema() json.RawMessage { return m.spec.Schema() }

// ArgSchema returns the schema of one argument.
func (m *Method) ArgSchema(name string) json.RawMessage { return m.spec.PropertySchema(name) }

// Required returns the names of the required arguments.
func (m *Method) Required() []string {
	var names []string
	for _, p := range m.spec.Properties() {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// ResultSchema returns the JSON Schema (2020-12) of the result. It refers to types as #/types/Name.
func (m *Method) ResultSchema() json.RawMessage { return m.result.Schema() }

// ResultName returns the result in short form: Message, Page<Message>, {deleted:true}.
func (m *Method) ResultName() string { return m.result.Summary() }

// Errors about a response or frame of the platform.
var (
	// ErrInvalid means that it is not JSON or exceeds a limit.
	ErrInvalid = errors.New("cannot parse the platform's response")
	// ErrChanged means that something the manifest relies on is missing or of another type.
	ErrChanged = errors.New("the platform's interface has changed")
)

// responseLimits bound a response of the platform.
var responseLimits = tape.Limits{Bytes: 32 << 20, Depth: 64, Nodes: 1 << 21}

// Result maps a response of the platform to a result. Errors are ErrInvalid, or ErrChanged with the place in the
// response; neither contains a value. The result does not alias the body.
func (m *Method) Result(body []byte) ([]byte, error) {
	return m.AppendResult(make([]byte, 0, ResultSize(body)), body)
}

// AppendResult is like Result but appends to a buffer.
func (m *Method) AppendResult(to, body []byte) ([]byte, error) {
	return mapResponse(to, m.result, body, responseLimits)
}

// ResultSize estimates the capacity that the result of a response needs.
func ResultSize(body []byte) int { return len(body) + len(body)/4 + 64 }

// mapResponse parses a body and applies a shape to it. A shape of constants also accepts an empty body.
func mapResponse(to []byte, sh *shape.Shape, body []byte, limits tape.Limits) ([]byte, error) {
	if !sh.ReadsResponse() && len(body) == 0 {
		body = emptyResponse
	}
	t, err := tape.Read(body, limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	out, err := sh.Append(to, t, tape.Root)
	if err != nil {
		return nil, mappingError(err)
	}
	return out, nil
}

// emptyResponse replaces an empty body if the shape does not read it.
var emptyResponse = []byte("null")

// mappingError wraps an error of shape.Append in ErrInvalid or ErrChanged.
func mappingError(err error) error {
	if errors.Is(err, shape.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", ErrChanged, err)
}
