// Package wire is how the platform speaks HTTP: calls in, answers and refusals out, pages.
//
// A part of the platform (people, talk, money …) is a list of routes. A route's handler runs alone on its creator, inside
// World.Do: what it changes is committed before the answer leaves, and undone if it refuses.
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

// maxBody bounds what a caller may send as JSON.
const maxBody = 1 << 20

// Route is one operation: "POST /posts/{post_id}/pin", below the base path.
type Route struct {
	Pattern string
	Handle  func(*Call) (any, error)
	// Live is one of the live connection, which is opened when nobody expects it.
	Live bool
}

// Call is one request of a signed-in creator.
type Call struct {
	*world.Creator
	World   *world.World
	Request *http.Request
	Session world.Session
	body    []byte
	fields  map[string]json.RawMessage // of the body, once somebody asks
}

// Refusal is an answer that says no, in the platform's own words.
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

// NotFound says that a thing is not there.
func NotFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Code: 2002, Name: "not_found", Message: "This " + what + " does not exist."}
}

// Invalid says that a field cannot be taken.
func Invalid(field, message string) error {
	return &Refusal{Status: http.StatusUnprocessableEntity, Code: 2001, Name: "invalid", Message: message, Field: field}
}

// Conflict says that the state of things does not allow it.
func Conflict(message string) error {
	return &Refusal{Status: http.StatusConflict, Code: 2003, Name: "conflict", Message: message}
}

// Forbidden says that the creator may not.
func Forbidden(message string) error {
	return &Refusal{Status: http.StatusForbidden, Code: 2004, Name: "forbidden", Message: message}
}

// NewCall makes a call from a request, whose body it reads.
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

// Body decodes the JSON body. No body is an empty object.
func (c *Call) Body(into any) error {
	if len(c.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		field := ""
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field = wrong.Field
		}
		return &Refusal{Status: http.StatusBadRequest, Code: 2000, Name: "unreadable", Message: "The body is not the JSON we expect.", Field: field}
	}
	return nil
}

// Has says whether the body has a field, for updates that leave the others as they are.
func (c *Call) Has(field string) bool {
	if c.fields == nil {
		// What is no object has no fields.
		_ = json.Unmarshal(c.body, &c.fields)
	}
	_, ok := c.fields[field]
	return ok
}

// ID reads a number of the path; 0, which nothing has, if it is none.
func (c *Call) ID(name string) int64 {
	id, _ := strconv.ParseInt(c.Request.PathValue(name), 10, 64)
	return id
}

// Query reads a parameter.
func (c *Call) Query(name string) string { return c.Request.URL.Query().Get(name) }

// QueryID reads a number among the parameters; 0 if it is none.
func (c *Call) QueryID(name string) int64 {
	id, _ := strconv.ParseInt(c.Query(name), 10, 64)
	return id
}

// QueryIDs reads a repeated number.
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

// QueryTime reads a time or a day; zero if it is none.
func (c *Call) QueryTime(name string) time.Time {
	text := c.Query(name)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// Span reads two days, both included; open ends are zero. If both are given they must be in order.
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

// Span is a stretch of time.
type Span struct{ From, To time.Time }

// Has says whether a time is in it.
func (s Span) Has(t time.Time) bool {
	return (s.From.IsZero() || !t.Before(s.From)) && (s.To.IsZero() || !t.After(s.To))
}

// Person finds someone by the id in the path.
func (c *Call) Person(name string) (*row.Person, error) {
	return c.PersonByID(c.ID(name))
}

// PersonByID finds someone.
func (c *Call) PersonByID(id int64) (*row.Person, error) {
	if p := c.People().Get(id); p != nil {
		return p, nil
	}
	return nil, NotFound("user")
}

// Found is a row of a table, or the refusal that says that there is none.
func Found[T any](what string, r *T) (*T, error) {
	if r == nil {
		return nil, NotFound(what)
	}
	return r, nil
}

// OK is the answer to a change that has nothing to tell.
var OK = map[string]bool{"success": true}
