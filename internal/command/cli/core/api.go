package core

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
	"github.com/stagedoor/stagedoor/version"
)

// API returns an API client with this command's identity. It retries only with --retry. If there is no valid identity,
// every call fails with the reason.
func (a *App) API() *stagedoor.Client {
	options := stagedoor.Options{
		UserAgent: "stagedoor-cli/" + version.String(), MaxRetries: -1, HTTPClient: &http.Client{Transport: tracer{a}},
	}
	if a.Retry {
		options.MaxRetries = maxRetries
	}
	p, err := a.Identity()
	if err == nil {
		options.APIKey, options.BaseURL = p.Key.Reveal(), p.BaseURL
		client, invalid := stagedoor.New(options)
		if invalid == nil {
			return client
		}
		err = &Fault{Code: ExitUsage, Text: strings.TrimPrefix(invalid.Error(), "stagedoor: ")}
	}
	client, _ := stagedoor.New(stagedoor.Options{ // cannot fail: key and address are valid
		APIKey: "none", BaseURL: profile.DefaultURL, MaxRetries: -1, HTTPClient: &http.Client{Transport: refusal{err}},
	})
	return client
}

// Keep makes a call keep its response for PrintResponse.
func (a *App) Keep() stagedoor.CallOption { return stagedoor.WithResponse(&a.response) }

// PrintResponse prints the response that the last call kept (see Keep), if --json is set. err is the error of that call:
// if it is not nil, nothing is printed. PrintResponse returns err.
func (a *App) PrintResponse(err error) error {
	if a.Out.JSON && err == nil {
		a.Out.Body(a.response.Body)
	}
	return err
}

// PrintDone is PrintResponse with --json, and otherwise reports a completed change.
func (a *App) PrintDone(format string, args ...any) error {
	if !a.Out.JSON {
		a.Out.Done(format, args...)
	}
	return a.PrintResponse(nil)
}

// refusal is the transport of a client that has no identity. Every request fails with its error.
type refusal struct{ err error }

func (r refusal) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

// maxRetries limits the retries of one request with --retry.
const maxRetries = 5

// Explain returns the fault for a call that got no response, or one that did not come from the API. It returns any
// other error unchanged.
func (a *App) Explain(err error) error {
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok && p.Code == "" {
		// A proxy in between responded, for example.
		text := output.Cut(output.OneLine(strings.TrimSpace(string(p.Raw))), 200)
		return &Fault{Code: ExitOther,
			Text: fmt.Sprintf("the server returned %d without a problem document: %s", p.Status, text)}
	}
	broken, ok := errors.AsType[*stagedoor.ConnectionError](err)
	if !ok {
		return err
	}
	if f, refused := errors.AsType[*Fault](broken); refused {
		return f
	}
	p, err := a.Identity()
	if err != nil {
		return err
	}
	return Unreachable(p.BaseURL, broken.Err)
}

// transport is shared by all requests, so that they reuse connections.
var transport = &http.Transport{}

// tracer is the transport of all requests. With --debug it logs method, path, status and duration. Bodies, queries and
// headers are never logged because they may hold secrets.
type tracer struct{ app *App }

func (t tracer) RoundTrip(req *http.Request) (*http.Response, error) {
	var base http.RoundTripper = transport
	if t.app.HTTP != nil {
		base = t.app.HTTP
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

// Unreachable returns the fault for a server that did not respond.
func Unreachable(base string, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text repeats the URL with its query
	}
	return &Fault{
		Code: ExitOther, Text: "no response from " + base + ": " + err.Error(), Err: err,
		Hint: "Check that the server is running. Change its address with --base-url or stagedoor login --url.",
	}
}

// CleanURL checks a server's base URL and removes trailing slashes.
func CleanURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return "", Usage("%q is not a server URL, such as https://api.example.com", text)
	}
	return u.String(), nil
}
