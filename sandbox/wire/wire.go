// Package wire holds the HTTP conventions of the platform: calls, refusals and pages.
//
// Each part of the platform (people, messages, money …) is a list of routes. The handler of a route runs inside
// World.Do, with exclusive access to its creator. Its changes are committed before the response is sent, or rolled back
// if it returns an error.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// maxBody limits the size of a JSON body.
const maxBody = 1 << 20

// Handler answers a call.
type Handler func(*Call) (any, error)

// Route is one operation: "POST /posts/{post_id}/pin", below the base path.
type Route struct {
	Pattern string
	Handle  Handler
	// Live marks a route of the live connection, which opens at unpredictable times, so faults with a count skip it.
	Live bool
}

// Call is one request of a signed-in creator.
type Call struct {
	*world.Creator
	World   *world.World
	Request *http.Request
	Session world.Session
	body    []byte
	fields  map[string]json.RawMessage // of the body, decoded by Has
}

// Refusal is an error response of the platform.
type Refusal struct {
	Status     int    `json:"-"`
	Code       int    `json:"code"`
	Name       string `json:"name"`
	Message    string `json:"message"`
	Field      string `json:"field,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"`
	Challenge  any    `json:"challenge,omitempty"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Code, r.Name, r.Message) }

// NotFound returns the refusal for an object that does not exist.
func NotFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Code: 2002, Name: "not_found", Message: "This " + what + " does not exist."}
}

// Invalid returns the refusal of an invalid field.
func Invalid(field, message string) error {
	return &Refusal{Status: http.StatusUnprocessableEntity, Code: 2001, Name: "invalid", Message: message, Field: field}
}

// Conflict returns the refusal of a request that the current state does not allow.
func Conflict(message string) error {
	return &Refusal{Status: http.StatusConflict, Code: 2003, Name: "conflict", Message: message}
}

// Forbidden returns the refusal of a request that the caller is not allowed to make.
func Forbidden(message string) error {
	return &Refusal{Status: http.StatusForbidden, Code: 2004, Name: "forbidden", Message: message}
}

// NewCall returns the call of a request. It reads the body.
func NewCall(w *world.World, r *http.Request, s world.Session) (*Call, error) {
	c := &Call{World: w, Request: r, Session: s}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, &Refusal{Status: http.StatusBadRequest, Code: 2000, Name: "unreadable", Message: "The body could not be read."}
	}
	if len(body) > maxBody {
		return nil, &Refusal{Status: http.StatusRequestEntityTooLarge, Code: 2006, Name: "too_large", Message: "The body is larger than 1 MiB."}
	}
	c.body = body
	return c, nil
}

// Body decodes the JSON body. A missing body counts as an empty object.
func (c *Call) Body(into any) error {
	if len(c.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		field := ""
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field = wrong.Field
		}
		return &Refusal{Status: http.StatusBadRequest, Code: 2000, Name: "unreadable", Message: "The body is not valid JSON for this request.", Field: field}
	}
	return nil
}

// Has reports whether the body has a field, for updates that change only the given fields.
func (c *Call) Has(field string) bool {
	if c.fields == nil {
		// A body that is not an object has no fields.
		_ = json.Unmarshal(c.body, &c.fields)
	}
	_, ok := c.fields[field]
	return ok
}

// ID returns an id from the path, or 0, which is never an id, if it is not a number.
func (c *Call) ID(name string) int64 {
	id, _ := strconv.ParseInt(c.Request.PathValue(name), 10, 64)
	return id
}

func (c *Call) Query(name string) string { return c.Request.URL.Query().Get(name) }

// QueryID returns an id from the query, or 0 if it is not a number.
func (c *Call) QueryID(name string) int64 {
	id, _ := strconv.ParseInt(c.Query(name), 10, 64)
	return id
}

// QueryIDs returns the ids of a query parameter that is repeated or separated by commas.
func (c *Call) QueryIDs(name string) []int64 {
	var ids []int64
	for _, text := range c.Request.URL.Query()[name] {
		for one := range strings.SplitSeq(text, ",") {
			if id, err := strconv.ParseInt(one, 10, 64); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// QueryTime returns a time or a day from the query, or the zero time if it is neither.
func (c *Call) QueryTime(name string) time.Time {
	text := c.Query(name)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// Span returns the time span between two query parameters, including both. A missing end is zero. It refuses an end
// that is before the start.
func (c *Call) Span(from, to string) (Span, error) {
	s := Span{From: c.QueryTime(from), To: c.QueryTime(to)}
	if !s.To.IsZero() && len(c.Query(to)) == len(time.DateOnly) {
		s.To = s.To.AddDate(0, 0, 1).Add(-time.Millisecond)
	}
	if !s.From.IsZero() && !s.To.IsZero() && s.To.Before(s.From) {
		return Span{}, Invalid(to, "The end is before the start.")
	}
	return s, nil
}

// Span is a time span that includes both ends. A zero end is open.
type Span struct{ From, To time.Time }

func (s Span) Has(t time.Time) bool {
	return (s.From.IsZero() || !t.Before(s.From)) && (s.To.IsZero() || !t.After(s.To))
}

// Person returns the person whose id is in the path.
func (c *Call) Person(name string) (*row.Person, error) {
	return c.PersonByID(c.ID(name))
}

// User returns the person whose id is in the path as user_id.
func User(c *Call) (*row.Person, error) { return c.Person("user_id") }

// PersonByID returns a person, or the refusal NotFound.
func (c *Call) PersonByID(id int64) (*row.Person, error) {
	if p := c.People().Get(id); p != nil {
		return p, nil
	}
	return nil, NotFound("user")
}

// Found returns r, or the refusal NotFound if r is nil.
func Found[T any](what string, r *T) (*T, error) {
	if r == nil {
		return nil, NotFound(what)
	}
	return r, nil
}

// On returns the handler of a route that acts on one object. find returns the object, or a refusal.
func On[T any](find func(*Call) (T, error), handle func(*Call, T) (any, error)) Handler {
	return func(c *Call) (any, error) {
		one, err := find(c)
		if err != nil {
			return nil, err
		}
		return handle(c, one)
	}
}

// checked is a body that has rules of its own.
type checked interface{ Check(*Call) error }

// Read returns the handler of a route that takes a JSON body. If the body has a method Check, Read calls it.
func Read[In any](handle func(*Call, *In) (any, error)) Handler {
	return func(c *Call) (any, error) {
		in := new(In)
		if err := c.Body(in); err != nil {
			return nil, err
		}
		if body, ok := any(in).(checked); ok {
			if err := body.Check(c); err != nil {
				return nil, err
			}
		}
		return handle(c, in)
	}
}

// ReadOn is On for a route that takes a JSON body.
func ReadOn[T, In any](find func(*Call) (T, error), handle func(*Call, T, *In) (any, error)) Handler {
	return On(find, func(c *Call, one T) (any, error) {
		return Read(func(c *Call, in *In) (any, error) { return handle(c, one, in) })(c)
	})
}

// Show returns the handler of a route that answers with the view of one object.
func Show[T, V any](find func(*Call) (T, error), view func(*world.Creator, T) V) Handler {
	return On(find, func(c *Call, one T) (any, error) { return view(c.Creator, one), nil })
}

// Set returns the handler of a route that switches a property of one object on or off.
func Set[T any](find func(*Call) (T, error), set func(*Call, T, bool) (any, error), on bool) Handler {
	return On(find, func(c *Call, one T) (any, error) { return set(c, one, on) })
}

// record is a pointer to a record of a table.
type record[T any] interface {
	*T
	keyed
}

// Remove returns the handler of a route that deletes one record.
func Remove[T any, P record[T]](
	find func(*Call) (P, error), table func(*world.Creator) *world.Table[T, P],
) Handler {
	return On(find, func(c *Call, one P) (any, error) {
		table(c.Creator).Delete(one.Key())
		return OK, nil
	})
}

// Change returns the handler of a route that changes and saves one record.
func Change[T any, P record[T]](
	find func(*Call) (P, error), table func(*world.Creator) *world.Table[T, P], change func(*Call, P),
) Handler {
	return On(find, func(c *Call, one P) (any, error) {
		change(c, one)
		table(c.Creator).Put(one)
		return OK, nil
	})
}

// OK is the answer to a change that returns no data.
var OK = map[string]bool{"success": true}
