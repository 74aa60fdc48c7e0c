// Package stagedoor is the Go client of Stagedoor's API.
//
// A Client holds the key. Its fields are the parts of the interface itself: Accounts, Connect, Webhooks, Events, Keys and
// so on. Account gives what can be done on one connected account: the platform's methods by resource, its files, its events.
//
//	client, err := stagedoor.New(stagedoor.Options{}) // STAGEDOOR_API_KEY, STAGEDOOR_URL
//	account := client.Account("acct_01k9x5ahzre4bb3069xb2way0g")
//	message, err := account.Messages.Send(ctx, stagedoor.MessagesSendParams{ChatID: chat, Text: "Hi"})
//	for message, err := range account.Messages.ListAll(ctx, stagedoor.MessagesListParams{ChatID: chat}) { … }
//	for event, err := range account.Stream(ctx, stagedoor.StreamOptions{}).All() { … }
//
// A call that fails with an answer returns a *Problem, one that fails without an answer a *ConnectionError. Calls are
// repeated only where the service says that it helps, and a call that writes only with an idempotency key, which it gets
// by itself.
package stagedoor

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Version is this library's.
const Version = "0.1.0"

const (
	defaultURL     = "https://api.stagedoor.example"
	defaultRetries = 2
	defaultTimeout = 60 * time.Second
)

// Options says how to reach the service. The zero value takes everything from the environment.
type Options struct {
	// APIKey is STAGEDOOR_API_KEY if it is empty.
	APIKey string
	// BaseURL is scheme and host; STAGEDOOR_URL if it is empty.
	BaseURL string
	// MaxRetries is how often a call is repeated at most: 2 if it is 0, never if it is negative.
	MaxRetries int
	// Timeout is for one try of a call, not for streams and files; a minute if it is 0.
	Timeout time.Duration
	// HTTPClient sends the requests; one of its own if it is nil.
	HTTPClient *http.Client
	// UserAgent stands before the library's own name.
	UserAgent string
}

// Client calls the API with a key. It is safe for use by several goroutines; make one and keep it.
type Client struct {
	Groups

	base      string
	key       string
	retries   int
	timeout   time.Duration
	http      *http.Client
	userAgent string
	pace      pace
}

// New makes a client. It fails if the base URL is none; it does not connect.
func New(o Options) (*Client, error) {
	if o.APIKey == "" {
		o.APIKey = os.Getenv("STAGEDOOR_API_KEY")
	}
	if o.BaseURL == "" {
		o.BaseURL = os.Getenv("STAGEDOOR_URL")
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultURL
	}
	base, err := url.Parse(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("stagedoor: the base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("stagedoor: the base URL %q has no http or https, or no host", o.BaseURL)
	}
	if strings.ContainsAny(o.APIKey, "\r\n \t") {
		return nil, errors.New("stagedoor: the API key has white space in it")
	}
	c := &Client{
		base: strings.TrimRight(o.BaseURL, "/"), key: o.APIKey, retries: o.MaxRetries, timeout: o.Timeout, http: o.HTTPClient,
		userAgent: strings.TrimSpace(o.UserAgent + " stagedoor-go/" + Version), pace: realPace,
	}
	switch {
	case c.retries == 0:
		c.retries = defaultRetries
	case c.retries < 0:
		c.retries = 0
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.http == nil {
		c.http = &http.Client{Transport: transport()}
	}
	c.Groups = newGroups(c)
	return c, nil
}

func transport() http.RoundTripper {
	own, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own = own.Clone()
	own.MaxIdleConnsPerHost = 16
	return own
}

// BaseURL is where the client sends its requests.
func (c *Client) BaseURL() string { return c.base }

// AccountClient calls on one connected account. Its fields are the platform's resources.
type AccountClient struct {
	Resources
	// Media carries the account's files.
	Media *MediaService
	// ID is the account's.
	ID string

	client *Client
}

// Account gives what can be done on a connected account. It asks nothing of the service.
func (c *Client) Account(id string) *AccountClient {
	a := &AccountClient{ID: id, client: c}
	a.Resources = newResources(a)
	a.Media = &MediaService{account: a}
	return a
}
