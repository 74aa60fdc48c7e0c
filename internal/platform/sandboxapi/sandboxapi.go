// Package sandboxapi is a client for the control API of the sandbox platform (docs/sandbox.md). It makes a session end,
// a fan write or a creator's phone approve a sign-in.
//
// The sandbox server runs next to the nodes, and its control API answers on loopback only. These requests are not
// traffic of an account and never use the platform's own API, so they alone do not leave through egress.
package sandboxapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	// maxResponse bounds a response in bytes, callTimeout the time of a request.
	maxResponse = 1 << 20
	callTimeout = 5 * time.Second
)

// ErrUnavailable means that the sandbox did not respond, or not as expected.
var ErrUnavailable = errors.New("the sandbox does not answer")

// Refused is the error for a request that the sandbox rejected.
type Refused struct {
	Status  int
	Code    int
	Field   string
	Message string
}

// Error returns a text for logs.
func (r *Refused) Error() string {
	return fmt.Sprintf("the sandbox refused with %d (%d): %s", r.Status, r.Code, r.Message)
}

// Client sends requests to the control API of one sandbox. It is safe for concurrent use.
type Client struct {
	origin string
	http   *http.Client
}

// New returns a client for the sandbox at an origin.
func New(origin string) *Client {
	return &Client{origin: strings.TrimSuffix(origin, "/"), http: &http.Client{
		// No proxy, because the sandbox is on this machine.
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
		Timeout:   callTimeout,
	}}
}

func (c *Client) Origin() string { return c.origin }

func (c *Client) Close() { c.http.CloseIdleConnections() }

// Session is the session of a signed-in browser.
type Session struct {
	// Cookie is the value of the Cookie header.
	Cookie    secret.String
	UserAgent string
	// Headers must be sent with the cookies.
	Headers map[string]string
}

// OpenSession creates a session for a login, as if the creator had signed in with a browser.
func (c *Client) OpenSession(ctx context.Context, login string) (Session, error) {
	var out struct {
		Cookie    secret.String     `json:"cookie"`
		UserAgent string            `json:"user_agent"`
		Headers   map[string]string `json:"headers"`
	}
	err := c.post(ctx, "sessions", map[string]any{"login": login}, &out)
	return Session{out.Cookie, out.UserAgent, out.Headers}, err
}

// EndSessions ends all sessions of a creator, given by the platform's id.
func (c *Client) EndSessions(ctx context.Context, creator string) error {
	return c.post(ctx, "sessions/end", map[string]any{"user_id": creator}, nil)
}

// Happening is something that happens on the platform, such as a tip of a fan. Only What is required.
type Happening struct {
	// What is the name of the frame that it causes.
	What string
	// User is the fan and Ref the object concerned, both by the platform's ids.
	User, Ref string
	Text      string
	Reason    string
	Cents     int64
	Count     int
	// Alone suppresses the frames of side effects, such as the transaction of a tip.
	Alone bool
}

// Happen makes something happen to a creator, given by the platform's id.
func (c *Client) Happen(ctx context.Context, creator string, h Happening) error {
	body := map[string]any{"creator_id": creator, "what": h.What, "alone": h.Alone}
	for name, text := range map[string]string{"text": h.Text, "reason": h.Reason} {
		if text != "" {
			body[name] = text
		}
	}
	for name, number := range map[string]string{"user_id": h.User, "ref_id": h.Ref} {
		if number != "" {
			body[name] = json.Number(number)
		}
	}
	if h.Cents != 0 {
		body["amount"] = json.Number(fmt.Sprintf("%d.%02d", h.Cents/100, h.Cents%100))
	}
	if h.Count != 0 {
		body["count"] = h.Count
	}
	return c.post(ctx, "happen", body, nil)
}

// AnswerQR acts as the creator's phone. The action is scan, approve or deny. The handle is the last part of the URL
// in the QR code. The URL changes over time, but the part of the handle before its dot stays the same.
func (c *Client) AnswerQR(ctx context.Context, handle, action string) error {
	id, _, _ := strings.Cut(handle, ".")
	return c.post(ctx, "qr/"+url.PathEscape(id)+"/"+url.PathEscape(action), map[string]any{}, nil)
}

// TakeSelfie acts as the creator's camera. The handle is the last part of the challenge's page.
func (c *Client) TakeSelfie(ctx context.Context, handle string, passed bool) error {
	return c.post(ctx, "selfies/"+url.PathEscape(handle), map[string]any{"passed": passed}, nil)
}

// Fault is a failure that the sandbox simulates for one creator.
type Fault struct {
	// Kind is one of the sandbox's kinds, such as latency, rate_limit, error or challenge.
	Kind string
	// Value depends on the kind: milliseconds, seconds or a status.
	Value int
	// Count is how often the fault occurs and For how long it lasts. 0 means no limit.
	Count int
	For   time.Duration
}

// Trouble starts a fault for a creator, given by the platform's id.
func (c *Client) Trouble(ctx context.Context, creator string, f Fault) error {
	return c.post(ctx, "faults", map[string]any{"user_id": creator, "kind": f.Kind, "value": f.Value, "count": f.Count, "for_sec": f.For.Seconds()}, nil)
}

// Calm ends all faults of a creator and returns how many there were.
func (c *Client) Calm(ctx context.Context, creator string) (int, error) {
	var out struct {
		Cleared int `json:"cleared"`
	}
	err := c.send(ctx, http.MethodDelete, "faults?user_id="+url.QueryEscape(creator), nil, &out)
	return out.Cleared, err
}

// Generate makes events happen to a creator at a rate, for a time. A second call replaces the first.
func (c *Client) Generate(ctx context.Context, creator string, perSecond float64, lasting time.Duration) error {
	return c.post(ctx, "generate", map[string]any{"user_id": creator, "events_per_sec": perSecond, "for_sec": lasting.Seconds()}, nil)
}

func (c *Client) StopGenerating(ctx context.Context, creator string) (bool, error) {
	var out struct {
		Stopped bool `json:"stopped"`
	}
	err := c.send(ctx, http.MethodDelete, "generate?user_id="+url.QueryEscape(creator), nil, &out)
	return out.Stopped, err
}

// post sends a body and decodes the response.
func (c *Client) post(ctx context.Context, path string, body map[string]any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a sandbox request: %w", err)
	}
	return c.send(ctx, http.MethodPost, path, text, into)
}

// send sends a request and decodes the response into a value, unless it is nil.
func (c *Client) send(ctx context.Context, method, path string, text []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.origin+"/control/"+path, bytes.NewReader(text))
	if err != nil {
		return errors.New("make a sandbox request: the sandbox's URL is not valid")
	}
	// The control API accepts no other host, so that web pages in a local browser cannot reach it.
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		// The standard library's error contains the URL, and with it the token of a challenge.
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err
		}
		return errors.Join(ErrUnavailable, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return refusedError(res.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return errors.Join(ErrUnavailable, fmt.Errorf("decode the response of %s: %w", path, err))
	}
	return nil
}

// refusedError returns a *Refused, or ErrUnavailable if the response is not a refusal of the sandbox.
func refusedError(status int, answer []byte) error {
	var doc struct {
		Error struct {
			Code    int    `json:"code"`
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &doc) != nil || doc.Error.Code == 0 || status >= http.StatusInternalServerError {
		return fmt.Errorf("%w: status %d", ErrUnavailable, status)
	}
	return &Refused{Status: status, Code: doc.Error.Code, Field: doc.Error.Field, Message: doc.Error.Message}
}
