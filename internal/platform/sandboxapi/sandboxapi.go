// Package sandboxapi orders things of the sandbox platform: that a session ends, that a fan writes, that a creator's phone approves.
//
// It speaks to the control API of our own sandbox server (docs/sandbox.md), which stands beside the nodes and answers on loopback only. What
// it asks for is not traffic of an account, and the platform's own interface is never used here: that is why it alone does not leave
// through egress.
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
	// answerAtMost bounds an answer, callAtMost how long it is waited for.
	answerAtMost = 1 << 20
	callAtMost   = 5 * time.Second
)

// ErrUnavailable means that the sandbox did not answer, or not as expected.
var ErrUnavailable = errors.New("the sandbox does not answer")

// Refused is the sandbox's own no.
type Refused struct {
	Status  int
	Code    int
	Field   string
	Message string
}

// Error is the text for logs.
func (r *Refused) Error() string {
	return fmt.Sprintf("the sandbox refused with %d (%d): %s", r.Status, r.Code, r.Message)
}

// Client orders things of one sandbox.
type Client struct {
	origin string
	http   *http.Client
}

// New makes a client of the sandbox at an origin.
func New(origin string) *Client {
	return &Client{origin: strings.TrimSuffix(origin, "/"), http: &http.Client{
		// No proxy of any kind: it is on this machine.
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
		Timeout:   callAtMost,
	}}
}

// Origin is where the sandbox is.
func (c *Client) Origin() string { return c.origin }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Session is a signed-in browser of a login.
type Session struct {
	Cookie    secret.String
	UserAgent string
	// Headers go with the cookies.
	Headers map[string]string
}

// OpenSession gives a fresh session of a login, as if somebody had signed in with a browser.
func (c *Client) OpenSession(ctx context.Context, login string) (Session, error) {
	var out struct {
		Cookie    secret.String     `json:"cookie"`
		UserAgent string            `json:"user_agent"`
		Headers   map[string]string `json:"headers"`
	}
	err := c.order(ctx, "sessions", map[string]any{"login": login}, &out)
	return Session{out.Cookie, out.UserAgent, out.Headers}, err
}

// EndSessions ends all sessions of a creator, by the platform's id.
func (c *Client) EndSessions(ctx context.Context, creator string) error {
	return c.order(ctx, "sessions/end", map[string]any{"user_id": creator}, nil)
}

// Happening is something that the world outside does. Only What must be given.
type Happening struct {
	// What is the name of the frame that it causes.
	What string
	// User is the fan, Ref what it is about, both by the platform's ids.
	User, Ref string
	Text      string
	Reason    string
	Cents     int64
	Count     int
	// Alone keeps the platform from telling of what else comes of it, such as the transaction of a tip.
	Alone bool
}

// Happen makes it happen to a creator.
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
	return c.order(ctx, "happen", body, nil)
}

// AnswerQR plays the creator's phone: action is scan, approve or deny. The handle is the end of the address that a QR code shows; it changes,
// and what is before the dot does not.
func (c *Client) AnswerQR(ctx context.Context, handle, action string) error {
	id, _, _ := strings.Cut(handle, ".")
	return c.order(ctx, "qr/"+url.PathEscape(id)+"/"+url.PathEscape(action), map[string]any{}, nil)
}

// TakeSelfie plays the creator's camera.
func (c *Client) TakeSelfie(ctx context.Context, handle string, passed bool) error {
	return c.order(ctx, "selfies/"+url.PathEscape(handle), map[string]any{"passed": passed}, nil)
}

// Fault is trouble that the platform makes for one creator.
type Fault struct {
	// Kind is one of the platform's: latency, rate_limit, error, challenge and others.
	Kind string
	// Value is what the kind wants: milliseconds, seconds, a status.
	Value int
	// Count is how often it strikes and For how long it lasts; 0 for always.
	Count int
	For   time.Duration
}

// Trouble orders a fault for a creator, by the platform's id.
func (c *Client) Trouble(ctx context.Context, creator string, f Fault) error {
	return c.order(ctx, "faults", map[string]any{"user_id": creator, "kind": f.Kind, "value": f.Value, "count": f.Count, "for_sec": f.For.Seconds()}, nil)
}

// Calm ends the faults of a creator, and says how many there were.
func (c *Client) Calm(ctx context.Context, creator string) (int, error) {
	var out struct {
		Cleared int `json:"cleared"`
	}
	err := c.send(ctx, http.MethodDelete, "faults?user_id="+url.QueryEscape(creator), nil, &out)
	return out.Cleared, err
}

// Generate makes things happen to a creator at a rate, for a while. A second order replaces the first.
func (c *Client) Generate(ctx context.Context, creator string, perSecond float64, lasting time.Duration) error {
	return c.order(ctx, "generate", map[string]any{"user_id": creator, "events_per_sec": perSecond, "for_sec": lasting.Seconds()}, nil)
}

// StopGenerating ends that, and says whether something ran.
func (c *Client) StopGenerating(ctx context.Context, creator string) (bool, error) {
	var out struct {
		Stopped bool `json:"stopped"`
	}
	err := c.send(ctx, http.MethodDelete, "generate?user_id="+url.QueryEscape(creator), nil, &out)
	return out.Stopped, err
}

// order sends one order and reads what comes back.
func (c *Client) order(ctx context.Context, path string, body map[string]any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an order: %w", err)
	}
	return c.send(ctx, http.MethodPost, path, text, into)
}

func (c *Client) send(ctx context.Context, method, path string, text []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.origin+"/control/"+path, bytes.NewReader(text))
	if err != nil {
		return errors.New("make an order: the sandbox has no valid address")
	}
	req.Host = "localhost" // control answers to no other name, so that no page of a browser here can reach it
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		// The error of the standard library repeats the address, and with it the token of a challenge.
		if told, ok := errors.AsType[*url.Error](err); ok {
			err = told.Err
		}
		return errors.Join(ErrUnavailable, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerAtMost))
	if err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return refusal(res.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return errors.Join(ErrUnavailable, fmt.Errorf("read what %s answered: %w", path, err))
	}
	return nil
}

func refusal(status int, answer []byte) error {
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
