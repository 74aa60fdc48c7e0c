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
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/version"
)

// Call is a request to the API.
type Call struct {
	Method, Path string
	Query        url.Values
	// Body is sent as JSON; a json.RawMessage as it stands.
	Body           any
	Header         http.Header
	IdempotencyKey string
}

// Reply is an answer of the API that is not a problem.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get reads something into a value; nil reads it only.
func (a *App) Get(ctx context.Context, path string, query url.Values, into any) (Reply, error) {
	return a.Do(ctx, Call{Method: http.MethodGet, Path: path, Query: query}, into)
}

// Send makes a call with a body and reads the answer into a value; nil reads it only.
func (a *App) Send(ctx context.Context, method, path string, body, into any) (Reply, error) {
	return a.Do(ctx, Call{Method: method, Path: path, Body: body}, into)
}

// Do makes a call and reads the answer into a value; nil reads it only. A refusal is a *Problem.
func (a *App) Do(ctx context.Context, c Call, into any) (Reply, error) {
	client, err := a.Client()
	if err != nil {
		return Reply{}, err
	}
	res, err := client.Request(ctx, stagedoor.Request{Method: c.Method, Path: c.Path, Query: c.Query, Body: c.Body, Header: c.Header, IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return Reply{}, a.Failed(ctx, err)
	}
	reply := Reply{res.Status, res.Header, res.Body}
	if into != nil {
		if err := json.Unmarshal(reply.Body, into); err != nil {
			return Reply{}, fmt.Errorf("the answer of %s %s is not what this version expects: %w", c.Method, c.Path, err)
		}
	}
	return reply, nil
}

// Client is the Go client for the identity of this command. Without --retry it tells every refusal at once.
func (a *App) Client() (*stagedoor.Client, error) {
	p, err := a.Identity()
	if err != nil {
		return nil, err
	}
	retries := -1
	if a.Retry {
		retries = patience
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

// patience is how often --retry tries again.
const patience = 5

// Failed turns an error of the client into one that this program reports.
func (a *App) Failed(ctx context.Context, err error) error {
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

// tracer tells under --debug what is asked, without bodies, queries and headers: they hold secrets.
type tracer struct{ app *App }

// RoundTrip makes a request.
func (t tracer) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.app.HTTP
	if base == nil {
		base = &http.Transport{}
	}
	begun := t.app.Now()
	res, err := base.RoundTrip(req)
	if t.app.Debug {
		took := out.Short(t.app.Now().Sub(begun))
		line := fmt.Sprintf("· %s %s → %v  %s", req.Method, req.URL.Path, err, took)
		if err == nil {
			line = fmt.Sprintf("· %s %s → %d  %s  %s", req.Method, req.URL.Path, res.StatusCode, took, res.Header.Get("X-Request-Id"))
		}
		t.app.Out.Alert("%s", t.app.Out.Err(out.Faint, line))
	}
	return res, err
}

// Unreachable is the fault of a server that did not answer.
func Unreachable(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text repeats the URL with its query
	}
	return &Fault{Code: ExitOther, Text: "no answer from " + base + ": " + err.Error(), Hint: "Is the server running, and is this its address? Change it with --base-url or stagedoor login --url.", Err: err}
}

func readProblem(refused *stagedoor.Problem) error {
	p := &Problem{}
	if json.Unmarshal(refused.Raw, p) != nil || p.Code == "" {
		// Something in between answered, such as a proxy.
		text := out.Cut(out.OneLine(strings.TrimSpace(string(refused.Raw))), 200)
		return &Fault{Code: ExitOther, Text: fmt.Sprintf("the server answered %d without a problem document: %s", refused.Status, text)}
	}
	p.Raw = refused.Raw
	if p.Instance == "" {
		p.Instance = refused.RequestID
	}
	return p
}

// CleanURL checks the origin of a server.
func CleanURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return "", Usage("%q is not the address of a server; write it like https://api.example.com", text)
	}
	return u.String(), nil
}

// NewKey is a fresh idempotency key.
func NewKey() string { return uuid.NewString() }
