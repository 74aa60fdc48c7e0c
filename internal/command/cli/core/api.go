package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/version"
)

// Call is a request to the API.
type Call struct {
	Method, Path string
	Query        url.Values
	// Body is encoded as JSON. A json.RawMessage is sent unchanged.
	Body           any
	Header         http.Header
	IdempotencyKey string
}

// Reply is a response of the API that is not a problem.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get sends a GET request and decodes the response into a value, unless that is nil.
func (a *App) Get(ctx context.Context, path string, query url.Values, into any) (Reply, error) {
	return a.Do(ctx, Call{Method: http.MethodGet, Path: path, Query: query}, into)
}

// Send sends a request with a body and decodes the response into a value, unless that is nil.
func (a *App) Send(ctx context.Context, method, path string, body, into any) (Reply, error) {
	return a.Do(ctx, Call{Method: method, Path: path, Body: body}, into)
}

// Do sends a request and decodes the response into a value, unless that is nil. A problem response is returned as a
// *Problem, a failed connection as a *Fault.
func (a *App) Do(ctx context.Context, c Call, into any) (Reply, error) {
	client, err := a.Client()
	if err != nil {
		return Reply{}, err
	}
	res, err := client.Request(ctx, stagedoor.Request{Method: c.Method, Path: c.Path, Query: c.Query, Body: c.Body, Header: c.Header, IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return Reply{}, a.ClientError(ctx, err)
	}
	reply := Reply{res.Status, res.Header, res.Body}
	if into != nil {
		if err := json.Unmarshal(reply.Body, into); err != nil {
			return Reply{}, fmt.Errorf("cannot read the response of %s %s: %w", c.Method, c.Path, err)
		}
	}
	return reply, nil
}

// Client returns an API client with this command's identity. It retries only with --retry.
func (a *App) Client() (*stagedoor.Client, error) {
	p, err := a.Identity()
	if err != nil {
		return nil, err
	}
	retries := -1
	if a.Retry {
		retries = maxRetries
	}
	client, err := stagedoor.New(stagedoor.Options{
		APIKey: p.Key.Reveal(), BaseURL: p.BaseURL, MaxRetries: retries, UserAgent: "stagedoor-cli/" + version.String(),
		HTTPClient: &http.Client{Transport: tracer{a}},
	})
	if err != nil {
		return nil, &Fault{Code: ExitUsage, Text: strings.TrimPrefix(err.Error(), "stagedoor: ")}
	}
	return client, nil
}

// maxRetries limits the retries of one request with --retry.
const maxRetries = 5

// ClientError converts an error of the Go client into one that Report prints: the context's error if it ended, a
// *Problem, or a *Fault.
func (a *App) ClientError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused, ok := errors.AsType[*stagedoor.Problem](err); ok {
		return readProblem(refused)
	}
	if broken, ok := errors.AsType[*stagedoor.ConnectionError](err); ok {
		p, idErr := a.Identity()
		if idErr != nil {
			return idErr
		}
		return Unreachable(ctx, p.BaseURL, broken.Err)
	}
	return err
}

// tracer is the transport of all requests. With --debug it logs method, path, status and duration. Bodies, queries and
// headers are never logged because they may hold secrets.
type tracer struct{ app *App }

// RoundTrip implements http.RoundTripper.
func (t tracer) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.app.HTTP
	if base == nil {
		base = &http.Transport{}
	}
	begun := t.app.Now()
	res, err := base.RoundTrip(req)
	if t.app.Debug {
		took := output.Short(t.app.Now().Sub(begun))
		line := fmt.Sprintf("· %s %s → %v  %s", req.Method, req.URL.Path, err, took)
		if err == nil {
			line = fmt.Sprintf("· %s %s → %d  %s  %s", req.Method, req.URL.Path, res.StatusCode, took, res.Header.Get("X-Request-Id"))
		}
		t.app.Out.Alert("%s", t.app.Out.Err(output.Faint, line))
	}
	return res, err
}

// Unreachable returns the fault for a server that did not respond, or the context's error if it ended.
func Unreachable(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text repeats the URL with its query
	}
	return &Fault{
		Code: ExitOther, Text: "no response from " + base + ": " + err.Error(), Err: err,
		Hint: "Check that the server is running. Change its address with --base-url or stagedoor login --url.",
	}
}

func readProblem(refused *stagedoor.Problem) error {
	p := &Problem{}
	if json.Unmarshal(refused.Raw, p) != nil || p.Code == "" {
		// Not from the API: a proxy in between responded, for example.
		text := output.Cut(output.OneLine(strings.TrimSpace(string(refused.Raw))), 200)
		return &Fault{Code: ExitOther,
			Text: fmt.Sprintf("the server returned %d without a problem document: %s", refused.Status, text)}
	}
	p.Raw = refused.Raw
	if p.Instance == "" {
		p.Instance = refused.RequestID
	}
	return p
}

// CleanURL checks a server's base URL and removes trailing slashes.
func CleanURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return "", Usage("%q is not a server URL, such as https://api.example.com", text)
	}
	return u.String(), nil
}

// NewIdempotencyKey returns a random idempotency key.
func NewIdempotencyKey() string { return uuid.NewString() }
