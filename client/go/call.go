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

// call is a request with what its options say.
type call struct {
	request Request
	// unwrap names the member of the answer that is the result; empty if it is the answer.
	unwrap string
}

// WithIdempotencyKey makes the call happen once for this key, within 24 hours. A call that writes has a random one unless
// it is given; give one of your own to be safe over a restart.
func WithIdempotencyKey(key string) CallOption {
	return func(c *call) { c.request.IdempotencyKey = key }
}

// WithDryRun checks everything and calls nothing. The result is empty.
func WithDryRun() CallOption { return WithHeader("X-Dry-Run", "true") }

// WithMaxRetries is how often this call is repeated at most.
func WithMaxRetries(n int) CallOption {
	return func(c *call) {
		c.request.MaxRetries = n
		if n <= 0 {
			c.request.MaxRetries = -1
		}
	}
}

// WithWait holds the answer for up to so many seconds (0 to 25), until there is something new. Connect's calls take it.
func WithWait(seconds int) CallOption {
	return WithHeader("Prefer", "wait="+strconv.Itoa(seconds))
}

// WithLenient drops arguments that a method of the platform does not know, instead of refusing them.
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

// withKey gives a call that writes a key of its own, unless its caller did.
func withKey(c *call) {
	if c.request.IdempotencyKey == "" {
		c.request.IdempotencyKey = newKey()
	}
}

// do makes a call and reads its result.
func do[T any](ctx context.Context, client *Client, c call, keyed bool, options []CallOption) (*T, error) {
	for _, o := range options {
		o(&c)
	}
	if keyed {
		withKey(&c)
	}
	res, err := client.Request(ctx, c.request)
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("stagedoor: the answer %s is not what was expected: %w", res.RequestID(), err)
	}
	return result, nil
}

// invoke calls a method of the platform. What reads goes by GET, if its arguments fit into an address; what can be
// repeated needs no key.
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

// method is what invoke needs to know of a method.
type method struct {
	// name is resource/method.
	name string
	// get means that it can be called by GET; repeatable, that calling it twice does no harm.
	get, repeatable bool
}

// Call calls a method of the platform by its name, such as messages.send, for those who choose it at run time. Args is an
// object of arguments by name, or nil. The result is JSON.
func (a *AccountClient) Call(ctx context.Context, name string, args any, options ...CallOption) (json.RawMessage, error) {
	resource, of, ok := strings.Cut(name, ".")
	if !ok {
		return nil, fmt.Errorf("stagedoor: %q is no method; they are called resource.method", name)
	}
	result, err := invoke[json.RawMessage](ctx, a, method{name: path("%s/%s", resource, of)}, args, options)
	if err != nil {
		return nil, err
	}
	return *result, nil
}

// pages goes through a list. Fetch gets the page behind a cursor, and tells what is on it and the cursor of the next one;
// a list ends when there is none, or when it does not move on.
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

// path fills the parameters of a path, which stand in braces, in their order.
func path(format string, values ...any) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = url.PathEscape(fmt.Sprint(v))
	}
	return fmt.Sprintf(format, escaped...)
}

// text is what a pointer points at; empty for none.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Ptr is a pointer to a value, for members that may be left out though their zero value means something.
func Ptr[T any](v T) *T { return &v }

// doRaw is do for a result that has no type.
func doRaw(ctx context.Context, client *Client, c call, keyed bool, options []CallOption) (json.RawMessage, error) {
	result, err := do[json.RawMessage](ctx, client, c, keyed, options)
	if err != nil {
		return nil, err
	}
	return *result, nil
}
