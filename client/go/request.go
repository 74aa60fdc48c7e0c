package stagedoor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Request is a request to the API, for operations that the client has no method for.
type Request struct {
	// Method is the HTTP method. Default: GET.
	Method string
	// Path starts with a slash, such as /v1/me.
	Path  string
	Query url.Values
	// Body is nil, []byte or json.RawMessage to send unchanged, or a value to send as JSON.
	Body any
	// Header holds additional headers.
	Header http.Header
	// IdempotencyKey makes the service carry out a write only once, however often it is sent.
	IdempotencyKey string
	// Repeatable means that it is safe to send the request twice, although it is no GET and has no idempotency key.
	Repeatable bool
	// MaxRetries limits the retries. Default: the client's limit. Negative means none.
	MaxRetries int
}

// Response is a response with a status below 400.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// RequestID returns the id that identifies the request in logs and to support.
func (r *Response) RequestID() string { return r.Header.Get("X-Request-Id") }

// JSON decodes the body into v.
func (r *Response) JSON(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("stagedoor: cannot decode the response to %s: %w", r.RequestID(), err)
	}
	return nil
}

// Request sends a request and reads the complete response. It retries as described in the package comment. An error
// response is returned as a *Problem, a missing response as a *ConnectionError.
func (c *Client) Request(ctx context.Context, r Request) (*Response, error) {
	body, contentType, err := encodeBody(r.Body)
	if err != nil {
		return nil, err
	}
	retries := c.retries
	if r.MaxRetries != 0 {
		retries = max(r.MaxRetries, 0)
	}
	safe := r.Repeatable || r.IdempotencyKey != "" || r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead
	for try := 0; ; try++ {
		res, err := c.try(ctx, r, body, contentType)
		if err == nil {
			return res, nil
		}
		wait, again := c.timing.retryAfter(err, try, safe)
		if !again || try >= retries {
			return nil, err
		}
		if err := c.timing.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r Request, body []byte, contentType string) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := c.newRequest(ctx, r, reader)
	if err != nil {
		return nil, err
	}
	if contentType != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, &ConnectionError{Err: err}
	}
	return &Response{Status: res.StatusCode, Header: res.Header, Body: all}, nil
}

func (c *Client) newRequest(ctx context.Context, r Request, body io.Reader) (*http.Request, error) {
	if !strings.HasPrefix(r.Path, "/") {
		return nil, fmt.Errorf("stagedoor: the path %q does not start with a slash", r.Path)
	}
	address := c.base + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	method := cmp.Or(r.Method, http.MethodGet)
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("stagedoor: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, nil
}

// send sends a request once and returns an error response as a *Problem. The caller closes the body of a success.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &ConnectionError{Err: err}
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, &ConnectionError{Err: err}
	}
	return nil, newProblem(res.StatusCode, res.Header, body)
}

func encodeBody(body any) (data []byte, contentType string, err error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case []byte:
		return b, "application/json", nil
	case json.RawMessage:
		return b, "application/json", nil
	}
	data, err = json.Marshal(body)
	if err != nil {
		return nil, "", fmt.Errorf("stagedoor: encode the request: %w", err)
	}
	return data, "application/json", nil
}

// newIdempotencyKey returns a random UUID.
func newIdempotencyKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// maxRetryDelay limits the wait before a retry. If the service asks for more, the call returns the problem instead.
const maxRetryDelay = 60 * time.Second
