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

// Access decides which quota a call uses, and whether it may come as a GET.
type Access string

// Accesses.
const (
	Read  Access = "read"
	Write Access = "write"
)

// Method is one call of the platform's.
type Method struct {
	Resource, Name string
	Summary        string
	Access         Access
	// Idempotent means that repeating it is harmless; Destructive, that it cannot be undone; Async, that the platform
	// finishes later and an event tells; Sensitive, that it touches money or legal data; Outbound, that it sends or
	// publishes something to other people.
	Idempotent, Destructive, Async, Sensitive, Outbound bool
	// Paginated methods take limit and cursor.
	Paginated bool
	// Emits are the events that a successful call normally causes.
	Emits []string
	// Cost is how many calls it counts as.
	Cost    int
	Timeout time.Duration
	// Since is the version that brought it; Deprecated the one that will do without, empty for none.
	Since, Deprecated string
	// Example is arguments that work on the sandbox's seed data, as JSON.
	Example json.RawMessage

	id     string
	spec   *call.Spec
	result *shape.Shape
}

// Args are arguments that satisfy their method. Args.Request makes the request to the platform of them, Args.JSON is their
// one canonical form.
type Args = call.Args

// Request is what goes to the platform: method, path, query, headers, body. Scheme and host are Catalog.Origin.
type Request = call.Request

// ID is the method's full name, such as messages.send.
func (m *Method) ID() string { return m.id }

// Parse reads arguments from a body, which is an object of them or {"args": [...]} by position; an empty one has none.
// With lenient, unknown arguments are dropped instead of refused. Errors are problems that point at what is wrong.
func (m *Method) Parse(body []byte, lenient bool) (Args, error) { return m.spec.Parse(body, lenient) }

// FromObject reads arguments from an object.
func (m *Method) FromObject(body []byte, lenient bool) (Args, error) {
	return m.spec.FromObject(body, lenient)
}

// FromPositional reads arguments from a JSON list.
func (m *Method) FromPositional(list []byte, lenient bool) (Args, error) {
	return m.spec.FromPositional(list, lenient)
}

// FromQuery reads arguments from a GET's parameters. Whether the method may be called so is the caller's to ask: only
// reads may.
func (m *Method) FromQuery(values url.Values, lenient bool) (Args, error) {
	return m.spec.FromQuery(values, lenient)
}

// Positional lists the arguments' names in positional order.
func (m *Method) Positional() []string { return m.spec.Names() }

// ArgsSchema is the JSON Schema 2020-12 of the arguments.
func (m *Method) ArgsSchema() json.RawMessage { return m.spec.Schema() }

// ArgSchema is the schema of one argument.
func (m *Method) ArgSchema(name string) json.RawMessage { return m.spec.PropertySchema(name) }

// Required lists the arguments that must be given.
func (m *Method) Required() []string {
	var names []string
	for _, p := range m.spec.Properties() {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// ResultSchema is the JSON Schema 2020-12 of the result; it refers to types as #/types/Name.
func (m *Method) ResultSchema() json.RawMessage { return m.result.Schema() }

// ResultName is the result in short: Message, Page<Message>, {deleted:true}.
func (m *Method) ResultName() string { return m.result.Summary() }

// What can be wrong with an answer of the platform's.
var (
	// ErrInvalid means that it is not JSON, or beyond all bounds.
	ErrInvalid = errors.New("the platform's answer is not understood")
	// ErrChanged means that something the manifest counts on is missing or of another type.
	ErrChanged = errors.New("the platform's interface has changed")
)

// answerLimits bound what a platform may send.
var answerLimits = tape.Limits{Bytes: 32 << 20, Depth: 64, Nodes: 1 << 21}

// Result turns the platform's answer into ours. Errors are ErrInvalid, or ErrChanged with the place in the answer; neither
// tells a value. The body may be used again afterwards.
func (m *Method) Result(body []byte) ([]byte, error) {
	return m.AppendResult(make([]byte, 0, ResultSize(body)), body)
}

// AppendResult is Result behind what is there already.
func (m *Method) AppendResult(to, body []byte) ([]byte, error) {
	return apply(to, m.result, body, answerLimits)
}

// ResultSize is how large a result of an answer usually is at most.
func ResultSize(body []byte) int { return len(body) + len(body)/4 + 64 }

// apply runs a shape over a whole text.
func apply(to []byte, sh *shape.Shape, body []byte, limits tape.Limits) ([]byte, error) {
	if !sh.Reads() && len(body) == 0 {
		body = nothing
	}
	t, err := tape.Read(body, limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	out, err := sh.Append(to, t, tape.Root)
	if err != nil {
		return nil, answerError(err)
	}
	return out, nil
}

// nothing stands for an empty answer where none is needed.
var nothing = []byte("null")

func answerError(err error) error {
	if errors.Is(err, shape.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", ErrChanged, err)
}
