package stagedoor

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// CallOption changes one call.
type CallOption func(*call)

// call is a request to which options are applied.
type call struct {
	request Request
	// unwrap names the member of the response that is the result. Empty if the response itself is the result.
	unwrap string
	// response, if not nil, is set to the response.
	response *Response
}

// WithIdempotencyKey makes the service carry out the call only once per key within 24 hours. Default for writes: a
// random key. Use your own to be safe across restarts of your program.
func WithIdempotencyKey(key string) CallOption {
	return func(c *call) { c.request.IdempotencyKey = key }
}

// WithDryRun checks the call without carrying it out. The result is empty.
func WithDryRun() CallOption { return WithHeader("X-Dry-Run", "true") }

// WithMaxRetries sets the maximum number of retries of this call.
func WithMaxRetries(n int) CallOption {
	return func(c *call) {
		c.request.MaxRetries = n
		if n <= 0 {
			c.request.MaxRetries = -1
		}
	}
}

// WithWait makes the service delay its response until something changes, for at most this many seconds (0 to 25). The
// calls of Connect support it.
func WithWait(seconds int) CallOption {
	return WithHeader("Prefer", "wait="+strconv.Itoa(seconds))
}

// WithLenient makes a method of the platform ignore unknown arguments instead of rejecting them.
func WithLenient() CallOption { return WithHeader("Prefer", "handling=lenient") }

// WithHeader sends a header with this call.
func WithHeader(name, value string) CallOption {
	return func(c *call) {
		if c.request.Header == nil {
			c.request.Header = http.Header{}
		}
		c.request.Header.Set(name, value)
	}
}

// WithResponse stores the response, for its headers and for the body as the service sent it.
func WithResponse(into *Response) CallOption {
	return func(c *call) { c.response = into }
}

// ensureKey sets a random idempotency key unless the caller set one.
func ensureKey(c *call) {
	if c.request.IdempotencyKey == "" {
		c.request.IdempotencyKey = newIdempotencyKey()
	}
}

// do applies options, sends the call and decodes its result. keyed calls get an idempotency key.
func do[T any](ctx context.Context, client *Client, c call, keyed bool, options []CallOption) (*T, error) {
	for _, o := range options {
		o(&c)
	}
	if keyed {
		ensureKey(&c)
	}
	res, err := client.Request(ctx, c.request)
	if err != nil {
		return nil, err
	}
	if c.response != nil {
		*c.response = *res
	}
	result := new(T)
	body := res.Body
	if c.unwrap != "" {
		var members map[string]json.RawMessage
		if err := res.JSON(&members); err != nil {
			return nil, err
		}
		body = members[c.unwrap]
	}
	if len(body) == 0 {
		return result, nil
	}
	if err := json.Unmarshal(body, result); err != nil {
		return nil, fmt.Errorf("stagedoor: cannot decode the response to %s: %w", res.RequestID(), err)
	}
	return result, nil
}

// invoke calls a method of the platform. Only calls that are not repeatable get an idempotency key.
func invoke[T any](ctx context.Context, a *AccountClient, m method, params any, options []CallOption) (*T, error) {
	c := call{unwrap: "result", request: Request{
		Method: http.MethodPost, Path: "/v1/accounts/" + url.PathEscape(a.ID) + "/" + m.name, Repeatable: m.repeatable,
	}}
	switch {
	case m.get:
		c.request.Method, c.request.Query = http.MethodGet, query(params)
	case params != nil:
		c.request.Body = params
	}
	return do[T](ctx, a.client, c, !m.repeatable, options)
}

// method describes a method of the platform for invoke.
type method struct {
	// name is resource/method.
	name string
	// get means that the method is called with GET, repeatable that it is safe to call it twice.
	get, repeatable bool
}

// Call calls a method of the platform by its name, such as messages.send. Use it for methods that are chosen at run
// time. args is an object of arguments by name, or nil. The result is JSON.
func (a *AccountClient) Call(ctx context.Context, name string, args any, options ...CallOption) (json.RawMessage, error) {
	resource, of, ok := strings.Cut(name, ".")
	if !ok {
		return nil, fmt.Errorf("stagedoor: %q is not a method name such as messages.send", name)
	}
	result, err := invoke[json.RawMessage](ctx, a, method{name: path("%s/%s", resource, of)}, args, options)
	if err != nil {
		return nil, err
	}
	return *result, nil
}

// pages iterates over a paginated list. fetch returns the items of the page at a cursor, and the cursor of the next
// page. The list ends when that is empty or no longer changes.
func pages[T any](cursor string, fetch func(cursor string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			items, next, err := fetch(at)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" || next == at {
				return
			}
			at = next
		}
	}
}

// path formats a path with escaped parameters.
func path(format string, values ...any) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = url.PathEscape(fmt.Sprint(v))
	}
	return fmt.Sprintf(format, escaped...)
}

// text returns *s, or an empty string if s is nil.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Ptr returns a pointer to a value, for optional fields whose zero value has a meaning.
func Ptr[T any](v T) *T { return &v }

// doRaw is do for a result without a type.
func doRaw(ctx context.Context, client *Client, c call, keyed bool, options []CallOption) (json.RawMessage, error) {
	result, err := do[json.RawMessage](ctx, client, c, keyed, options)
	if err != nil {
		return nil, err
	}
	return *result, nil
}
