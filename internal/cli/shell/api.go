package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stagedoor/stagedoor/internal/cli/out"
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
	p, err := a.Identity()
	if err != nil {
		return Reply{}, err
	}
	reply, err := a.roundTrip(ctx, p.BaseURL, p.Key.Reveal(), c)
	if err != nil {
		return Reply{}, err
	}
	if into != nil {
		if err := json.Unmarshal(reply.Body, into); err != nil {
			return Reply{}, fmt.Errorf("the answer of %s %s is not what this version expects: %w", c.Method, c.Path, err)
		}
	}
	return reply, nil
}

func (a *App) roundTrip(ctx context.Context, base, key string, c Call) (Reply, error) {
	var body io.Reader
	if c.Body != nil {
		text, err := json.Marshal(c.Body)
		if err != nil {
			return Reply{}, fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	target := base + c.Path
	if len(c.Query) > 0 {
		target += "?" + c.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, target, body)
	if err != nil {
		return Reply{}, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if c.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", c.IdempotencyKey)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("User-Agent", "stagedoor-cli/"+Version)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	begun := a.Now()
	res, err := (&http.Client{Transport: a.HTTP}).Do(req)
	if err != nil {
		return Reply{}, Unreachable(ctx, base, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return Reply{}, Unreachable(ctx, base, err)
	}
	a.trace(c, res.StatusCode, res.Header.Get("X-Request-Id"), a.Now().Sub(begun))
	if res.StatusCode >= 400 {
		return Reply{}, readProblem(res.StatusCode, res.Header, text)
	}
	return Reply{res.StatusCode, res.Header, text}, nil
}

// trace tells under --debug what was asked, without bodies and headers: they hold secrets.
func (a *App) trace(c Call, status int, id string, took time.Duration) {
	if a.Debug {
		a.Out.Alert("%s", a.Out.Err(out.Faint, fmt.Sprintf("· %s %s → %d  %s  %s", c.Method, c.Path, status, out.Short(took), id)))
	}
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

func readProblem(status int, header http.Header, body []byte) error {
	p := &Problem{Status: status}
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		// Something in between answered, such as a proxy.
		text := out.Cut(out.OneLine(strings.TrimSpace(string(body))), 200)
		return &Fault{Code: ExitOther, Text: fmt.Sprintf("the server answered %d without a problem document: %s", status, text)}
	}
	p.Raw = body
	if p.Instance == "" {
		p.Instance = header.Get("X-Request-Id")
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
